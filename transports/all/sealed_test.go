package all_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"ipcbench/internal/test/check"
	"net"
	"strings"
	"testing"
)

// A sealed is a client's end of a connection after the handshake of TLS 1.3, where
// records are written by hand: what no client would say.
type sealed struct {
	net.Conn  // below TLS
	out, back direction
}

// The content types of records, and the type of one message in them.
const (
	alertRecord, handshakeRecord, dataRecord = 21, 22, 23

	keyUpdate = 24
)

// seal makes the handshake on c, as crypto/tls does, and takes over. Only AES-128-GCM
// is understood, which crypto/tls takes where both processors, here one, have
// instructions for it.
func seal(t testing.TB, c net.Conn, config *tls.Config) (*sealed, error) {
	t.Helper()
	var log bytes.Buffer
	config = config.Clone()
	config.KeyLogWriter = &log
	tc := tls.Client(exact{c}, config)
	if err := tc.HandshakeContext(t.Context()); err != nil {
		return nil, err
	}
	if suite := tc.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		return nil, fmt.Errorf("%w: the session uses %s", errSuite, tls.CipherSuiteName(suite))
	}
	s := &sealed{Conn: c}
	for line := range strings.Lines(log.String()) {
		f := strings.Fields(line) // what for, the client's nonce, the secret
		d := map[string]*direction{"CLIENT_TRAFFIC_SECRET_0": &s.out, "SERVER_TRAFFIC_SECRET_0": &s.back}[f[0]]
		if d != nil {
			secret, err := hex.DecodeString(f[2])
			check.Must(t, err)
			check.Must(t, d.use(secret))
		}
	}
	return s, nil
}

// errSuite ends a test on a processor without instructions for AES.
var errSuite = errors.New("records of AES-128-GCM alone are written by hand")

// exact is a connection from which crypto/tls takes no byte that it does not need: it
// asks for a head of 5 bytes, and then for what that announces.
type exact struct{ net.Conn }

func (e exact) Read(b []byte) (int, error) { return e.Conn.Read(b[:min(len(b), 1)]) }

// A direction is the keys of what goes one way.
type direction struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// use makes the keys of a secret those of the next records (RFC 8446, 7.3).
func (d *direction) use(secret []byte) error {
	key, err := expand(secret, "key", 16)
	if err != nil {
		return err
	}
	if d.iv, err = expand(secret, "iv", 12); err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	d.secret, d.seq = secret, 0
	d.aead, err = cipher.NewGCM(block)
	return err
}

// follow changes the keys, as a KeyUpdate says.
func (d *direction) follow() error {
	secret, err := expand(d.secret, "traffic upd", sha256.Size)
	if err != nil {
		return err
	}
	return d.use(secret)
}

// expand is HKDF-Expand-Label (RFC 8446, 7.1) without a context.
func expand(secret []byte, label string, n int) ([]byte, error) {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(append(info, byte(len(label))), label...)
	return hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
}

// nonce returns that of the next record.
func (d *direction) nonce() []byte {
	nonce := binary.BigEndian.AppendUint64(make([]byte, 4), d.seq)
	for i := range nonce {
		nonce[i] ^= d.iv[i]
	}
	d.seq++
	return nonce
}

// write sends a record of that type.
func (s *sealed) write(kind byte, content []byte) error {
	head := binary.BigEndian.AppendUint16([]byte{dataRecord, 3, 3}, uint16(len(content)+1+s.out.aead.Overhead()))
	record := s.out.aead.Seal(bytes.Clone(head), s.out.nonce(), append(bytes.Clone(content), kind), head)
	_, err := s.Write(record)
	return err
}

// update says that the next records have other keys, and asks for the same.
func (s *sealed) update() error {
	if err := s.write(handshakeRecord, []byte{keyUpdate, 0, 0, 1, 1}); err != nil {
		return err
	}
	return s.out.follow()
}

// next reads a record of the server's. An alert is an error, in the words of crypto/tls.
func (s *sealed) next() error {
	head := make([]byte, 5)
	if _, err := io.ReadFull(s, head); err != nil {
		return err
	}
	record := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(s, record); err != nil {
		return err
	}
	content, err := s.back.aead.Open(nil, s.back.nonce(), record, head)
	if err != nil {
		return err
	}
	switch kind, content := content[len(content)-1], content[:len(content)-1]; {
	case kind == alertRecord:
		return fmt.Errorf("remote error: %w", tls.AlertError(content[1]))
	case kind == handshakeRecord && content[0] == keyUpdate:
		return s.back.follow()
	}
	return nil
}

// alert reads to the alert that the server gives.
func (s *sealed) alert() (err error) {
	for err == nil {
		err = s.next()
	}
	return err
}
