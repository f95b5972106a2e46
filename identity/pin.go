package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Hash returns the SHA-256 of the authority's certificate, as [Pinned] needs it.
func (a *Authority) Hash() []byte {
	h := sha256.Sum256(a.cert.Raw)
	return h[:]
}

// Shown returns the TLS configuration of a server whose peers have only the authority's
// hash: it sends the authority's certificate together with its own.
func (a *Authority) Shown() (*tls.Config, error) {
	c, err := a.Server(false)
	if err == nil {
		c.Certificates[0].Certificate = append(c.Certificates[0].Certificate, a.cert.Raw)
	}
	return c, err
}

// ErrAuthority means that the server's certificate was not signed by the authority with
// the expected hash.
var ErrAuthority = errors.New("the server's certificate was signed by another authority")

// Pinned returns the TLS configuration of an end that trusts only the server of the
// authority with this hash. Without a hash it accepts any server, which must then be
// authenticated over the connection by other means.
func Pinned(hash []byte) *tls.Config {
	c := config()
	c.ServerName = ServerName
	c.InsecureSkipVerify = true // crypto/tls cannot verify by hash: VerifyConnection does
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if len(hash) == 0 {
			return nil
		}
		for _, shown := range state.PeerCertificates {
			if h := sha256.Sum256(shown.Raw); !bytes.Equal(h[:], hash) || !shown.IsCA {
				continue
			}
			roots := x509.NewCertPool()
			roots.AddCert(shown)
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: ServerName}) // for server use, by default
			return err
		}
		return ErrAuthority
	}
	return c
}
