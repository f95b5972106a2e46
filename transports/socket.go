package transports

import "net"

// SocketBuffer is how many bytes may be on their way in a Unix socket. With it,
// a writer runs ahead of its reader and both work at the same time, where the
// kernel's default of 208 KiB makes them take turns; much more falls out of the
// processor's cache. The kernel grants at most net.core.wmem_max, which the
// result records.
const SocketBuffer = 1 << 20

// Enlarge gives a Unix socket its buffer, the same for every transport that sends
// tensors through one, so that none of them is compared by its tuning. Sockets of
// TCP tune themselves. A smaller buffer costs speed only, so there is no error.
func Enlarge(c net.Conn) {
	if u, ok := c.(*net.UnixConn); ok {
		_ = u.SetWriteBuffer(SocketBuffer) // see above
	}
}
