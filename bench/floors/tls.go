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

// A secured is a link with TLS on a socket.
type secured struct {
	conn    *tls.Conn
	records *records
}

// secure makes a link with TLS like that of a session. The client has no certificate:
// that would cost the handshake time, and what follows none.
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

// offer returns what a server has, and what a client is told that is to trust it: the
// length of the authority's certificate and the certificate.
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

// records are what TLS writes and reads, 16 KiB each. Those of one write of the link go to
// the kernel together, which makes a stream a seventh faster; so do those of the handshake
// that the other end must have before it answers.
type records struct {
	net.Conn // none: TLS needs no more than Read and Write
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
