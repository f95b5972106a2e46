package trainer

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"
)

// join takes what the process needs to be let in: with mutual TLS a certificate, which
// the session signs.
func (w *process) join(ctx context.Context, c *control) error {
	err := w.at.Join(w.a.Trust, w.a.Process, func(request []byte) ([]byte, error) {
		w.signs.Store(true)
		if err := c.send(message{Sign: &sign{request}}); err != nil {
			return nil, err
		}
		select {
		case certificate := <-w.signed:
			return certificate, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	if err != nil {
		return fmt.Errorf("process %d: %w", w.a.Process, err)
	}
	return nil
}

// sign has the session's authority sign a request of w, for the lanes that w hosts
// whatever the request says.
func (s *Session) sign(w *sessionProcess, request []byte) error {
	var lanes []int
	for _, l := range w.lanes {
		lanes = append(lanes, l.n)
	}
	certificate, err := s.at.Sign(request, lanes)
	if err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	return w.control.send(message{Signed: &signed{certificate}})
}

// Handshakes are the TLS handshakes with which worker processes have connected.
type Handshakes struct {
	N       int           // of all processes
	Longest time.Duration // what all of one process took, where that is most
	Cipher  string        // as crypto/tls names it; empty without any
}

func (h *Handshakes) add(r *ready) {
	h.N += int(r.Handshakes)
	h.Longest = max(h.Longest, time.Duration(r.HandshakeTime))
	h.Cipher = cmp.Or(r.Cipher, h.Cipher)
}

// Handshakes returns those that it took until all workers were connected.
func (s *Session) Handshakes() Handshakes { return s.shaken }

// The most that a process can tell of handshakes.
const (
	maxHandshakes    = 1 << 20
	maxHandshakeTime = int64(24 * time.Hour)
)

// The most that a process can tell of what it runs on.
const (
	MaxSoftware  = 32  // entries
	longSoftware = 128 // bytes of a name or a version
)

// check reports what no process has done. The cipher is shown to users; what is said of
// software bench makes printable.
func (r *ready) check() error {
	for name, version := range r.Software {
		if len(r.Software) > MaxSoftware || len(name) > longSoftware || len(version) > longSoftware {
			return fmt.Errorf("%w: %d names of software, such as %.40q %.40q", errProtocol, len(r.Software), name, version)
		}
	}
	if r.Import < 0 || r.Import > time.Hour {
		return fmt.Errorf("%w: an import of %d ns", errProtocol, r.Import)
	}
	known := slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == r.Cipher })
	if r.Handshakes < 0 || r.Handshakes > maxHandshakes || r.HandshakeTime < 0 || r.HandshakeTime > maxHandshakeTime || known != (r.Handshakes > 0) {
		return fmt.Errorf("%w: %d handshakes in %d ns with cipher %.40q", errProtocol, r.Handshakes, r.HandshakeTime, r.Cipher)
	}
	return nil
}
