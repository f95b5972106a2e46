package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/phase"
	"ipcbench/transports/driver"
)

// A link is one lane's Unix socket. It carries descriptors, at Dial and, with
// pass=fd, with every update; and its end tells either side that the other one
// is gone.
//
// A connection starts with four packets: the worker's hello, the server's
// welcome with descriptors or a refusal, and ready from each: when the worker has
// mapped its memory, and when the server has sealed it against further writers.
// A server that gives a worker up says why in a last packet, a refusal.
type link struct {
	conn           *net.UnixConn
	sent, received *phase.Counter
	packet         []byte
	rights         []byte
}

const (
	network = "unixpacket"

	// maxPacket and maxFiles bound a packet. The kernel takes at most 253
	// descriptors in one message (SCM_MAX_FD).
	maxPacket = 4096
	maxFiles  = 250

	helloTimeout = 10 * time.Second // how long a new connection may keep silent
	goodbye      = time.Second
)

func newLink(c *net.UnixConn, rec *phase.Recorder) *link {
	return &link{
		conn: c, sent: rec.Counter(phase.WireSent), received: rec.Counter(phase.WireReceived),
		packet: make([]byte, maxPacket), rights: make([]byte, unix.CmsgSpace(4*(maxFiles+3))),
	}
}

// send sends one packet with descriptors.
func (l *link) send(packet []byte, files ...*os.File) error {
	if len(packet) > maxPacket || len(files) > maxFiles {
		return fmt.Errorf("packet of %d bytes with %d descriptors: the limits are %d and %d", len(packet), len(files), maxPacket, maxFiles)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	n, _, err := l.conn.WriteMsgUnix(packet, rights, nil)
	l.sent.Add(n)
	return err
}

// receive returns the next packet, good until the next call, and its
// descriptors, which are the caller's. A peer that closed its end is io.EOF.
func (l *link) receive() ([]byte, []*os.File, error) {
	n, rn, flags, _, err := l.conn.ReadMsgUnix(l.packet, l.rights)
	if err != nil {
		return nil, nil, err
	}
	l.received.Add(n)
	files, err := filesOf(l.rights[:rn])
	switch {
	case err != nil:
	case flags&unix.MSG_TRUNC != 0:
		err = errors.New("packet is too large")
	case flags&unix.MSG_CTRUNC != 0: // there was room for more than the kernel sends
		err = errors.New("descriptors were cut off: too many open files?")
	}
	if err != nil {
		closeAll(files)
		return nil, nil, err
	}
	if n == 0 {
		closeAll(files)
		return nil, nil, io.EOF
	}
	return l.packet[:n], files, nil
}

func filesOf(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "descriptor of the peer"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// refuse tells the peer why it is given up, if it can still be told and if it is
// not the peer that has closed its end, or this side.
func (l *link) refuse(why error) {
	if parted(why) {
		return
	}
	packet := append([]byte{refused}, why.Error()...)
	l.conn.SetWriteDeadline(time.Now().Add(goodbye)) // it may not read
	_ = l.send(packet[:min(len(packet), maxPacket)])
}

// refusal returns the error that a packet holds, if it is a refusal.
func refusal(packet []byte) error {
	if packet[0] != refused {
		return nil
	}
	return fmt.Errorf("refused: %s", packet[1:])
}

// parted reports whether err is the end of a link as it should be.
func parted(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) }

// obey makes the end of ctx end all I/O on the link, until stop is called.
func (l *link) obey(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { l.conn.SetDeadline(time.Unix(1, 0)) })
}

// A hello says who wants which lane of what.
type hello struct {
	lane     int
	down, up uint64 // digests of the layouts
	variant  string // transport and settings
}

const helloMagic = "ipcshm\x00\x01"

func helloOf(name string, lane int, o driver.Options) hello {
	return hello{lane: lane, down: o.Down.Digest(), up: o.Up.Digest(), variant: name + ":" + o.Settings.String()}
}

func (h hello) encode() []byte {
	b := append([]byte(nil), helloMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.lane))
	b = binary.LittleEndian.AppendUint64(b, h.down)
	b = binary.LittleEndian.AppendUint64(b, h.up)
	return append(b, h.variant...)
}

func decodeHello(b []byte) (hello, error) {
	const fixed = len(helloMagic) + 3*8
	if len(b) < fixed || string(b[:len(helloMagic)]) != helloMagic {
		return hello{}, fmt.Errorf("hello: %w", errMessage)
	}
	b = b[len(helloMagic):]
	return hello{
		lane: int(binary.LittleEndian.Uint64(b)),
		down: binary.LittleEndian.Uint64(b[8:]), up: binary.LittleEndian.Uint64(b[16:]),
		variant: string(b[24:]),
	}, nil
}

// check reports why h may not have the lane that it asks for.
func (h hello) check(own hello, lanes int) error {
	switch {
	case h.variant != own.variant:
		return fmt.Errorf("the server runs %s, the worker %s", own.variant, h.variant)
	case h.down != own.down || h.up != own.up:
		return errors.New("the server has another model")
	case h.lane < 0 || h.lane >= lanes:
		return fmt.Errorf("no lane %d: the session has %d", h.lane, lanes)
	}
	return nil
}

// A welcome is a text that only the store understands, or a refusal.
const (
	welcomed = 'w'
	refused  = 'r'
	agreed   = "agreed"
)

// agree tells the server that the worker has mapped its memory, and waits until
// the server has sealed it.
func (l *link) agree(ctx context.Context) error {
	stop := l.obey(ctx)
	err := l.send([]byte(agreed))
	if err == nil {
		var b []byte
		var files []*os.File
		if b, files, err = l.receive(); err == nil {
			err = refusal(b)
		}
		closeAll(files)
	}
	if !stop() && err != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = errGone
	}
	return err
}

// dial connects and shakes hands. It returns what the server's store sent.
func dial(ctx context.Context, addr string, h hello, rec *phase.Recorder) (l *link, text string, files []*os.File, err error) {
	c, err := driver.Dial(ctx, network, addr)
	if err != nil {
		return nil, "", nil, err
	}
	l = newLink(c.(*net.UnixConn), rec)
	stop := l.obey(ctx)
	var b []byte
	if err = l.send(h.encode()); err == nil {
		b, files, err = l.receive()
	}
	if !stop() && err != nil {
		err = context.Cause(ctx)
	}
	switch {
	case errors.Is(err, io.EOF):
		err = errGone
	case err != nil:
	case b[0] != welcomed:
		if err = refusal(b); err == nil {
			err = fmt.Errorf("welcome: %w", errMessage)
		}
	}
	if err != nil {
		closeAll(files)
		l.conn.Close()
		return nil, "", nil, err
	}
	return l, string(b[1:]), files, nil
}
