package driver

import (
	"bytes"
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

// NetworkSettings are those of every transport which moves bytes through a socket.
func NetworkSettings() []Setting {
	return []Setting{
		{Name: "network", Values: []string{"unix", "tcp"}, Default: "unix",
			Help: "a Unix socket in the session's directory, or TCP"},
		{Name: "tls", Values: []string{tlsOff, tlsOn, tlsMutual}, Default: tlsOff,
			Help: "encrypt with TLS 1.3: on, the server shows a certificate; mutual, workers too"},
	}
}

// What the setting tls may be.
const (
	tlsOff    = "off"
	tlsOn     = "on"
	tlsMutual = "mutual"
)

// A Protocol is what a driver speaks on the connections of its [Listener].
type Protocol struct {
	Name string               // as TLS names it (ALPN, RFC 7301), such as h2; may be empty
	Wrap func(*Conn) net.Conn // what Accept returns of a connection, nil is the connection; whoever closes it must close that

	// Refuse says to a client that speaks it without TLS, where there is TLS, why it is
	// refused. c has all that the client has said so far. Nil says nothing.
	Refuse func(c io.ReadWriter, reason string)
}

// Trust is what a worker process has to know of a server to dial it with TLS, and to be
// let in. It holds no secret. The zero value stands for a server without TLS.
type Trust struct {
	Authority  []byte          `json:"authority,omitempty"` // the certificate of the session's own authority, DER
	Files      *identity.Files `json:"files,omitempty"`     // or where the certificates are
	ServerName string          `json:"server_name,omitempty"`
	Mutual     bool            `json:"mutual,omitempty"`   // workers show certificates, too
	Insecure   bool            `json:"insecure,omitempty"` // what is not encrypted may leave this machine
}

// Signs reports whether each worker process is to ask the server for a certificate.
func (t Trust) Signs() bool { return t.Mutual && t.Files == nil }

// AuthorityFile holds, beside [AddressFile], the certificate of the session's own
// authority, for clients that are none of ours.
const AuthorityFile = "ca.pem"

// Name returns what the session is called where everybody may read it: 16 hexadecimal
// digits, of a hash of its secret.
func (e *Endpoint) Name() string {
	h := sha256.Sum256([]byte(e.secret))
	return hex.EncodeToString(h[:8])
}

// Mutual reports whether workers show certificates, too.
func (e *Endpoint) Mutual() bool { return e.trust.Mutual }

// Trust returns what the workers of the session have to know, once it listens.
func (e *Endpoint) Trust() Trust { return e.trust }

// serverConfig makes what o asks for: the session's authority, unless there are files,
// and the server's certificate. It is nil without TLS.
func (e *Endpoint) serverConfig(o Options) (*tls.Config, error) {
	mode := o.Settings["tls"]
	e.trust = Trust{Mutual: mode == tlsMutual, Insecure: e.Insecure}
	if mode != tlsOn && mode != tlsMutual {
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

// Sign returns a certificate for the worker process that hosts lanes, which follow each
// other, and sent the request (PKCS #10, DER).
func (e *Endpoint) Sign(request []byte, lanes []int) ([]byte, error) {
	if e.authority == nil || len(lanes) == 0 {
		return nil, errors.New("this session signs no certificates")
	}
	return e.authority.Sign(request, identity.Lanes{First: lanes[0], Last: lanes[len(lanes)-1]})
}

// Join makes e, of worker process number process, dial as t says. sign, which is called
// if t.Signs, has the server sign a request for a certificate. The key of that
// certificate is made here and never leaves this process.
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

// Worker returns the endpoint of a worker of lane in this process.
func (e *Endpoint) Worker(lane int) (*Endpoint, error) {
	w := EndpointAt(e.addr, e.secret)
	return w, w.Join(e.trust, e.processOf(lane), func(request []byte) ([]byte, error) { return e.Sign(request, []int{lane}) })
}

func (e *Endpoint) processOf(lane int) int { return lane / max(1, e.PerProcess) }

// Cipher returns which cipher suite the last handshake of Dial has chosen; empty before.
func (e *Endpoint) Cipher() string {
	if id := e.cipher.Load(); id > 0 {
		return tls.CipherSuiteName(uint16(id))
	}
	return ""
}

// encrypt makes the client's handshake on c.
func (e *Endpoint) encrypt(ctx context.Context, c Counted, rec *phase.Recorder) (net.Conn, error) {
	start := time.Now()
	t := tls.Client(c, e.dials)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("TLS handshake: %w", context.Cause(ctx))
		}
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
			return nil, fmt.Errorf("TLS handshake: %w: the server speaks no TLS, or has gone", err)
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	rec.Counter(phase.HandshakeTime).Add(int(time.Since(start)))
	rec.Counter(phase.Handshakes).Add(1)
	e.cipher.Store(uint32(t.ConnectionState().CipherSuite))
	return t, nil
}

// Secure makes the server's handshake on c, once, if there is TLS: whoever has not called
// it before the first Read or Write does so then. The listener bounds how long that may
// take: the peer is a stranger meanwhile.
func (c *Conn) Secure() error {
	if c.tls == nil {
		return nil
	}
	err := c.tls.Handshake() // which remembers what came of it
	c.shaken.Do(func() {
		if err == nil {
			c.state = c.tls.ConnectionState()
			return
		}
		c.Refused(fmt.Errorf("TLS handshake: %w", err))
		var plain tls.RecordHeaderError
		c.dismiss(errors.As(err, &plain) && plain.Conn != nil)
	})
	return err
}

// dismiss gives a peer a moment to read why it is refused. That is on its way, unless it
// is plain, without a byte of TLS: then it is said in its protocol. The peer may still be
// writing, and would hear of a connection that was closed and no more.
func (c *Conn) dismiss(plain bool) {
	_ = c.Counted.SetDeadline(time.Now().Add(grace)) // it is being given up, as all that follows
	rest := io.LimitReader(io.MultiReader(bytes.NewReader(c.opening.said), c.Counted), 1<<20)
	if plain && c.l.protocol.Refuse != nil {
		c.l.protocol.Refuse(struct {
			io.Reader
			io.Writer
		}{rest, c.Counted}, "this session speaks TLS, and this connection does not")
	}
	if half, ok := c.Counted.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		_, _ = io.Copy(io.Discard, rest)
	}
}

// An opening is a connection below TLS that keeps what is read from it until that is
// enough to say whether it is TLS: the head of a record.
type opening struct {
	Counted
	said []byte
	over bool
}

// Read implements net.Conn.
func (o *opening) Read(b []byte) (int, error) {
	n, err := o.Counted.Read(b)
	if !o.over {
		o.said = append(o.said, b[:n]...)
		if o.over = len(o.said) >= recordHead; o.over && o.said[0] == handshakeRecord {
			o.said = nil
		}
	}
	return n, err
}

// A record of TLS begins with a head, and the first one with its type: RFC 8446,
// section 5.1.
const (
	recordHead      = 5
	handshakeRecord = 22
)

// Speaks reports why the peer may not speak for a lane: with mutual TLS its certificate
// has to name it. The handshake is over, as it is once something was read.
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

// LaneName returns a lane's name where protocols name who sends something.
func LaneName(lane int) string { return "lane-" + strconv.Itoa(lane) }

// LaneOf is the inverse of LaneName, for a session with so many lanes.
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
