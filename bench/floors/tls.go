package floors

import (
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"ipcbench/identity"
)

// A secured is a link that uses TLS on a socket.
type secured struct {
	conn    *tls.Conn
	records *records
}

// secure returns a link with TLS as in a session. The client has no certificate, because that
// affects only the handshake, which is not measured.
func secure(s socket, server bool) (link, error) {
	r := &records{socket: s}
	l := secured{records: r}
	if server {
		config, trust, err := offer()
		if err != nil {
			return nil, fmt.Errorf("link: %w", err)
		}
		if err := s.write(trust); err != nil {
			return nil, err
		}
		l.conn = tls.Server(r, config)
	} else {
		size := make([]byte, 2)
		if err := s.read(size); err != nil {
			return nil, err
		}
		trust := make([]byte, binary.LittleEndian.Uint16(size))
		if err := s.read(trust); err != nil {
			return nil, err
		}
		w, err := identity.NewWorker(trust)
		if err != nil {
			return nil, fmt.Errorf("link: %w", err)
		}
		l.conn = tls.Client(r, w.Config())
	}
	if err := cmp.Or(l.conn.Handshake(), r.flush()); err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	return l, nil
}

// offer returns a server's configuration and its authority's certificate for the client, after
// the certificate's length in two bytes.
func offer() (*tls.Config, []byte, error) {
	a, err := identity.NewAuthority("0")
	if err != nil {
		return nil, nil, err
	}
	config, err := a.Server(false)
	trust := a.Certificate()
	return config, append(binary.LittleEndian.AppendUint16(nil, uint16(len(trust))), trust...), err
}

func (l secured) write(b []byte) error {
	if _, err := l.conn.Write(b); err != nil {
		return err
	}
	return l.records.flush()
}

func (l secured) read(b []byte) error {
	_, err := io.ReadFull(l.conn, b)
	return err
}

// records is the connection below TLS, which writes records of 16 KiB. It holds them until
// flush, because passing all records of a write to the kernel together makes a stream a seventh
// faster. Read flushes first, because the peer may need the records before it replies.
type records struct {
	net.Conn // nil: crypto/tls uses only Read and Write
	socket   socket
	held     []byte
}

func (r *records) Read(b []byte) (int, error) {
	if err := r.flush(); err != nil {
		return 0, err
	}
	return r.socket.receive(b, 0)
}

func (r *records) Write(b []byte) (int, error) {
	r.held = append(r.held, b...)
	return len(b), nil
}

func (r *records) flush() error {
	defer func() { r.held = r.held[:0] }()
	return r.socket.write(r.held)
}
