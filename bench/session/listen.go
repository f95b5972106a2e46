package session

import (
	"net/netip"

	"ipcbench/bench/result"
	"ipcbench/identity"
	"ipcbench/internal/machine"
	"ipcbench/trainer"
	"ipcbench/transports/endpoint"
)

// Listening says where and how servers listen over TCP.
type Listening struct {
	Listen   netip.AddrPort  // address; port 0 means any port, the zero value the loopback interface
	Ports    endpoint.Ports  // range of ports to use if Listen has none; zero means any port
	Insecure bool            // allow addresses other than the loopback interface without tls=mutual
	Files    *identity.Files // certificates for TLS; if nil, each session creates its own
}

// host returns the address in the syntax of package trainer.
func (l Listening) host() string {
	switch {
	case !l.Listen.IsValid(): // the default, the loopback interface
		return ""
	case l.Listen.Port() == 0:
		return l.Listen.Addr().String()
	}
	return l.Listen.String()
}

// Described returns the result's entry for the address: empty on the loopback interface.
func (l Listening) Described() string {
	switch {
	case !l.Listen.IsValid() || l.Listen.Addr().IsLoopback():
		return ""
	case l.Insecure:
		return machine.Insecure
	}
	return machine.OffLoopback
}

// handshakes returns the result's entry for a session's TLS handshakes; nil if there was
// none.
func handshakes(s *trainer.Session) *result.TLS {
	h := s.Handshakes()
	if h.N == 0 {
		return nil
	}
	return &result.TLS{Handshakes: h.N, Time: int64(h.Longest), Cipher: h.Cipher}
}
