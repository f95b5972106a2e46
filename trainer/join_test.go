package trainer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ipcbench/identity"
	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/pickle"
)

// idle is a worker function that does nothing.
func idle([]byte) (Train, error) { return func(*Job) error { return nil }, nil }

// configOf returns the configuration of one lane with a model of three elements. A tls of
// "off" leaves the settings at their defaults.
func configOf(t *testing.T, transport driver.Transport, tls string, l Launcher) Config {
	t.Helper()
	layout := check.Value(tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}}))(t)
	settings := driver.Settings{"tls": tls}
	if tls == "off" {
		settings = nil
	}
	v := check.Value(transports.NewVariant(transport, settings))(t)
	return Config{Variant: v, Down: layout, Up: layout, Workers: 1, Clients: 1, Func: "idle", Launcher: l}
}

// request returns a valid certificate request of a worker process.
func request(t *testing.T) []byte {
	t.Helper()
	a := check.Value(identity.NewAuthority("ab"))(t)
	return check.Value(check.Value(identity.NewWorker(a.Certificate()))(t).Request())(t)
}

// TestSignImpostors: a session with its own authority signs one certificate per process,
// for a valid request (package identity tests which are valid). Any other message fails the
// session with an error that names the process.
func TestSignImpostors(t *testing.T) {
	good := message{Sign: &sign{request(t)}}
	for name, c := range map[string]struct {
		mode string
		says []message
		want string
	}{
		"twice":        {"mutual", []message{good, good}, "unrequested sign"},
		"the server's": {"on", []message{good}, "unrequested sign"},
		"garbage":      {"mutual", []message{{Sign: &sign{[]byte("please")}}}, "certificate request: "},
		"its own":      {"mutual", []message{{Signed: &signed{[]byte("me")}}}, "unrequested signed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(context.Background(), configOf(t, pickle.New(), c.mode, impostors(says(c.says...))))
			check.Fails(t, err, "process 0 ")
			check.Fails(t, err, c.want)
		})
	}
}

// TestBadCertificates: a process accepts only certificates of the assigned authority, and
// says what is wrong with others. It stops waiting if the session ends. Package identity
// tests the other refusals.
func TestBadCertificates(t *testing.T) {
	authority := check.Value(identity.NewAuthority("ab"))(t)
	other := check.Value(identity.NewAuthority("ab"))(t)
	for name, c := range map[string]struct {
		answer func(request []byte) []byte // nil closes the control socket
		want   string
	}{
		"garbage": {func([]byte) []byte { return []byte("you") }, "process 0: the signed certificate: "},
		"another authority": {func(r []byte) []byte {
			certificate, _ := other.Sign(r, identity.Lanes{}) // without a certificate, the test sees a different error
			return certificate
		}, "unknown authority"},
		"the end": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ours, ended := hosted(t)
			server := &control{conn: ours, timeout: sendTimeout, limit: shortMessage}
			a := assignment{Lanes: []int{0}, TotalLanes: 1, Depth: 1, Transport: "pickle", Func: "any", Trust: endpoint.Trust{Authority: authority.Certificate(), Mutual: true}}
			check.Must(t, errors.Join(server.send(message{Hello: newHello()}), server.send(message{Assign: &a})))
			m, err := server.receive()
			check.Need(t, err == nil && m.Sign != nil, "got %v, %v, want it to ask for a certificate", m.kind, err)
			if c.answer == nil {
				ours.Close()
			} else {
				check.Must(t, server.send(message{Signed: &signed{c.answer(m.Sign.Request)}}))
			}
			if m, err := server.receive(); c.answer != nil {
				check.That(t, err == nil && m.Failure != nil && strings.Contains(m.Failure.Text, c.want),
					"it says %+v, %v: want a failure with %q", m.Failure, err, c.want)
			}
			ours.Close()
			if err := ended(); c.answer != nil {
				check.Fails(t, err, c.want)
			}
		})
	}
}

// TestHandshakes: a session reports the number of TLS handshakes of its lanes, the longest
// one and the cipher.
func TestHandshakes(t *testing.T) {
	h := Host{Transports: []driver.Transport{pickle.New()}, Funcs: map[string]Func{"idle": idle}}
	for mode, want := range map[string]int{"off": 0, "on": 3, "mutual": 3} {
		cfg := configOf(t, h.Transports[0], mode, NewGoroutines(h))
		cfg.Workers, cfg.PerProcess = 3, 2
		s := check.Value(Open(t.Context(), cfg))(t)
		got := s.Handshakes()
		check.That(t, got.N == want && (got.Longest > 0) == (want > 0) && strings.HasPrefix(got.Cipher, "TLS_") == (want > 0),
			"tls=%s: got %+v, want %d", mode, got, want)
		check.OK(t, check.Err(s.Close()))
	}
}
