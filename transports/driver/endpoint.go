package driver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"ipcbench/identity"
	"ipcbench/phase"
)

// An Endpoint is where the server of a session listens, and what its workers must
// know to dial: the address and the session's secret. It listens and dials for a
// driver: Unix sockets are the user's alone, nothing off this machine can connect
// without a certificate, and whoever connects is a stranger until the secret was shown.
//
// The secret stands in no argument, log or result. Workers learn it on their control
// channel, and whoever wants to talk to the server with a client of his own reads
// the file [AddressFile] in the session's directory.
type Endpoint struct {
	Variant  string        // the transport with its settings, as both ends must have it
	Patience time.Duration // for a stranger: who connects has to show the secret within it
	Host     string        // where TCP listens: an IP address, with or without a port; empty is 127.0.0.1
	Ports    Ports         // at which of its ports, if Host has none; zero is any

	// Of a server. Off the loopback interface nothing listens without mutual TLS.
	Insecure   bool            // unless this is set
	Files      *identity.Files // the certificates; nil has the session make its own
	PerProcess int             // lanes of a worker process, where certificates are one a process; 0 is 1

	dir    string // the session's private directory; empty at a worker
	addr   string // unix:PATH or tcp:HOST:PORT, or empty if nothing listens
	secret string

	trust     Trust
	authority *identity.Authority // of a server whose session makes its own certificates
	dials     *tls.Config         // of a worker; nil without TLS
	cipher    *atomic.Uint32      // of the last connection that was dialled; 0 before
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
	return &Endpoint{Patience: strangerTime, dir: dir, secret: rand.Text(), cipher: new(atomic.Uint32)} // at least 128 bits
}

// EndpointAt returns the endpoint of a session whose server listens at addr.
func EndpointAt(addr, secret string) *Endpoint {
	return &Endpoint{Patience: strangerTime, addr: addr, secret: secret, cipher: new(atomic.Uint32)}
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

// Reach returns how far a worker may be with the network that was chosen.
func (s Settings) Reach() Reach {
	if s.Get("network") == "tcp" {
		return Network
	}
	return Host
}

// maxSocketPath is the longest path of a Unix socket: sun_path less its NUL.
const maxSocketPath = 107

// Listen opens the session's socket: unix, unixpacket, or tcp. With the setting tls,
// what p's driver reads and writes is encrypted below it.
func (e *Endpoint) Listen(ctx context.Context, network string, o Options, p Protocol) (*Listener, error) {
	config, err := e.serverConfig(o)
	if err != nil {
		return nil, err
	}
	where := filepath.Join(e.dir, "socket")
	var l net.Listener
	if network == "tcp" {
		l, err = e.listenTCP(ctx)
	} else if len(where) > maxSocketPath {
		err = fmt.Errorf("socket %s: a path of %d bytes, and %d fit: set TMPDIR to a shorter one", where, len(where), maxSocketPath)
	} else {
		l, err = new(net.ListenConfig).Listen(ctx, network, where)
	}
	if err != nil {
		return nil, err
	}
	if network == "tcp" {
		where = l.Addr().String()
	} else {
		err = os.Chmod(where, 0o600) // besides, the directory is private
	}
	listener := newListener(l, e, o, p, config)
	addr := network + ":" + where
	if err == nil {
		err = listener.announce(filepath.Join(e.dir, AddressFile), addr+"#"+e.secret)
	}
	if err == nil && e.authority != nil {
		err = listener.announce(filepath.Join(e.dir, AuthorityFile), e.authorityPEM())
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	e.addr = addr
	return listener, nil
}

// listenTCP listens at the address and one of the ports.
func (e *Endpoint) listenTCP(ctx context.Context) (net.Listener, error) {
	host, port, err := net.SplitHostPort(e.Host)
	if err != nil { // without a port
		host = cmp.Or(strings.Trim(e.Host, "[]"), "127.0.0.1")
	}
	if err := e.safe(host); err != nil {
		return nil, err
	}
	if port != "" {
		return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	}
	return e.Ports.Listen(ctx, host)
}

// Ports are those of a range at which a server may listen. The zero value is any.
type Ports struct{ First, Last uint16 }

// Listen listens over TCP at host and the first of the ports that is free.
func (p Ports) Listen(ctx context.Context, host string) (l net.Listener, err error) {
	for port := int(p.First); port <= int(p.Last); port++ {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, fmt.Errorf("no port of %d to %d is free: %w", p.First, p.Last, err)
}

// Dial connects to the session's server, with TLS if Join has said so, and counts the
// bytes that cross the wire in rec.
func (e *Endpoint) Dial(ctx context.Context, rec *phase.Recorder) (net.Conn, error) {
	network, where, _ := strings.Cut(e.addr, ":")
	switch network {
	case "unix", "unixpacket":
	case "tcp":
		host, _, err := net.SplitHostPort(where)
		if err == nil {
			err = e.safe(host)
		}
		if err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("address %q: want unix:PATH or tcp:HOST:PORT", e.addr)
	}
	raw, err := dial(ctx, network, where)
	if err != nil {
		return nil, err
	}
	enlarge(raw)
	c := countBytes(raw, rec)
	if e.dials == nil {
		return c, nil
	}
	return e.encrypt(ctx, c, rec)
}

// safe reports an address that others could listen to, where not both ends show
// certificates.
func (e *Endpoint) safe(host string) error {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return fmt.Errorf("address %q: want an IP address", host)
	case ip.IsUnspecified():
		return fmt.Errorf("address %s is no address that workers could dial", host)
	case !ip.IsLoopback() && !e.trust.Mutual && !e.trust.Insecure:
		return fmt.Errorf("address %s is not on the loopback interface: want tls=mutual", host)
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
