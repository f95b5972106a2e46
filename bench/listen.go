package bench

import (
	"ipcbench/identity"
	"ipcbench/internal/machine"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
)

// A network is where the servers of a run listen over TCP, and to whom.
type network struct {
	host     string // empty for the usual place
	ports    driver.Ports
	insecure bool
	files    *identity.Files
}

func (o Options) network() network {
	n := network{ports: o.Ports, insecure: o.Insecure, files: o.Files}
	switch {
	case !o.Listen.IsValid():
	case o.Listen.Port() == 0:
		n.host = o.Listen.Addr().String()
	default:
		n.host = o.Listen.String()
	}
	return n
}

// listen is what a result says of that.
func (o Options) listen() string {
	switch {
	case !o.Listen.IsValid() || o.Listen.Addr().IsLoopback():
		return ""
	case o.Insecure:
		return machine.Insecure
	}
	return machine.OffLoopback
}

// handshakes is what a result says of those of a session; nil if there was none.
func handshakes(s *trainer.Session) *TLS {
	h := s.Handshakes()
	if h.N == 0 {
		return nil
	}
	return &TLS{Handshakes: h.N, Time: int64(h.Longest), Cipher: h.Cipher}
}
