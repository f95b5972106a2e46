package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// A Worker is a worker process's side: whom it trusts, and its own key and certificate,
// if it has them.
type Worker struct {
	authorities *x509.CertPool
	server      string // the name that the server's certificate must have
	key         *ecdsa.PrivateKey
	own         tls.Certificate
}

// NewWorker returns a worker that trusts the authority of a session, whose certificate
// is given in DER, and that authority's server.
func NewWorker(authority []byte) (*Worker, error) {
	if len(authority) > longest {
		return nil, fmt.Errorf("the authority's certificate has %d bytes: want at most %d", len(authority), longest)
	}
	c, err := x509.ParseCertificate(authority)
	if err != nil {
		return nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	if !c.IsCA {
		return nil, errors.New("the authority's certificate is not that of an authority")
	}
	w := &Worker{authorities: x509.NewCertPool(), server: ServerName}
	w.authorities.AddCert(c)
	return w, nil
}

// Request makes a key and returns the request for a certificate with it, in DER.
func (w *Worker) Request() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	w.key = key
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

// Certify takes the certificate that came for the request, in DER, if it is for that key
// and from the authority.
func (w *Worker) Certify(cert []byte) error {
	if w.key == nil {
		return errors.New("a certificate came before it was asked for")
	}
	if len(cert) > longest {
		return fmt.Errorf("the signed certificate has %d bytes: want at most %d", len(cert), longest)
	}
	c, err := x509.ParseCertificate(cert)
	if err != nil {
		return fmt.Errorf("the signed certificate: %w", err)
	}
	if !w.key.PublicKey.Equal(c.PublicKey) {
		return errors.New("the signed certificate is for another key")
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: w.authorities, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fmt.Errorf("the signed certificate: %w", err)
	}
	w.own = tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: w.key, Leaf: c}
	return nil
}

// Config returns how this process dials: with its certificate, if it has one.
func (w *Worker) Config() *tls.Config {
	c := config()
	c.RootCAs, c.ServerName = w.authorities, w.server
	if own := w.own; len(own.Certificate) > 0 {
		// Config.Certificates would show nothing to a server that trusts other
		// authorities, and nobody would learn why.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return c
}
