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

// Far is another host, on which the second role of a floor of TCP plays.
type Far struct {
	// Listen listens where that host can dial.
	Listen func(context.Context) (net.Listener, error)

	// Play has the other host call [Play], and returns when that does.
	Play func(context.Context, Order) error
}

// An Order asks a host for the second role of a floor.
type Order struct {
	Floor string `json:"floor"`
	Addr  string `json:"addr"`  // to dial: an IP address and a port
	Token string `json:"token"` // with which the connection begins, since anybody may dial
}

// tokenSize is how long a token is.
const tokenSize = 26

// tokens have no spaces and no ends of lines: whoever is there instead takes them for no
// command.
var tokens = regexp.MustCompile("^[A-Z2-7]{26}$")

// arrival is how long the connection of the other host may take.
const arrival = 10 * time.Second

// Play plays the second role of a floor of TCP, in a process of its own, until the other
// end of the connection closes. An order comes from another host: what it can ask for is
// here, and how many bytes move at most is the role's own affair.
func Play(ctx context.Context, o Order) error {
	f, err := named(o.Floor)
	if err == nil && (!f.TCP || len(f.roles) != 2) {
		err = fmt.Errorf("floor %s is not one between hosts", f.Name)
	}
	if _, e := netip.ParseAddrPort(o.Addr); err == nil && (e != nil || !tokens.MatchString(o.Token)) {
		err = fmt.Errorf("address %.80q and a token of %d bytes: want IP:PORT, and 26 letters and digits", o.Addr, len(o.Token))
	}
	if err != nil {
		return fmt.Errorf("floors: %w", err)
	}
	if err := f.second(ctx, o); err != nil {
		return fmt.Errorf("floors: %s: %w", f.Name, err)
	}
	return nil
}

// second dials and plays.
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
	c, err := startChild(ctx, order{Floor: f.Name, Role: 1}, []*os.File{link})
	if err == nil {
		_ = conn.Close() // it is the child's
		_ = link.Close()
		_, err = c.wait()
	}
	return err
}

// connect has the second role play, and returns the connection to it. What it ends with
// goes to played.
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

// first returns the connection that begins with the token. Others do not keep it waiting.
func first(l net.Listener, token string) (link *os.File, err error) {
	var all sync.WaitGroup
	var found sync.Once
	for {
		conn, err := l.Accept()
		if err != nil {
			all.Wait()
			if link != nil {
				return link, nil
			}
			return nil, err
		}
		all.Go(func() {
			admitted, err := admit(conn, token)
			if err != nil {
				return
			}
			l.Close()
			found.Do(func() { link, admitted = admitted, nil })
			admitted.Close() // another one that knows the token; nil has no effect
		})
	}
}

// admit returns a connection that begins with the token. Strangers get no more than a
// moment.
func admit(conn net.Conn, token string) (*os.File, error) {
	defer conn.Close()
	said := make([]byte, tokenSize)
	err := conn.SetReadDeadline(time.Now().Add(time.Second))
	if err == nil {
		_, err = io.ReadFull(conn, said)
	}
	if err == nil && string(said) != token {
		err = errors.New("a stranger")
	}
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn).File()
}
