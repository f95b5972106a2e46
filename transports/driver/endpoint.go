package driver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// An Endpoint is where the server of a session listens, and what its workers must
// know to dial: the address and the session's secret. It listens and dials for a
// driver: nothing off this machine can connect, Unix sockets are the user's alone,
// and whoever connects is a stranger until the secret was shown.
//
// The secret stands in no argument, log or result. Workers learn it on their control
// channel, and whoever wants to talk to the server with a client of his own reads
// the file [AddressFile] in the session's directory.
type Endpoint struct {
	Variant  string        // the transport with its settings, as both ends must have it
	Patience time.Duration // for a stranger: who connects has to show the secret within it
	Host     string        // where TCP listens, on the loopback interface; empty is 127.0.0.1

	dir    string // the session's private directory; empty at a worker
	addr   string // unix:PATH or tcp:HOST:PORT, or empty if nothing listens
	secret string
}

// AddressFile holds, in the session's directory, the address of its server, a "#",
// and the secret.
const AddressFile = "address"

// strangerTime is an endpoint's patience if nobody says otherwise: a worker shows
// the secret with its first request, as soon as it has connected.
const strangerTime = 10 * time.Second

// NewEndpoint returns the endpoint of a new session, with a secret of its own, whose
// server may make names in dir. That is private to the user and the session's alone.
func NewEndpoint(dir string) *Endpoint {
	return &Endpoint{Patience: strangerTime, dir: dir, secret: rand.Text()} // at least 128 bits
}

// EndpointAt returns the endpoint of a session whose server listens at addr.
func EndpointAt(addr, secret string) *Endpoint {
	return &Endpoint{Patience: strangerTime, addr: addr, secret: secret}
}

// Addr returns where the server listens, unix:PATH or tcp:HOST:PORT; empty if it
// does not.
func (e *Endpoint) Addr() string { return e.addr }

// Secret returns what a worker shows to be let in. It says which session is meant, so
// it is also a session's name among those of one process.
func (e *Endpoint) Secret() string { return e.secret }

// Format implements [fmt.Formatter]: no error or log holds the secret.
func (e Endpoint) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "endpoint at %q", e.addr) }

// bearer is the scheme of an Authorization that shows the secret.
const bearer = "Bearer "

// Authorization returns the value with which a request shows the secret, in a
// protocol that has a field for it.
func (e *Endpoint) Authorization() string { return bearer + e.secret }

// Authorizes reports whether a request shows the secret.
func (e *Endpoint) Authorizes(authorization string) bool {
	secret, ok := strings.CutPrefix(authorization, bearer)
	return ok && e.knows([]byte(secret))
}

func (e *Endpoint) knows(secret []byte) bool {
	return subtle.ConstantTimeCompare(secret, []byte(e.secret)) == 1
}

// NetworkSetting is that of every transport which moves bytes through a socket.
func NetworkSetting() Setting {
	return Setting{Name: "network", Values: []string{"unix", "tcp"}, Default: "unix",
		Help: "a Unix socket in the session's directory, or TCP on the loopback interface"}
}

// Reach returns how far a worker may be with the network that was chosen.
func (s Settings) Reach() Reach {
	if s.Get("network") == "tcp" {
		return Network
	}
	return Host
}

// maxSocketPath is the longest path of a Unix socket: sun_path less its NUL.
const maxSocketPath = 107

// Listen opens the session's socket: unix, unixpacket, or tcp, which is on the
// loopback interface. Accept returns what wrap makes of a connection; nil leaves it
// what it is. Whoever closes that must close the connection.
func (e *Endpoint) Listen(ctx context.Context, network string, o Options, wrap func(*Conn) net.Conn) (*Listener, error) {
	where := filepath.Join(e.dir, "socket")
	if network == "tcp" {
		host := cmp.Or(e.Host, "127.0.0.1")
		if err := local(host); err != nil {
			return nil, err
		}
		where = net.JoinHostPort(host, "0")
	} else if len(where) > maxSocketPath {
		return nil, fmt.Errorf("socket %s: a path of %d bytes, and %d fit: set TMPDIR to a shorter one", where, len(where), maxSocketPath)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, where)
	if err != nil {
		return nil, err
	}
	if network == "tcp" {
		where = l.Addr().String()
	} else {
		err = os.Chmod(where, 0o600) // besides, the directory is private
	}
	if wrap == nil {
		wrap = func(c *Conn) net.Conn { return c }
	}
	listener := newListener(l, o.Lanes, e.Patience, o.Rec, wrap)
	addr := network + ":" + where
	if err == nil {
		listener.withdraw, err = announce(filepath.Join(e.dir, AddressFile), addr+"#"+e.secret)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	e.addr = addr
	return listener, nil
}

// Dial connects to the session's server. The connection is not counted: see [CountBytes].
func (e *Endpoint) Dial(ctx context.Context) (net.Conn, error) {
	network, where, _ := strings.Cut(e.addr, ":")
	switch network {
	case "unix", "unixpacket":
	case "tcp":
		host, _, err := net.SplitHostPort(where)
		if err != nil {
			return nil, err
		}
		if err := local(host); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("address %q: want unix:PATH or tcp:HOST:PORT", e.addr)
	}
	c, err := dial(ctx, network, where)
	if err == nil {
		enlarge(c)
	}
	return c, err
}

// local reports an address that others could listen to.
func local(host string) error {
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("address %s is not on the loopback interface, and nothing here is encrypted", host)
	}
	return nil
}

// announce writes a file that its owner alone can read. Whoever finds it finds all
// of it. One that is there already, another session's, stays what it is: that is an
// error, which leaves nothing behind. withdraw removes the file; one that is gone
// with its directory is no error.
func announce(path, text string) (withdraw func() error, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".*") // of mode 0600
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(f.Name(), path) // a rename would replace what is there
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, err
	}
	return func() error {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, nil
}
