package bench

import (
	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/trainer"
)

// network says where the servers of a run listen over TCP, and to whom.
func (o Options) network() trainer.Config {
	c := trainer.Config{Ports: o.Ports, Insecure: o.Insecure, Files: o.Files}
	switch {
	case !o.Listen.IsValid(): // the usual place
	case o.Listen.Port() == 0:
		c.Host = o.Listen.Addr().String()
	default:
		c.Host = o.Listen.String()
	}
	return c
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
func handshakes(s *trainer.Session) *result.TLS {
	h := s.Handshakes()
	if h.N == 0 {
		return nil
	}
	return &result.TLS{Handshakes: h.N, Time: int64(h.Longest), Cipher: h.Cipher}
}
