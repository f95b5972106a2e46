package identity

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// A Worker holds the TLS settings of a worker process: the trusted authorities, and its
// own key and certificate if it has them.
type Worker struct {
	authorities *x509.CertPool
	server      string // required name in the server's certificate
	key         *ecdsa.PrivateKey
	own         tls.Certificate
}

// NewWorker returns a worker that trusts the session's authority, whose certificate is
// given in DER, and the server certified by it.
func NewWorker(authority []byte) (*Worker, error) {
	if len(authority) > longest {
		return nil, fmt.Errorf("the authority's certificate has %d bytes, must have at most %d", len(authority), longest)
	}
	c, err := x509.ParseCertificate(authority)
	if err != nil {
		return nil, fmt.Errorf("the authority's certificate: %w", err)
	}
	if !c.IsCA {
		return nil, errors.New("the authority's certificate is for no authority")
	}
	w := &Worker{authorities: x509.NewCertPool(), server: ServerName}
	w.authorities.AddCert(c)
	return w, nil
}

// Request makes a key, and returns a certificate request for it in DER.
func (w *Worker) Request() ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	w.key = key
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

// Certify accepts the certificate, in DER, that was signed for the request. It fails if
// the certificate is for another key or from another authority.
func (w *Worker) Certify(cert []byte) error {
	if w.key == nil {
		return errors.New("a certificate arrived before it was requested")
	}
	if len(cert) > longest {
		return fmt.Errorf("the signed certificate has %d bytes, must have at most %d", len(cert), longest)
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

// Config returns the TLS configuration for dialling, with the process's certificate if
// it has one.
func (w *Worker) Config() *tls.Config {
	c := config()
	c.RootCAs, c.ServerName = w.authorities, w.server
	if own := w.own; len(own.Certificate) > 0 {
		// With Config.Certificates, the client would silently send no certificate to a
		// server that trusts other authorities.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return c
}
