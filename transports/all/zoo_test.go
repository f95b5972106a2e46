package all_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ipcbench/internal/test/check"
)

// An authority is the test's own CA; it signs any certificate.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	dir  string // directory of its files
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key := check.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := check.Value(x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key))(t)
	cert = check.Value(x509.ParseCertificate(der))(t)
	return &authority{t, key, cert, t.TempDir()}
}

// issue signs a certificate with a common name that is valid for servers and clients.
// change, if not nil, edits it before it is signed.
func (a *authority) issue(name string, change func(*x509.Certificate)) *tls.Certificate {
	a.t.Helper()
	key := check.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(cert)
	}
	der := check.Value(x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key))(a.t)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// speaksFor makes a certificate like a session's worker certificate, except for its issuer.
func speaksFor(session, lanes string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.URIs = []*url.URL{{Scheme: "ipcbench", Host: session, Path: "/lanes/" + lanes}}
	}
}

// from sets a certificate's validity: it begins and ends at these offsets from now.
func from(since, until time.Duration) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(since), time.Now().Add(until) }
}

// file writes a PEM block and returns its path.
func (a *authority) file(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	check.Must(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// write writes a certificate and its key, and returns their paths.
func (a *authority) write(name string, c *tls.Certificate) (cert, key string) {
	a.t.Helper()
	der := check.Value(x509.MarshalPKCS8PrivateKey(c.PrivateKey))(a.t)
	return a.file(name+".pem", "CERTIFICATE", c.Certificate[0]), a.file(name+"-key.pem", "PRIVATE KEY", der)
}

// clientHello returns the first record of a TLS handshake.
func clientHello(config *tls.Config) []byte {
	var first firstWrite
	_ = tls.Client(&first, config).Handshake() // fails without a server
	return first.b
}

// firstWrite is a connection that keeps all writes; Read returns io.EOF.
type firstWrite struct {
	net.Conn
	b []byte
}

func (f *firstWrite) Write(b []byte) (int, error) {
	f.b = append(f.b, b...)
	return len(b), nil
}

func (*firstWrite) Read([]byte) (int, error) { return 0, io.EOF }
func (*firstWrite) Close() error             { return nil }

// A relay forwards connections to an address and records their bytes.
type relay struct {
	net.Listener
	to       string
	group    sync.WaitGroup
	mu       sync.Mutex
	up, down bytes.Buffer // guarded by mu: bytes to the server, and from it
	conns    []net.Conn   // guarded by mu
}

// relayTo returns a relay on the loopback interface that ends with the test.
func relayTo(t testing.TB, address string) *relay {
	t.Helper()
	l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &relay{Listener: l, to: address}
	r.group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.group.Go(func() { r.carry(c) })
		}
	})
	t.Cleanup(r.end)
	return r
}

func (r *relay) carry(worker net.Conn) {
	server, err := net.Dial("tcp", r.to)
	if err != nil {
		worker.Close()
		return
	}
	r.mu.Lock()
	r.conns = append(r.conns, worker, server)
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { r.copy(server, worker, &r.up) })
	both.Go(func() { r.copy(worker, server, &r.down) })
	both.Wait()
	worker.Close()
	server.Close()
}

// copy records the bytes before it forwards them.
func (r *relay) copy(to, from net.Conn, keep *bytes.Buffer) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		keep.Write(b[:n])
		r.mu.Unlock()
		if _, e := to.Write(b[:n]); errors.Join(err, e) != nil {
			_ = to.(*net.TCPConn).CloseWrite() // the other direction may continue
			return
		}
	}
}

func (r *relay) end() {
	r.Close()
	r.mu.Lock()
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.group.Wait()
}

// crossed returns the bytes sent to the server, and from it.
func (r *relay) crossed() (up, down []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.up.Bytes()), bytes.Clone(r.down.Bytes())
}
