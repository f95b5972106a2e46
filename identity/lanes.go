package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
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

// ParseLanes reads what String writes, and nothing else: the same lanes have one text.
func ParseLanes(text string) (Lanes, error) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	var l Lanes
	var firstErr, lastErr error
	l.First, firstErr = strconv.Atoi(first)
	l.Last, lastErr = strconv.Atoi(last)
	if errors.Join(firstErr, lastErr) != nil || !l.valid() || l.String() != text {
		return Lanes{}, fmt.Errorf("lanes %.40q: want one, such as 3, or several, such as 4-7", text)
	}
	return l, nil
}

// uri is how a certificate names lanes of a session, as a subjectAltName.
func (l Lanes) uri(session string) *url.URL {
	return &url.URL{Scheme: scheme, Host: session, Path: lanesPath + l.String()}
}

const (
	scheme    = "ipcbench"
	lanesPath = "/lanes/"
)

// Of returns the lanes for which the other end of a connection speaks. Its certificate
// must have been verified, which the configuration of a mutual server sees to, and name
// them and this session.
func Of(state tls.ConnectionState, session string) (Lanes, error) {
	c, err := verified(state)
	if err != nil {
		return Lanes{}, err
	}
	names := c.URIs
	if len(names) != 1 {
		return Lanes{}, fmt.Errorf("the certificate has %d names of the form %s: want one", len(names), Lanes{4, 7}.uri("SESSION"))
	}
	return parseURI(names[0], session)
}

// verified returns the certificate of the other end.
func verified(state tls.ConnectionState) (*x509.Certificate, error) {
	if !state.HandshakeComplete || len(state.VerifiedChains) == 0 {
		return nil, errors.New("no certificate was shown")
	}
	return state.PeerCertificates[0], nil
}

// parseURI reads what [Lanes.uri] makes, and nothing else.
func parseURI(u *url.URL, session string) (Lanes, error) {
	if u.Scheme == scheme && u.Host != session {
		return Lanes{}, fmt.Errorf("the certificate is of session %.40q, and this is %s", u.Host, session)
	}
	text, ok := strings.CutPrefix(u.String(), scheme+"://"+session+lanesPath)
	if !ok {
		return Lanes{}, fmt.Errorf("the certificate's name is %.80q: want %s", u, Lanes{4, 7}.uri(session))
	}
	return ParseLanes(text)
}
