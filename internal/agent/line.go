package agent

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// A Line holds all that an agent needs to join a run. It contains the run's token, so it
// must not appear in errors or logs.
type Line struct {
	Addr  string // HOST:PORT that agents dial
	Token string
	CA    []byte // SHA-256 of the run's authority; if empty, only the token proves the server
}

const (
	scheme   = "ipcbench://"
	mostLine = 1 << 10 // bytes
)

// String returns the join line: ipcbench://HOST:PORT/#TOKEN.CAHASH.
func (l Line) String() string {
	text := scheme + l.Addr + "/#" + l.Token
	if len(l.CA) > 0 {
		text += "." + base64.RawURLEncoding.EncodeToString(l.CA)
	}
	return text
}

// ParseLine parses a join line. Its errors never contain the token.
func ParseLine(text string) (l Line, err error) {
	text = strings.TrimSpace(text)
	if len(text) > mostLine {
		return l, fmt.Errorf("the join line has %d bytes: it must have at most %d", len(text), mostLine)
	}
	rest, ok := strings.CutPrefix(text, scheme)
	addr, secret, found := strings.Cut(rest, "/#")
	if !ok || !found {
		return l, errors.New("not a join line: it must be ipcbench://HOST:PORT/#TOKEN.CAHASH, as ipcbench run --agents prints it")
	}
	token, hash, pinned := strings.Cut(secret, ".")
	if err := CheckToken(token); err != nil {
		return l, err
	}
	l = Line{Addr: addr, Token: token}
	if pinned {
		l.CA, err = base64.RawURLEncoding.Strict().DecodeString(hash)
		if err != nil || len(l.CA) != sha256.Size {
			return Line{}, errors.New("the join line does not end in the hash of an authority: was it cut off?")
		}
	}
	return l, CheckAddr(addr)
}

var secret = regexp.MustCompile(`(` + scheme + `[^/\s]*/#)[^\s"'` + "`]+")

// Redacted returns text with the secrets of all join lines replaced by an ellipsis. Errors
// quote mistyped commands, which may contain a join line.
func Redacted(text string) string { return secret.ReplaceAllString(text, "$1…") }

// CheckAddr returns an error unless addr is HOST:PORT with a port from 1 to 65535.
func CheckAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.ContainsAny(host, " /#@%") {
		return fmt.Errorf("%q: must be HOST:PORT", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q: the port must be from 1 to 65535", addr)
	}
	return nil
}

var (
	tokens = regexp.MustCompile(`^[\w+/=-]{0,200}$`)                              // random bytes in base 16, 32 or 64
	short  = regexp.MustCompile(`^([0-9a-fA-F]{0,31}|[A-Z2-7]{0,25}|.{0,21})=*$`) // fewer than 128 bits
)

// CheckToken returns an error unless token can be 128 or more random bits in base 16, 32
// or 64, with at most 200 characters.
func CheckToken(token string) error {
	switch {
	case !tokens.MatchString(token):
		return errors.New("the token must have at most 200 characters: letters, digits and - _ + / =")
	case short.MatchString(token):
		return errors.New("the token has fewer than 128 bits: use at least 32 hexadecimal digits, as openssl rand -hex 16 prints")
	}
	return nil
}
