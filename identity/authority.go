package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/url"
	"time"
)

const (
	// ServerName is what the certificate of a session's server is for: OpenFL's word
	// for it. A name rather than an address, since it is the same on every network.
	ServerName = "aggregator"

	// lifetime is longer than any run; the keys end with the session anyway.
	lifetime = 30 * 24 * time.Hour

	// skew is how far the clocks of two hosts may be apart.
	skew = time.Minute

	// longest is how long a request or a certificate may be. Those that are made
	// here have a quarter of it.
	longest = 2048
)

// An Authority signs the certificates of one session. Its key is in this process's
// memory alone.
type Authority struct {
	session string
	key     *ecdsa.PrivateKey
	cert    *x509.Certificate
}

// NewAuthority makes the authority of a session, whose name is public: in certificates it
// is the host of a URI.
func NewAuthority(session string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &Authority{session: session, key: key}
	der, err := a.sign(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "ipcbench session " + session},
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// Certificate returns the authority's own certificate in DER, for whoever is to trust
// what it signs.
func (a *Authority) Certificate() []byte { return a.cert.Raw }

// Sign returns a certificate, in DER, for the process that hosts l and made the request,
// which comes from another process and may hold anything. It must be signed with the
// key that it is for. Of all it says, only that key is taken.
func (a *Authority) Sign(request []byte, l Lanes) ([]byte, error) {
	if !l.valid() {
		return nil, fmt.Errorf("lanes %d to %d: there are none such", l.First, l.Last)
	}
	if len(request) > longest {
		return nil, fmt.Errorf("a request for a certificate has %d bytes: want at most %d", len(request), longest)
	}
	r, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("a request for a certificate: %w", err)
	}
	public, ok := r.PublicKey.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, fmt.Errorf("a request for a certificate has a key of type %s: want ECDSA on P-256", r.PublicKeyAlgorithm)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("a request for a certificate is not signed with its own key: %w", err)
	}
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "lanes " + l.String()}, URIs: []*url.URL{l.uri(a.session)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}, public)
}

// sign fills in what all certificates have: when they hold, and a random number. The
// authority's own, which is made first, it signs with itself.
func (a *Authority) sign(c *x509.Certificate, public *ecdsa.PublicKey) ([]byte, error) {
	now := time.Now()
	c.NotBefore, c.NotAfter = now.Add(-skew), now.Add(lifetime)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	return x509.CreateCertificate(rand.Reader, c, parent, public, a.key) // without a number it takes a random one
}

// Server makes a key and a certificate for the session's server, and returns how it
// accepts connections: mutual demands a certificate of the other end, too.
func (a *Authority) Server(mutual bool) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: ServerName}, DNSNames: []string{ServerName},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return server(tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool, mutual), nil
}

// config has what both ends of all connections have in common. Records are as large as
// they may be from the first byte on: nobody waits for the first line of a page here.
func config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS13,
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
	}
}

func server(own tls.Certificate, authorities *x509.CertPool, mutual bool) *tls.Config {
	c := config()
	c.Certificates = []tls.Certificate{own}
	if mutual {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, authorities
	}
	return c
}
