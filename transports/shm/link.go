package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/phase"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// A link is one lane's Unix socket, when the worker was let in. It carries
// descriptors, at Dial and, with pass=fd, with every update; and its end tells either
// side that the other one is gone.
//
// It starts with three packets: the server's welcome with descriptors, and ready
// from each: when the worker has mapped its memory, and when the server has sealed it
// against further writers. Whoever gives the other one up says why in a last packet,
// a refusal.
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

	goodbye = time.Second // for a refusal

	// Packets start with a letter.
	welcomed = 'w' // and what only the driver understands
	refused  = 'r' // and why
	passed   = 'd' // and whose descriptors they are
	agreed   = "agreed"
)

func newLink(c net.Conn, rec *phase.Recorder) *link {
	return &link{
		conn: c.(*net.UnixConn), sent: rec.Counter(phase.WireSent), received: rec.Counter(phase.WireReceived),
		packet: make([]byte, maxPacket), rights: make([]byte, unix.CmsgSpace(4*(maxFiles+3))),
	}
}

// send sends one packet with the descriptors of memory.
func (l *link) send(packet []byte, memory ...*slab.Memory) error {
	if len(packet) > maxPacket || len(memory) > maxFiles {
		return fmt.Errorf("packet of %d bytes with %d descriptors: the limits are %d and %d", len(packet), len(memory), maxPacket, maxFiles)
	}
	var rights []byte
	if len(memory) > 0 {
		fds := make([]int, len(memory))
		for i, m := range memory {
			fds[i] = int(m.File().Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	n, _, err := l.conn.WriteMsgUnix(packet, rights, nil)
	l.sent.Add(n)
	return err
}

// receive returns the next packet, good until the next call, and its
// descriptors, which are the caller's. A refusal is an error, and so is a peer that
// has closed its end: io.EOF.
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
	case n == 0:
		err = io.EOF
	case l.packet[0] == refused:
		err = errors.New(string(l.packet[1:n]))
	}
	if err != nil {
		closeAll(files)
		return nil, nil, err
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

// refuse sends the peer the reason why it is given up, unless the peer or this side
// has closed its end.
func (l *link) refuse(why error) {
	if why == nil || parted(why) {
		return
	}
	packet := append([]byte{refused}, why.Error()...)
	l.conn.SetWriteDeadline(time.Now().Add(goodbye)) // it may not read
	_ = l.send(packet[:min(len(packet), maxPacket)])
}

// parted reports whether err is the end of a link as it should be.
func parted(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) }

// expect waits for the packet with which the server goes on: a letter, or more.
func (l *link) expect(ctx context.Context, start string) (rest string, files []*os.File, err error) {
	err = driver.During(ctx, l.conn, func() error {
		var b []byte
		if b, files, err = l.receive(); err != nil {
			return err
		}
		if len(b) < len(start) || string(b[:len(start)]) != start {
			return errMessage
		}
		rest = string(b[len(start):])
		return nil
	})
	if err != nil {
		closeAll(files)
		return "", nil, err
	}
	return rest, files, nil
}
