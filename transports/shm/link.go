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
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/slab"
)

// A link is one lane's Unix socket, after the worker has shown the secret. It carries
// descriptors, during Dial and, with pass=fd, with every update. Its end tells each side
// that the other is gone.
//
// It starts with three packets: the server's welcome with descriptors, the worker's
// agreed when it has mapped its memory, and the server's agreed when it has sealed that
// memory against further writers. A side that gives up sends the reason, a refusal.
type link struct {
	conn           *net.UnixConn
	sent, received *phase.Counter
	packet         []byte
	rights         []byte
}

const (
	network = "unixpacket"

	// Limits of a packet, in bytes and descriptors. The kernel accepts at most 253
	// descriptors per message (SCM_MAX_FD).
	maxPacket = 4096
	maxFiles  = 250

	goodbye = time.Second // time limit for sending a refusal

	// The first byte of a packet, or the whole packet.
	welcomed = 'w' // followed by text for the worker
	refused  = 'r' // followed by the reason
	passed   = 'd' // see passFixed
	agreed   = "agreed"
)

func newLink(c net.Conn, rec *phase.Recorder) *link {
	return &link{
		conn: c.(*net.UnixConn), sent: rec.Counter(phase.WireSent), received: rec.Counter(phase.WireReceived),
		packet: make([]byte, maxPacket), rights: make([]byte, unix.CmsgSpace(4*(maxFiles+3))),
	}
}

func filesIn(memory []*slab.Memory) (all []*os.File) {
	for _, m := range memory {
		all = append(all, m.File())
	}
	return all
}

// send sends one packet with the descriptors of files.
func (l *link) send(packet []byte, files ...*os.File) error {
	if len(packet) > maxPacket || len(files) > maxFiles {
		return fmt.Errorf("packet of %d bytes with %d descriptors exceeds the limits of %d and %d", len(packet), len(files), maxPacket, maxFiles)
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

// receive returns the next packet, which is valid until the next call, and its
// descriptors, which the caller must close. It returns an error for a refusal, and
// io.EOF if the peer has closed its end.
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
	case flags&unix.MSG_CTRUNC != 0: // the buffer holds as many as the kernel sends
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

// refuse sends a refusal with reason why, unless why is nil or the link's normal end.
func (l *link) refuse(why error) {
	if why == nil || closedNormally(why) {
		return
	}
	packet := append([]byte{refused}, why.Error()...)
	l.conn.SetWriteDeadline(time.Now().Add(goodbye)) // the peer may not be reading
	_ = l.send(packet[:min(len(packet), maxPacket)])
}

// closedNormally reports whether err is the normal end of a link: one side has closed it.
func closedNormally(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) }

// expect waits for a packet that must begin with start, and returns the rest and the
// descriptors.
func (l *link) expect(ctx context.Context, start string) (rest string, files []*os.File, err error) {
	err = endpoint.During(ctx, l.conn, func() error {
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
