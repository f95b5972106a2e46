package endpoint

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// A worker's connection starts with two frames: its hello and the server's answer. A
// hello is the session's secret, the length of the rest (two bytes) and the rest as
// JSON. The server reads past the secret only if it is right. The answer is a text,
// after its length (two bytes): the reason for a refusal, or empty if the worker is
// admitted. On a packet socket (unixpacket), each frame is one packet.
const maxFrame = 4096

// protocol is the version of the hello and of all drivers' protocols after it.
const protocol = 1

// hello identifies a worker and the session that it expects.
type hello struct {
	Protocol int    `json:"protocol"`
	Variant  string `json:"variant"`
	Lane     int    `json:"lane"`
	Down     string `json:"down"` // digest of the layout, 16 hex digits
	Up       string `json:"up"`
}

func (e *Endpoint) hello(lane int, o Session) hello {
	return hello{protocol, e.Variant, lane, fmt.Sprintf("%016x", o.Down.Digest()), fmt.Sprintf("%016x", o.Up.Digest())}
}

// check returns the reason to refuse the worker, or nil.
func (h hello) check(want hello, lanes int) error {
	switch {
	case h.Protocol != want.Protocol:
		return fmt.Errorf("protocol version %d, the server's is %d", h.Protocol, want.Protocol)
	case h.Variant != want.Variant:
		return fmt.Errorf("transport %q, the session's is %q", h.Variant, want.Variant)
	case h.Lane < 0 || h.Lane >= lanes:
		return fmt.Errorf("no lane %d: the session has %d", h.Lane, lanes)
	case h.Down != want.Down || h.Up != want.Up:
		return fmt.Errorf("the layouts are %s down and %s up, the session's are %s and %s", h.Down, h.Up, want.Down, want.Up)
	}
	return nil
}

// Lanes holds a server's connections to its workers, one per lane, for transports
// whose workers connect to a socket and send the secret in a hello.
type Lanes struct {
	e        *Endpoint
	o        Session
	listener *Listener
	lanes    []laneConn
	greeting sync.WaitGroup // the accept loop and the hellos
}

// laneConn is a lane's connection. Closing there announces that conn is set.
type laneConn struct {
	mu    sync.Mutex // held while a worker is admitted
	taken bool       // guarded by mu: a worker has or had the lane, or no worker is admitted any more
	conn  *Conn
	there chan struct{}
}

// ListenLanes listens like [Endpoint.Listen] and admits workers until Dismiss. The
// caller must end it with Shutdown.
func (e *Endpoint) ListenLanes(ctx context.Context, network string, o Session) (*Lanes, error) {
	listener, err := e.Listen(ctx, network, o, Protocol{})
	if err != nil {
		return nil, err
	}
	l := &Lanes{e: e, o: o, listener: listener, lanes: make([]laneConn, o.Lanes)}
	for i := range l.lanes {
		l.lanes[i].there = make(chan struct{})
	}
	l.greeting.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			l.greeting.Go(func() { l.greet(c.(*Conn)) })
		}
	})
	return l, nil
}

// greet admits a worker to its lane or sends it the reason for the refusal. A peer
// with a wrong secret gets no reply.
func (l *Lanes) greet(c *Conn) {
	h, err := l.read(c)
	if err == nil {
		want := l.e.hello(0, l.o)
		if err = h.check(want, len(l.lanes)); err == nil {
			err = c.Speaks(h.Lane)
		}
		if err == nil {
			err = l.lanes[h.Lane].admit(c, h.Lane)
		}
		if err != nil {
			c.Refused(err)
			_, _ = c.Write(answer(err.Error())) // if it fails, the peer sees the connection end
		}
	}
	if err != nil {
		c.Close()
	}
}

// read reads a hello. The peer is a stranger, with a deadline, until all of it has come.
func (l *Lanes) read(c *Conn) (h hello, err error) {
	in := bufio.NewReaderSize(c, maxFrame) // large enough for a packet in one read
	shown := make([]byte, len(l.e.secret)+2)
	if _, err := io.ReadFull(in, shown); err != nil {
		return h, err
	}
	if !l.e.knows(shown[:len(l.e.secret)]) {
		err := errors.New("not the session's secret")
		c.Refused(err)
		return h, err
	}
	n := int(binary.BigEndian.Uint16(shown[len(l.e.secret):]))
	if n > maxFrame-len(shown) {
		return h, fmt.Errorf("a hello of %d bytes is too long", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		return h, err
	}
	if in.Buffered() > 0 {
		return h, errors.New("data after the hello")
	}
	if !c.Admit() {
		return h, net.ErrClosed
	}
	return h, json.Unmarshal(text, &h)
}

// admit gives the lane to the worker at c and sends it an empty answer.
func (l *laneConn) admit(c *Conn, lane int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken {
		return fmt.Errorf("lane %d has or had a worker, or the session is over", lane)
	}
	if _, err := c.Write(answer("")); err != nil {
		return err
	}
	l.taken, l.conn = true, c
	close(l.there)
	return nil
}

func answer(text string) []byte {
	text = text[:min(len(text), maxFrame-2)]
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)
}

// Conn waits until lane's worker was admitted, or ctx is done, and returns the
// worker's connection. The caller must close it.
func (l *Lanes) Conn(ctx context.Context, lane int) (*Conn, error) {
	select {
	case <-l.lanes[lane].there:
	case <-ctx.Done():
	}
	if c := l.Connected(lane); c != nil {
		return c, nil
	}
	return nil, l.listener.Explain(fmt.Errorf("no worker has connected: %w", context.Cause(ctx)))
}

// Connected returns the connection of lane's worker, or nil before it was admitted.
func (l *Lanes) Connected(lane int) *Conn {
	select {
	case <-l.lanes[lane].there:
		return l.lanes[lane].conn
	default:
		return nil
	}
}

// Dismiss stops listening and closes all connections except those of admitted
// workers. A second call does nothing.
func (l *Lanes) Dismiss() error {
	err := l.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	for i := range l.lanes {
		lane := &l.lanes[i]
		lane.mu.Lock()
		lane.taken = true
		if lane.conn != nil {
			lane.conn.Keep()
		}
		lane.mu.Unlock()
	}
	l.listener.Dismiss()
	l.greeting.Wait()
	return err
}

// Shutdown calls Dismiss, then say for all connected workers concurrently, to announce
// the end of the session. It waits until each worker has closed its end or ctx is done,
// then closes all connections. It does not wait for workers for which say fails.
func (l *Lanes) Shutdown(ctx context.Context, say func(lane int, c *Conn) error) error {
	errs := []error{l.Dismiss()}
	errs = append(errs, make([]error, len(l.lanes))...)
	var group sync.WaitGroup
	for n := range l.lanes {
		c := l.lanes[n].conn
		if c == nil {
			continue
		}
		group.Go(func() { // concurrently, so that a slow worker does not delay the others
			if say(n, c) == nil {
				err := During(ctx, c, func() error {
					_, err := io.Copy(io.Discard, c.Conn)
					return err
				})
				if err != nil && ctx.Err() != nil {
					errs[1+n] = fmt.Errorf("lane %d: its worker has not disconnected: %w", n, err)
				}
			}
			_ = c.Close() // an error no longer matters
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// During runs f, which uses c, and interrupts it when ctx is done. It returns the cause
// of ctx, an error that the peer has closed the connection, or f's error. If ctx ends
// just as f succeeds, that is still an error, because c is no longer usable.
func During(ctx context.Context, c interface{ SetDeadline(time.Time) error }, f func() error) error {
	// regular files have no deadlines and need none
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := f()
	ended := !stop()
	var number syscall.Errno
	errors.As(err, &number)
	switch {
	case ended:
		return context.Cause(ctx)
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// not io.EOF, which would mean the session's end
		return fmt.Errorf("the peer has closed the connection: %w", io.ErrUnexpectedEOF)
	case number == syscall.ECONNRESET, number == syscall.EPIPE:
		// errors name the lane, so the address is left out
		return fmt.Errorf("the peer has closed the connection: %w", number)
	}
	return err
}

// DialLane connects lane's worker to the session's server, sends a hello and waits until
// it is admitted. Its bytes are counted in o.Rec. The caller must close the connection.
func (e *Endpoint) DialLane(ctx context.Context, lane int, o Session) (net.Conn, error) {
	c, err := e.Dial(ctx, o.Rec)
	if err != nil {
		return nil, err
	}
	if err := During(ctx, c, func() error { return e.introduce(c, e.hello(lane, o)) }); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (e *Endpoint) introduce(c net.Conn, h hello) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint16([]byte(e.secret), uint16(len(text)))
	if frame = append(frame, text...); len(frame) > maxFrame {
		return fmt.Errorf("transport %.100q…: its settings are too long for a hello", h.Variant)
	}
	if _, err := c.Write(frame); err != nil {
		return err
	}
	refusal, err := readAnswer(c)
	if err == nil && refusal != "" {
		return errors.New("refused: " + refusal)
	}
	return err
}

// readAnswer reads the answer and no byte more, because the driver reads the rest.
func readAnswer(c net.Conn) (string, error) {
	b := make([]byte, maxFrame)
	n := 0
	for n < 2 || n < 2+int(binary.BigEndian.Uint16(b)) {
		to := b[n:2] // the length
		if n >= 2 {
			to = b[n:min(len(b), 2+int(binary.BigEndian.Uint16(b)))]
		}
		if c.LocalAddr().Network() == "unixpacket" {
			to = b[n:] // a packet must be read at once
		}
		if len(to) == 0 {
			return "", errors.New("an answer that is too long")
		}
		m, err := c.Read(to)
		if n += m; err != nil {
			return "", err
		}
	}
	return string(b[2:n]), nil
}
