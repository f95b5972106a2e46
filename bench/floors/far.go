package floors

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"sync"
	"time"
)

// Far is another host, which runs the second part of a TCP floor.
type Far struct {
	// Listen returns a listener that the other host can dial; the caller closes it.
	Listen func(context.Context) (net.Listener, error)

	// Play makes the other host call [Play], and returns its error when it returns.
	Play func(context.Context, Order) error
}

// An Order asks a host to run the second part of a floor.
type Order struct {
	Floor string `json:"floor"`
	Addr  string `json:"addr"`  // to dial, as IP:PORT
	Token string `json:"token"` // first bytes of the connection, to recognize the host
}

// tokenSize is the length of a token in bytes.
const tokenSize = 26

// tokens matches a token. It contains no space or newline, so that another program at the
// address does not take it for a command.
var tokens = regexp.MustCompile("^[A-Z2-7]{26}$")

// arrival is the time limit for the connection from the other host.
const arrival = 10 * time.Second

// Play runs the second part of a TCP floor in a child process, until the other end closes the
// connection. Because o comes from another host, Play checks it, and the part limits the number
// of bytes that it moves.
func Play(ctx context.Context, o Order) error {
	f, err := named(o.Floor)
	if err == nil && (!f.TCP || len(f.parts) != 2) {
		err = fmt.Errorf("floor %s cannot be measured between hosts", f.Name)
	}
	if _, e := netip.ParseAddrPort(o.Addr); err == nil && (e != nil || !tokens.MatchString(o.Token)) {
		err = fmt.Errorf("address %.80q with a token of %d bytes: must be IP:PORT with a token of 26 letters and digits", o.Addr, len(o.Token))
	}
	if err != nil {
		return fmt.Errorf("floors: %w", err)
	}
	if err := f.second(ctx, o); err != nil {
		return fmt.Errorf("floors: %s: %w", f.Name, err)
	}
	return nil
}

// second connects to o.Addr and runs the second part in a child process.
func (f *Floor) second(ctx context.Context, o Order) error {
	conn, err := (&net.Dialer{Timeout: arrival}).DialContext(ctx, "tcp", o.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(o.Token)); err != nil {
		return err
	}
	link, err := conn.(*net.TCPConn).File()
	if err != nil {
		return err
	}
	defer link.Close()
	c, err := startChild(ctx, order{Floor: f.Name, Part: 1}, []*os.File{link})
	if err == nil {
		_ = conn.Close() // the child has its own descriptor
		_ = link.Close()
		err = c.Answer(new([]Series))
	}
	return err
}

// connect starts the second part on the other host and returns the connection to it. played
// receives the part's error, or nil, when it ends.
func (far *Far) connect(ctx context.Context, floor string) (link *os.File, played <-chan error, err error) {
	l, err := far.Listen(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	late := time.AfterFunc(arrival, func() { end(errors.New("the other host has not connected")) })
	defer late.Stop()
	defer context.AfterFunc(waiting, func() { l.Close() })()
	o, done := Order{floor, l.Addr().String(), rand.Text()}, make(chan error, 1)
	go func() {
		err := far.Play(ctx, o)
		if err != nil {
			err = fmt.Errorf("the other host: %w", err)
		}
		done <- err
		end(err)
	}()
	if link, err = first(l, o.Token); err != nil {
		err = errors.Join(context.Cause(waiting), err)
	}
	return link, done, err
}

// first returns the first connection that begins with the token. It checks connections
// concurrently, so that a stranger causes no delay.
func first(l net.Listener, token string) (link *os.File, err error) {
	var all sync.WaitGroup
	var found sync.Once
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
		case !errors.Is(err, net.ErrClosed):
			time.Sleep(10 * time.Millisecond) // descriptors may have run out for a while
			continue
		default:
			if all.Wait(); link != nil {
				err = nil
			}
			return link, err
		}
		all.Go(func() {
			admitted, err := admit(conn, token)
			if err != nil {
				return
			}
			l.Close()
			found.Do(func() { link, admitted = admitted, nil })
			admitted.Close() // a duplicate, or nil, for which Close has no effect
		})
	}
}

// admit replaces conn by a file. It returns an error if the token does not arrive within 1 s.
func admit(conn net.Conn, token string) (*os.File, error) {
	defer conn.Close()
	got := make([]byte, tokenSize)
	err := conn.SetReadDeadline(time.Now().Add(time.Second))
	if err == nil {
		_, err = io.ReadFull(conn, got)
	}
	if err == nil && string(got) != token {
		err = errors.New("wrong token")
	}
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn).File()
}
