package bench

import (
	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/trainer"
)

// network returns where and how the run's servers listen over TCP.
func (o Options) network() trainer.Config {
	c := trainer.Config{Ports: o.Ports, Insecure: o.Insecure, Files: o.Files}
	switch {
	case !o.Listen.IsValid(): // the default, the loopback interface
	case o.Listen.Port() == 0:
		c.Host = o.Listen.Addr().String()
	default:
		c.Host = o.Listen.String()
	}
	return c
}

// listen returns the result's entry for the listening address: empty on the loopback
// interface.
func (o Options) listen() string {
	switch {
	case !o.Listen.IsValid() || o.Listen.Addr().IsLoopback():
		return ""
	case o.Insecure:
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
