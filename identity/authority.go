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
	// ServerName is the name in a server's certificate, after OpenFL's aggregator. A
	// name is the same on every network, unlike an address.
	ServerName = "aggregator"

	// lifetime is longer than any run. Keys end with the session anyway.
	lifetime = 30 * 24 * time.Hour

	// skew is the largest tolerated difference between the clocks of two hosts.
	skew = time.Minute

	// longest is the largest size of a request or certificate in bytes, four times that
	// of this package's own.
	longest = 2048
)

// An Authority signs the certificates of one session. Its key exists only in this
// process's memory.
type Authority struct {
	session string
	key     *ecdsa.PrivateKey
	cert    *x509.Certificate
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// NewAuthority makes the authority of a session. The session's name is public:
// certificates have it as the host of a URI.
func NewAuthority(session string) (*Authority, error) {
	key, err := newKey()
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

// Certificate returns the authority's own certificate in DER. Peers that have it trust
// certificates that the authority signs.
func (a *Authority) Certificate() []byte { return a.cert.Raw }

// Sign returns a certificate, in DER, for the process that hosts l. request comes from
// that process, may hold anything, and must be signed with the key that it names. The
// certificate uses nothing from it except that key.
func (a *Authority) Sign(request []byte, l Lanes) ([]byte, error) {
	if !l.valid() {
		return nil, fmt.Errorf("lanes %d to %d: must be 0 or more, in ascending order", l.First, l.Last)
	}
	if len(request) > longest {
		return nil, fmt.Errorf("certificate request has %d bytes, must have at most %d", len(request), longest)
	}
	r, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	public, ok := r.PublicKey.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, fmt.Errorf("certificate request has a key of type %s, must be ECDSA on P-256", r.PublicKeyAlgorithm)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request is not signed with its own key: %w", err)
	}
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "lanes " + l.String()}, URIs: []*url.URL{l.uri(a.session)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}, public)
}

// sign sets the validity period of c and signs it. The authority's own certificate, made
// first, is signed with itself.
func (a *Authority) sign(c *x509.Certificate, public *ecdsa.PublicKey) ([]byte, error) {
	now := time.Now()
	c.NotBefore, c.NotAfter = now.Add(-skew), now.Add(lifetime)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	return x509.CreateCertificate(rand.Reader, c, parent, public, a.key) // it adds a random serial number
}

// Server makes a key and a certificate for the session's server, and returns its TLS
// configuration. If mutual is set, peers must show a certificate signed by this
// authority.
func (a *Authority) Server(mutual bool) (*tls.Config, error) {
	key, err := newKey()
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

// config returns the settings of both ends of all connections. Records have full size
// from the start: small first records speed up web pages, but only slow down tensors.
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
