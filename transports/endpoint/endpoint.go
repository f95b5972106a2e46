// Package endpoint connects the workers of a session with its server. A driver gives it a protocol,
// and gets connections: over a Unix socket in the session's private directory or over TCP, encrypted
// or not, one per lane or as many as its protocol opens. What enters are connections of strangers,
// whose number and time a [Gate] limits until they have shown the session's secret; what leaves are
// only connections that have. It knows no model, job or round.
package endpoint

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
	"ipcbench/tensor"
)

// An Endpoint is the address of a session's server and the session's secret, which
// workers must show. Drivers listen and dial through it. Only the same user can connect
// to its Unix sockets. Other machines can connect only with a certificate, unless
// Insecure is set. A peer is a stranger until it has shown the secret.
//
// No argument, log or result contains the secret. Workers receive it on their control
// channel. Other clients can read it from the file [AddressFile] in the session's
// directory.
type Endpoint struct {
	Variant  string        // the transport with its settings; both ends must agree on it
	Patience time.Duration // time that a peer has to show the secret
	Host     string        // IP address to listen at with TCP, with or without a port; empty is 127.0.0.1
	Via      string        // IP address that workers dial to reach Host; empty is Host
	Ports    Ports         // ports to listen at, if Host has none; zero is any

	// For servers. A TCP address off the loopback interface requires tls=mutual.
	Insecure   bool            // lifts that requirement
	Files      *identity.Files // certificates; if nil, the session makes its own
	PerProcess int             // lanes per worker process, because each process has one of Files; 0 is 1

	dir    string // the session's private directory; empty in a worker
	addr   string // NETWORK:PATH or tcp:HOST:PORT; empty before Listen
	secret string

	trust     Trust
	authority *identity.Authority // the session's own, on the server; nil if there are Files or no TLS
	dials     *tls.Config         // a worker's TLS settings; nil without TLS
	cipher    *atomic.Uint32      // suite of the last connection dialled with TLS; 0 before
}

// A Session is what both ends must know of the session that uses an endpoint.
type Session struct {
	Down, Up *tensor.Layout  // layouts of the model and of an update, on which both ends must agree
	Lanes    int             // at least 1
	TLS      string          // Off, On or Mutual; empty is Off
	Rec      *phase.Recorder // counts bytes; nil counts nothing
}

// AddressFile is the name of a file in the session's directory. It contains the
// server's address, a "#" and the secret.
const AddressFile = "address"

// strangerTime is the default Patience. Workers need less, because they send the secret
// with the first request, as soon as they have connected.
const strangerTime = 10 * time.Second

// New returns the server's endpoint of a new session, with a new secret. The
// server makes its socket and files in dir, which must be private to the user and used
// by this session only.
func New(dir string) *Endpoint {
	// at least 128 bits
	return &Endpoint{Patience: strangerTime, dir: dir, secret: rand.Text(), cipher: new(atomic.Uint32)}
}

// At returns the endpoint to dial the session whose server listens at addr.
func At(addr, secret string) *Endpoint {
	return &Endpoint{Patience: strangerTime, addr: addr, secret: secret, cipher: new(atomic.Uint32)}
}

// Addr returns the server's address: unix:PATH, unixpacket:PATH or tcp:HOST:PORT, or
// "" if it does not listen.
func (e *Endpoint) Addr() string { return e.addr }

// Secret returns the secret that a worker must show. It is unique, so it can also serve
// as a key for the sessions of one process.
func (e *Endpoint) Secret() string { return e.secret }

// Format implements [fmt.Formatter], to keep the secret out of errors and logs.
func (e Endpoint) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "endpoint at %q", e.addr) }

// bearer is the scheme of an Authorization with the secret.
const bearer = "Bearer "

// Authorization returns the value of a request's field Authorization that shows the
// secret, for HTTP and gRPC.
func (e *Endpoint) Authorization() string { return bearer + e.secret }

// Authorizes reports whether authorization, a value of that field, shows the secret.
func (e *Endpoint) Authorizes(authorization string) bool {
	secret, ok := strings.CutPrefix(authorization, bearer)
	return ok && e.knows([]byte(secret))
}

func (e *Endpoint) knows(secret []byte) bool {
	return subtle.ConstantTimeCompare(secret, []byte(e.secret)) == 1
}

// maxSocketPath is the longest path of a Unix socket, in bytes: sun_path without the NUL.
const maxSocketPath = 107

// Listen opens the session's socket and writes AddressFile. network is unix, unixpacket
// or tcp. With TLS, connections encrypt what the driver reads and writes. p
// describes the driver's protocol. The caller must close the listener.
func (e *Endpoint) Listen(ctx context.Context, network string, o Session, p Protocol) (*Listener, error) {
	config, err := e.serverConfig(o.TLS)
	if err != nil {
		return nil, err
	}
	where := filepath.Join(e.dir, "socket")
	var l net.Listener
	if network == "tcp" {
		l, err = e.listenTCP(ctx)
	} else if len(where) > maxSocketPath {
		err = fmt.Errorf("socket %s: the path has %d bytes, at most %d are possible: set TMPDIR to a shorter directory",
			where, len(where), maxSocketPath)
	} else {
		l, err = new(net.ListenConfig).Listen(ctx, network, where)
	}
	if err != nil {
		return nil, err
	}
	if network == "tcp" {
		where = l.Addr().String()
		if e.Via != "" {
			_, port, _ := net.SplitHostPort(where) // an address has a port
			where = net.JoinHostPort(e.Via, port)
		}
	} else {
		err = os.Chmod(where, 0o600) // in addition, the directory is private
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

// listenTCP listens at Host and its port, or else at one of Ports.
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

// Ports is the range of ports, First to Last, at which a server may listen. The zero
// value allows any port.
type Ports struct{ First, Last uint16 }

// Listen listens with TCP at host and the first port of the range that is free.
func (p Ports) Listen(ctx context.Context, host string) (l net.Listener, err error) {
	for port := int(p.First); port <= int(p.Last); port++ {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	return nil, fmt.Errorf("no port of %d to %d is free: %w", p.First, p.Last, err)
}

// Dial connects to the session's server, with TLS if Join has set it up, and counts the
// wire bytes in rec.
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
		return nil, fmt.Errorf("address %q: must be unix:PATH or tcp:HOST:PORT", e.addr)
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

// safe returns an error unless host is an IP address that workers can dial, and is on
// the loopback interface or protected by mutual TLS (or Insecure is set).
func (e *Endpoint) safe(host string) error {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return fmt.Errorf("address %q: must be an IP address", host)
	case ip.IsUnspecified():
		return fmt.Errorf("address %s: workers cannot dial an unspecified address", host)
	case !ip.IsLoopback() && !e.trust.Mutual && !e.trust.Insecure:
		return fmt.Errorf("address %s is not on the loopback interface: set tls=mutual", host)
	}
	return nil
}

// announce writes a file that only its owner can read. The file appears complete. If a
// file with this name exists, which belongs to another session, announce fails and
// leaves it unchanged. withdraw removes the file; a missing file is not an error.
func announce(path, text string) (withdraw func() error, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".*") // of mode 0600
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(f.Name(), path) // a rename would replace an existing file
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
