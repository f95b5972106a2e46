package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Hash returns the SHA-256 of the authority's certificate, by which [Pinned] knows it.
func (a *Authority) Hash() []byte {
	h := sha256.Sum256(a.cert.Raw)
	return h[:]
}

// Shown returns how the session's server accepts connections of ends that know no more
// of the authority than its hash: it shows the authority's certificate with its own.
func (a *Authority) Shown() (*tls.Config, error) {
	c, err := a.Server(false)
	if err == nil {
		c.Certificates[0].Certificate = append(c.Certificates[0].Certificate, a.cert.Raw)
	}
	return c, err
}

// ErrAuthority says that the server is another one than who was told of.
var ErrAuthority = errors.New("the server's certificate leads to another authority")

// Pinned returns how an end dials that trusts the authority with this hash, and its
// server. Without a hash it trusts whoever answers: the other end has to prove in
// another way, over this very connection, who it is.
func Pinned(hash []byte) *tls.Config {
	c := config()
	c.ServerName = ServerName
	c.InsecureSkipVerify = true // crypto/tls knows authorities by themselves, and not by their hashes
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
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: ServerName}) // for a server, by default
			return err
		}
		return ErrAuthority
	}
	return c
}
