package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/yamux"

	"ipcbench/identity"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
)

// Options are the options of [Join].
type Options struct {
	Name string   // name in the run; empty means the host's name
	Rank int      // rank from the engine; 0 without an engine
	Dirs []string // absolute folders below which workers may open files that the server names

	// Insecure lets the server choose transports without mutual TLS.
	Insecure bool
	Wait     time.Duration // time limit for joining

	// Joined, if not nil, is called once this process has joined the run.
	Joined func()
}

const (
	retryEvery = 200 * time.Millisecond // pause between attempts to reach the server
	leaveTime  = 8 * time.Second        // time limit for the run to end after ctx of Join is done
)

// Join makes this process an agent of the run that l describes. It returns the exit code
// of the run when the run ends. When ctx is done, it reports that to the server, which
// then ends the run.
func Join(ctx context.Context, l Line, o Options) (code int, err error) {
	self := ownSelf(o.Rank)
	session, err := reach(ctx, l, cmp.Or(o.Name, self.Host), self, o.Wait)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	if o.Joined != nil {
		o.Joined()
	}
	server, _ := netip.ParseAddrPort(session.RemoteAddr().String()) // never fails for a TCP address
	// A request of the server is limited to its own host and to o.Dirs, which must not be nil.
	allowed := trainer.Confinement{Dirs: append(driver.Folders{}, o.Dirs...), Server: server.Addr(), Insecure: o.Insecure}
	s := newService(ctx, session, allowed)
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-session.CloseChan():
		case <-time.After(leaveTime):
			_ = session.Close() // makes serve stop all processes
		}
		close(late)
	})
	err = s.serve()
	if !stop() {
		<-late
	}
	if code := s.ended.Load(); code != nil {
		return *code, nil
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return 0, fmt.Errorf("the server of the run is gone: its connection has ended, or it has sent nothing for %v (%w)", silence, err)
}

// reach joins the run, retrying until it succeeds, the server refuses this agent, or
// wait is over.
func reach(ctx context.Context, l Line, name string, self Self, wait time.Duration) (*yamux.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		session, err := dial(ctx, l, name, self)
		if err == nil || errors.As(err, new(refusal)) {
			return session, err
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, fmt.Errorf("could not join a run at %s within %v: %w", l.Addr, wait.Round(time.Millisecond), err)
			}
			return nil, context.Cause(ctx)
		}
	}
}

func dial(ctx context.Context, l Line, name string, self Self) (*yamux.Session, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn := tls.Client(raw, identity.Pinned(l.CA))
	// Strangers who are ahead in the server's queue have greetTime.
	err = bounded(conn, 2*greetTime, func() error { return greet(conn, l.Token, name, self) })
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	var session *yamux.Session
	if err == nil {
		session, err = yamux.Server(conn, streams())
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return session, nil
}
