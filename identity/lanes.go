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

// Lanes are what a worker process hosts and its certificate speaks for.
type Lanes struct{ First, Last int }

// String writes lanes as 3, or as 4-7.
func (l Lanes) String() string {
	if l.First == l.Last {
		return strconv.Itoa(l.First)
	}
	return fmt.Sprintf("%d-%d", l.First, l.Last)
}

// Has reports whether lane is one of them.
func (l Lanes) Has(lane int) bool { return l.First <= lane && lane <= l.Last }

// valid reports whether there are such lanes.
func (l Lanes) valid() bool { return 0 <= l.First && l.First <= l.Last }

// uri is how a certificate names lanes of a session, as a subjectAltName.
func (l Lanes) uri(session string) *url.URL {
	return &url.URL{Scheme: "ipcbench", Host: session, Path: "/lanes/" + l.String()}
}

// Of returns the lanes for which the other end of a connection speaks. Its certificate
// must have been verified, which the configuration of a mutual server sees to, and name
// them and this session.
func Of(state tls.ConnectionState, session string) (Lanes, error) {
	c, err := verified(state)
	if err != nil {
		return Lanes{}, err
	}
	if len(c.URIs) != 1 {
		return Lanes{}, fmt.Errorf("the certificate has %d names of the form %s: want one", len(c.URIs), Lanes{4, 7}.uri("SESSION"))
	}
	return parse(c.URIs[0], session)
}

// parse reads what [Lanes.uri] makes, and nothing else: the same lanes have one name.
func parse(u *url.URL, session string) (l Lanes, err error) {
	first, last, several := strings.Cut(path.Base(u.Path), "-")
	if !several {
		last = first
	}
	l.First, _ = strconv.Atoi(first) // of what is no number, no name is made
	l.Last, _ = strconv.Atoi(last)
	if !l.valid() || l.uri(session).String() != u.String() {
		return Lanes{}, fmt.Errorf("the certificate's name is %.80q: want lanes of this session, such as %s", u, Lanes{4, 7}.uri(session))
	}
	return l, nil
}

// verified returns the certificate of the other end.
func verified(state tls.ConnectionState) (*x509.Certificate, error) {
	if !state.HandshakeComplete || len(state.VerifiedChains) == 0 {
		return nil, errors.New("no certificate was shown")
	}
	return state.PeerCertificates[0], nil
}
