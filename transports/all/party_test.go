package all_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"ipcbench/identity"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
)

// A party is a session of two lanes. Lane 0 has a worker and carries out rounds while peers
// try to use lane 1.
type party struct {
	*drivertest.Session
	address string // HOST:PORT

	worker chan error    // its result
	stop   chan struct{} // closed to end the rounds
	rounds chan int      // receives the number of rounds
}

// listen starts a session of a variant. change, if not nil, edits the endpoint before it
// listens.
func listen(t *testing.T, variant string, change func(*endpoint.Endpoint)) *party {
	t.Helper()
	v := drivertest.Parse(t, variant, all.Transports()...)
	l := drivertest.Layout(t, tensor.Spec{Name: "w", DType: tensor.U8, Shape: []int{64 << 10}}, tensor.Spec{Name: "n", DType: tensor.I64})
	dir := t.TempDir()
	e := endpoint.New(dir)
	e.PerProcess = 1
	if change != nil {
		change(e)
	}
	p := &party{Session: drivertest.ListenAt(t, v, e, dir, driver.Options{Down: l, Up: l, Lanes: 2})}
	_, p.address, _ = strings.Cut(e.Addr(), ":")
	model := check.Value(p.Server.Reserve(0))(t)
	for b := model.View(0); len(b) > 0; b = b[len(marker):] {
		copy(b, marker)
	}
	model.Receipt = append(model.Receipt[:0], marker...)
	p.Model = check.Value(p.Server.Publish(t.Context(), 0, model))(t)
	return p
}

// marker is the content of a party's model and updates, and their receipt.
const marker = "\x8fipcbench marker"

// begin starts the worker of lane 0 and the rounds.
func (p *party) begin(e *endpoint.Endpoint) {
	p.T.Helper()
	p.worker, p.stop, p.rounds = make(chan error, 1), make(chan struct{}), make(chan int, 1)
	w := check.Value(drivertest.Dial(p.T.Context(), p.Variant, e, 0, p.Options))(p.T)
	go func() { p.worker <- drivertest.Serve(context.Background(), w.Worker, echo) }()
	go func() {
		n := 0
		defer func() { p.rounds <- n }()
		for over := false; !over; n++ {
			select {
			case <-p.stop:
				over = true
			default:
			}
			if err := p.round(n); err != nil {
				p.T.Error(err)
				return
			}
		}
	}()
}

// echo is a worker function that returns the model as the update.
func echo(_ driver.Job, model, update *tensor.Package) error {
	update.CopyFrom(model)
	update.Receipt = append(update.Receipt[:0], marker...)
	return nil
}

// round carries out the server's part of a round and proves the update.
func (p *party) round(n int) error {
	ctx := context.Background()
	if err := p.Server.Dispatch(ctx, 0, driver.Job{Client: n}); err != nil {
		return err
	}
	u, err := p.Server.Collect(ctx, 0)
	if err != nil {
		return err
	}
	defer u.Release()
	if u.Hash() != p.Model.Hash() || string(u.Receipt) != marker {
		return fmt.Errorf("the update of client %d is another one", n)
	}
	return nil
}

// end ends the rounds and the session.
func (p *party) end() {
	p.T.Helper()
	close(p.stop)
	n := waiting.Receive(p.T, "the end of rounds", p.rounds)
	check.OK(p.T, p.Server.Shutdown(waiting.Context(p.T)), "shutdown after", n, "rounds")
	check.OK(p.T, <-p.worker, "the worker after", n, "rounds")
}

// waits makes the server wait for lane 1, which has no worker. refused ends the wait and
// returns its error.
func (p *party) waits() (refused func() error) {
	ctx, cancel := context.WithCancel(p.T.Context())
	over := make(chan error, 1)
	go func() {
		err := p.Server.Dispatch(ctx, 1, driver.Job{})
		if err == nil {
			_, err = p.Server.Collect(ctx, 1)
		}
		over <- err
	}()
	return func() error {
		cancel()
		return <-over
	}
}

// joins dials lane 1, asks for a job, and returns the reason for the refusal.
func (p *party) joins(v transports.Variant, e *endpoint.Endpoint) error {
	ctx := waiting.Context(p.T)
	w, err := transports.Dial(ctx, v, e, 1, p.Options)
	if err == nil { // some transports notice only at the first call
		_, _, err = w.Receive(ctx)
		_ = w.Close()
	}
	return err
}

// with returns a worker's endpoint whose identity the session did not issue.
func (p *party) with(trust endpoint.Trust, process int, sign func([]byte) ([]byte, error)) *endpoint.Endpoint {
	p.T.Helper()
	e := endpoint.At(p.Endpoint.Addr(), p.Endpoint.Secret())
	check.Must(p.T, e.Join(trust, process, sign))
	return e
}

// signed returns a certificate that the session signed for lanes.
func (p *party) signed(lanes ...int) *tls.Certificate {
	p.T.Helper()
	return check.Value(drivertest.Certified(p.T, p.Endpoint, lanes...).GetClientCertificate(nil))(p.T)
}

// config returns a client's TLS configuration with the session's authority. The client
// shows c, or nothing if c is nil.
func (p *party) config(c *tls.Certificate) *tls.Config {
	p.T.Helper()
	trust := p.Endpoint.Trust()
	w, err := identity.NewWorker(trust.Authority)
	if trust.Files != nil {
		w, err = trust.Files.Worker(1, trust.ServerName)
	}
	check.Must(p.T, err)
	config := w.Config()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return cmp.Or(c, &tls.Certificate{}), nil
	}
	return config
}

// raw connects to the session's server without TLS.
func (p *party) raw() net.Conn {
	p.T.Helper()
	c := check.Value(net.DialTimeout("tcp", p.address, waiting.Limit))(p.T)
	p.T.Cleanup(func() { c.Close() })
	waiting.Conn(p.T, c)
	return c
}

// shakes makes a TLS handshake, sends nothing more, and returns the error that ends the
// connection.
func (p *party) shakes(config *tls.Config) error {
	c := tls.Client(p.raw(), config)
	if err := c.Handshake(); err != nil {
		return err
	}
	return ends(c)
}

// ends reads until the connection ends, which is always an error.
func ends(c net.Conn) error {
	if _, err := io.Copy(io.Discard, c); err != nil {
		return err
	}
	return io.EOF
}
