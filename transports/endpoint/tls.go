package endpoint

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ipcbench/identity"
	"ipcbench/phase"
)

// How a session encrypts its connections.
const (
	Off    = "off"
	On     = "on"
	Mutual = "mutual"
)

// A Protocol describes a driver's protocol to its [Listener].
type Protocol struct {
	Name string               // name in TLS (ALPN, RFC 7301), such as h2; empty for none
	Wrap func(*Conn) net.Conn // if not nil, Accept returns its result; closing that must close the Conn
}

// Trust is the data that a worker process needs to dial a server with TLS and be
// admitted. It contains no secret. The zero value means a server without TLS.
type Trust struct {
	Authority  []byte          `json:"authority,omitempty"` // the certificate of the session's own authority, DER
	Files      *identity.Files `json:"files,omitempty"`     // or the files with the certificates
	ServerName string          `json:"server_name,omitempty"`
	Mutual     bool            `json:"mutual,omitempty"`   // workers show certificates as well
	Insecure   bool            `json:"insecure,omitempty"` // unencrypted data may leave this machine
}

// Signs reports whether each worker process must ask the server to sign a certificate.
func (t Trust) Signs() bool { return t.Mutual && t.Files == nil }

// AuthorityFile is the name of a file in the session's directory with the certificate
// (PEM) of the session's own authority, for clients that are not ipcbench workers.
const AuthorityFile = "ca.pem"

// Name returns the session's public name: 16 hexadecimal digits, from a hash of its
// secret.
func (e *Endpoint) Name() string {
	h := sha256.Sum256([]byte(e.secret))
	return hex.EncodeToString(h[:8])
}

// Mutual reports whether workers must show certificates.
func (e *Endpoint) Mutual() bool { return e.trust.Mutual }

// Trust returns the data for the session's workers. It is complete after Listen.
func (e *Endpoint) Trust() Trust { return e.trust }

// serverConfig returns the server's TLS configuration, or nil without TLS; mode is Off, On or Mutual. It makes the
// session's authority, unless there are files, and sets e.trust.
func (e *Endpoint) serverConfig(mode string) (*tls.Config, error) {
	e.trust = Trust{Mutual: mode == Mutual, Insecure: e.Insecure}
	if mode != On && mode != Mutual {
		return nil, nil
	}
	if e.Files != nil {
		c, err := e.Files.Server(e.trust.Mutual)
		if err == nil {
			e.trust.Files, e.trust.ServerName = e.Files, c.ServerName
		}
		return c, err
	}
	var err error
	if e.authority, err = identity.NewAuthority(e.Name()); err != nil {
		return nil, err
	}
	e.trust.Authority = e.authority.Certificate()
	return e.authority.Server(e.trust.Mutual)
}

// Sign signs the request (PKCS #10, DER) of a worker process that hosts lanes, which
// must be consecutive, and returns its certificate. It fails if the session uses files
// or no TLS.
func (e *Endpoint) Sign(request []byte, lanes []int) ([]byte, error) {
	if e.authority == nil || len(lanes) == 0 {
		return nil, errors.New("this session signs no certificates")
	}
	return e.authority.Sign(request, identity.Lanes{First: lanes[0], Last: lanes[len(lanes)-1]})
}

// Join prepares e, in worker process number process, to dial a server that t describes.
// If t.Signs, it makes a key, which never leaves this process, and calls sign. sign must
// send the request (PKCS #10, DER) to the server and return the certificate.
func (e *Endpoint) Join(t Trust, process int, sign func(request []byte) ([]byte, error)) error {
	e.trust = t
	var w *identity.Worker
	var err error
	switch {
	case t.Files != nil:
		w, err = t.Files.Worker(process, t.ServerName)
	case t.Authority == nil:
		return nil
	default:
		w, err = identity.NewWorker(t.Authority)
	}
	if err == nil && t.Signs() {
		var request, certificate []byte
		if request, err = w.Request(); err == nil {
			certificate, err = sign(request)
		}
		if err == nil {
			err = w.Certify(certificate)
		}
	}
	if err != nil {
		return err
	}
	e.dials = w.Config()
	return nil
}

// Worker returns an endpoint to dial e's server for lane from the server's own process.
func (e *Endpoint) Worker(lane int) (*Endpoint, error) {
	w := At(e.addr, e.secret)
	sign := func(request []byte) ([]byte, error) { return e.Sign(request, []int{lane}) }
	return w, w.Join(e.trust, e.processOf(lane), sign)
}

func (e *Endpoint) processOf(lane int) int { return lane / max(1, e.PerProcess) }

// Cipher returns the cipher suite of the last TLS connection that Dial made, or "".
func (e *Endpoint) Cipher() string {
	if id := e.cipher.Load(); id > 0 {
		return tls.CipherSuiteName(uint16(id))
	}
	return ""
}

// encrypt makes the client's TLS handshake on c, and closes c if it fails.
func (e *Endpoint) encrypt(ctx context.Context, c Counted, rec *phase.Recorder) (net.Conn, error) {
	start := time.Now()
	t := tls.Client(c, e.dials)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("TLS handshake: %w", context.Cause(ctx))
		}
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
			errors.Is(err, syscall.EPIPE) {
			return nil, fmt.Errorf("TLS handshake: %w: the server does not speak TLS or has exited", err)
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	rec.Counter(phase.HandshakeTime).Add(int(time.Since(start)))
	rec.Counter(phase.Handshakes).Add(1)
	e.cipher.Store(uint32(t.ConnectionState().CipherSuite))
	return t, nil
}

// Secure makes the server's TLS handshake on c, if TLS is on. Later calls return the
// result of the first, and the first Read or Write calls it. The stranger's deadline
// limits its time.
func (c *Conn) Secure() error {
	if c.tls == nil {
		return nil
	}
	err := c.tls.Handshake() // which remembers its result
	c.shaken.Do(func() {
		if err == nil {
			c.state = c.tls.ConnectionState()
			return
		}
		c.Refused(fmt.Errorf("TLS handshake: %w", err))
		// Closing while the peer writes would discard the alert that says why.
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // errors do not matter: the connection is given up
			_, _ = io.CopyN(io.Discard, c.Counted, 1<<20)
		}
	})
	return err
}

// Speaks returns an error if the peer may not act for lane: with mutual TLS, its
// certificate must name the lane. It must be called after the handshake, for example
// after a successful Read.
func (c *Conn) Speaks(lane int) error {
	e := c.l.e
	if c.tls == nil || !e.trust.Mutual {
		return nil
	}
	return e.speaks(c.state, lane)
}

func (e *Endpoint) speaks(state tls.ConnectionState, lane int) error {
	if e.Files != nil {
		return e.Files.Speaks(state, e.processOf(lane))
	}
	lanes, err := identity.Of(state, e.Name())
	if err == nil && !lanes.Has(lane) {
		err = fmt.Errorf("the certificate is for lanes %v, and this is lane %d", lanes, lane)
	}
	return err
}

// LaneName returns a lane's name for protocols in which messages name their sender.
func LaneName(lane int) string { return "lane-" + strconv.Itoa(lane) }

// LaneOf is the inverse of LaneName in a session with the given number of lanes. It
// returns false for other names.
func LaneOf(name string, lanes int) (int, bool) {
	digits, ok := strings.CutPrefix(name, "lane-")
	lane, err := strconv.Atoi(digits)
	if !ok || err != nil || lane < 0 || lane >= lanes || LaneName(lane) != name {
		return 0, false
	}
	return lane, true
}

// authorityPEM returns the certificate of the session's authority as text.
func (e *Endpoint) authorityPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.trust.Authority}))
}
