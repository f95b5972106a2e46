package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Lanes are the consecutive lanes, from First to Last, that a worker process hosts and
// its certificate is valid for.
type Lanes struct{ First, Last int }

// String returns lanes in a form such as 3 or 4-7.
func (l Lanes) String() string {
	if l.First == l.Last {
		return strconv.Itoa(l.First)
	}
	return fmt.Sprintf("%d-%d", l.First, l.Last)
}

// Has reports whether lane is one of them.
func (l Lanes) Has(lane int) bool { return l.First <= lane && lane <= l.Last }

// valid reports whether l has at least one lane and no negative ones.
func (l Lanes) valid() bool { return 0 <= l.First && l.First <= l.Last }

// uri returns the subjectAltName that names the lanes of a session in a certificate.
func (l Lanes) uri(session string) *url.URL {
	return &url.URL{Scheme: "ipcbench", Host: session, Path: "/lanes/" + l.String()}
}

// Of returns the lanes that the peer may act for. It fails unless the peer's certificate
// was verified in a mutual handshake and names lanes of this session.
func Of(state tls.ConnectionState, session string) (Lanes, error) {
	c, err := verified(state)
	if err != nil {
		return Lanes{}, err
	}
	if len(c.URIs) != 1 {
		return Lanes{}, fmt.Errorf("the certificate has %d names of the form %s, must have one", len(c.URIs), Lanes{4, 7}.uri("SESSION"))
	}
	return parse(c.URIs[0], session)
}

// parse parses the result of [Lanes.uri], and rejects other spellings of the same lanes.
func parse(u *url.URL, session string) (l Lanes, err error) {
	first, last, several := strings.Cut(path.Base(u.Path), "-")
	if !several {
		last = first
	}
	l.First, _ = strconv.Atoi(first) // a malformed number fails the comparison below
	l.Last, _ = strconv.Atoi(last)
	if !l.valid() || l.uri(session).String() != u.String() {
		return Lanes{}, fmt.Errorf("the certificate's name is %.80q, must name lanes of this session, such as %s", u, Lanes{4, 7}.uri(session))
	}
	return l, nil
}

// verified returns the peer's certificate, or an error if it was not verified.
func verified(state tls.ConnectionState) (*x509.Certificate, error) {
	if !state.HandshakeComplete || len(state.VerifiedChains) == 0 {
		return nil, errors.New("the peer has shown no valid certificate")
	}
	return state.PeerCertificates[0], nil
}
