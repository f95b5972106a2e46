package trainer

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"
)

// join gets the credentials that the process needs to connect: with mutual TLS a
// certificate, which the session signs.
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

// sign has the session's authority sign a certificate request of w. The certificate is valid
// for the lanes that w hosts, whatever the request contains.
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

// Handshakes sums up the TLS handshakes with which worker processes have connected.
type Handshakes struct {
	N       int           // number in all processes
	Longest time.Duration // time of all handshakes of the process that needed most
	Cipher  string        // cipher suite as crypto/tls names it; empty without handshakes
}

// Handshakes returns the handshakes made until all workers were connected.
func (s *Session) Handshakes() Handshakes { return s.handshakes }

// Limits of the handshakes that a process can report.
const (
	maxHandshakes    = 1 << 20
	maxHandshakeTime = int64(24 * time.Hour)
)

// Limits of the software that a process can report.
const (
	MaxSoftware  = 32  // entries
	longSoftware = 128 // bytes of a name or a version
)

// check rejects impossible values. The cipher must be a known one, because it is shown to
// users. Names of software may be anything: package bench makes them printable.
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
