package link

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Congestion is the algorithm by which TCP reacts to loss on links. It is the one that the Internet
// knows best, and the same everywhere, so that results can be compared.
const Congestion = "cubic"

// equalize makes new connections over the device the same, whatever ran before. The algorithm is a
// property of the device's routes: a namespace may choose it there even if the kernel refuses a
// default of its own, and it applies to sockets of every library.
func equalize(device netlink.Link, table int) error {
	// 1: TCP does not keep what a connection has learned about its peer.
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_no_metrics_save", []byte("1"), 0); err != nil {
		return &Error{fmt.Sprintf("a connection on a link would begin with what earlier ones have learned: %v", err),
			"make /proc/sys writable: docker run --privileged, or --security-opt systempaths=unconfined"}
	}
	filter := netlink.Route{LinkIndex: device.Attrs().Index, Table: table}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	for _, route := range routes {
		route.Congctl = Congestion
		if e := netlink.RouteReplace(&route); e != nil {
			return &Error{fmt.Sprintf("a route with %s is refused: %v", Congestion, e), "modprobe tcp_cubic, as root"}
		}
	}
	return err
}

// readBack returns an error unless both ends of a connection from dial to listen use [Congestion].
func readBack(listen, dial string) error {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(listen)})
	if err != nil {
		return err
	}
	defer l.Close()
	_ = l.SetDeadline(time.Now().Add(8 * mostWait)) // fails only if closed
	_, port, _ := net.SplitHostPort(l.Addr().String())
	near, err := net.DialTimeout("tcp", net.JoinHostPort(dial, port), 4*mostWait)
	if err != nil {
		return err
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		return err
	}
	defer far.Close()
	for _, end := range []net.Conn{near, far} {
		used, err := option(end, func(fd int) (string, error) {
			return unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		})
		if err != nil || used != Congestion {
			return errors.Join(err, fmt.Errorf("TCP at %v uses %q instead of %s", end.LocalAddr(), used, Congestion))
		}
	}
	return nil
}

// option returns what get reads from the socket of c.
func option[T any](c net.Conn, get func(fd int) (T, error)) (value T, err error) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return value, err
	}
	if e := raw.Control(func(fd uintptr) { value, err = get(int(fd)) }); e != nil {
		return value, e
	}
	return value, err
}
