package all_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"ipcbench/identity"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// A party is a session of two lanes. Lane 0 has its worker, and rounds go on there
// while others try for lane 1.
type party struct {
	t       *testing.T
	v       transports.Variant
	o       driver.Options
	at      *driver.Endpoint
	server  *transports.Server
	model   *tensor.Package
	address string // HOST:PORT

	worker chan error    // what became of it
	stop   chan struct{} // closed: no more rounds
	rounds chan int      // how many there were
}

// listen starts a session of that variant, whose worker dials through where it is told
// to; empty is the server's own address. change is for the endpoint, before it listens.
func listen(t *testing.T, variant string, change func(*driver.Endpoint)) *party {
	t.Helper()
	v, err := transports.Parse(variant, all.Transports())
	check.Must(t, err)
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.U8, Shape: []int{64 << 10}}, {Name: "n", DType: tensor.I64}})
	check.Must(t, err)
	p := &party{t: t, v: v, at: driver.NewEndpoint(t.TempDir()), o: driver.Options{
		Down: l, Up: l, Lanes: 2, Clients: 8, Depth: 2, Settings: v.Settings, Rec: phase.NewRecorder(0),
	}}
	p.at.PerProcess = 1
	if change != nil {
		change(p.at)
	}
	p.server, err = transports.Listen(t.Context(), v, p.at, p.o)
	check.Must(t, err)
	_, p.address, _ = strings.Cut(p.at.Addr(), ":")
	p.model, err = p.server.Reserve()
	check.Must(t, err)
	for b := p.model.View(0); len(b) > 0; b = b[len(marker):] {
		copy(b, marker)
	}
	p.model.Receipt = append(p.model.Receipt[:0], marker...)
	p.model, err = p.server.Publish(t.Context(), p.model)
	check.Must(t, err)
	return p
}

// marker is what a party's model is made of, and its updates.
const marker = "\x8fipcbench marker"

// begin brings the worker of lane 0, and the rounds.
func (p *party) begin(e *driver.Endpoint) {
	p.t.Helper()
	p.worker, p.stop, p.rounds = make(chan error, 1), make(chan struct{}), make(chan int, 1)
	w, err := transports.Dial(p.t.Context(), p.v, e, 0, p.o)
	check.Must(p.t, err)
	go func() {
		err := train(w)
		p.worker <- errors.Join(err, w.Close())
	}()
	go func() {
		n := 0
		defer func() { p.rounds <- n }()
		for over := false; !over; n++ {
			select {
			case <-p.stop:
				over = true // after one more
			default:
			}
			if err := p.round(n); err != nil {
				p.t.Error(err)
				return
			}
		}
	}()
}

// train is the life of a worker. Its update is the model.
func train(w *transports.Worker) error {
	for {
		_, model, err := w.Receive(context.Background())
		if errors.Is(err, io.EOF) {
			return nil
		}
		var u *tensor.Package
		if err == nil {
			u, err = w.Reserve()
		}
		if err != nil {
			return err
		}
		u.CopyFrom(model)
		u.Receipt = append(u.Receipt[:0], marker...)
		if err := w.Submit(context.Background(), u); err != nil {
			return err
		}
	}
}

// round is the server's part, with a proof.
func (p *party) round(n int) error {
	ctx := context.Background()
	if err := p.server.Dispatch(ctx, 0, driver.Job{Client: n}); err != nil {
		return err
	}
	u, err := p.server.Collect(ctx, 0)
	if err != nil {
		return err
	}
	defer u.Release()
	if u.Hash() != p.model.Hash() || string(u.Receipt) != marker {
		return fmt.Errorf("the update of client %d is another one", n)
	}
	return nil
}

// end ends rounds and session.
func (p *party) end() {
	p.t.Helper()
	close(p.stop)
	n := waiting.Receive(p.t, "the end of rounds", p.rounds)
	check.OK(p.t, p.server.Shutdown(waiting.Context(p.t)), "shutdown after", n, "rounds")
	check.OK(p.t, <-p.worker, "the worker after", n, "rounds")
}

// waits returns what the server hears who waits for the worker of lane 1, which does
// not come, from when refused is called on.
func (p *party) waits() (refused func() error) {
	ctx, cancel := context.WithCancel(p.t.Context())
	over := make(chan error, 1)
	go func() {
		err := p.server.Dispatch(ctx, 1, driver.Job{})
		if err == nil {
			_, err = p.server.Collect(ctx, 1)
		}
		over <- err
	}()
	return func() error {
		cancel()
		return <-over
	}
}

// joins has a worker of the family take lane 1 and ask for a job, and returns why it
// may not.
func (p *party) joins(v transports.Variant, e *driver.Endpoint) error {
	ctx := waiting.Context(p.t)
	w, err := transports.Dial(ctx, v, e, 1, p.o)
	if err == nil { // some transports notice at the first call
		_, _, err = w.Receive(ctx)
		_ = w.Close() // it is a stranger's
	}
	return err
}

// with returns a worker's endpoint with another identity than the session gave.
func (p *party) with(trust driver.Trust, process int, sign func([]byte) ([]byte, error)) *driver.Endpoint {
	p.t.Helper()
	e := driver.EndpointAt(p.at.Addr(), p.at.Secret())
	check.Must(p.t, e.Join(trust, process, sign))
	return e
}

// signed returns a certificate as the session signs them.
func (p *party) signed(lanes ...int) *tls.Certificate {
	p.t.Helper()
	c, err := drivertest.Certified(p.t, p.at, lanes...).GetClientCertificate(nil)
	check.Must(p.t, err)
	return c
}

// config is that of a client that trusts the session's server and shows c, or nothing
// if that is nil.
func (p *party) config(c *tls.Certificate) *tls.Config {
	p.t.Helper()
	trust := p.at.Trust()
	w, err := identity.NewWorker(trust.Authority)
	if trust.Files != nil {
		w, err = trust.Files.Worker(1, trust.ServerName)
	}
	check.Must(p.t, err)
	config := w.Config()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return cmp.Or(c, &tls.Certificate{}), nil
	}
	return config
}

// raw connects below TLS.
func (p *party) raw() net.Conn {
	p.t.Helper()
	c, err := net.DialTimeout("tcp", p.address, waiting.Limit)
	check.Must(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	waiting.Conn(p.t, c)
	return c
}

// shakes makes a handshake, says nothing more, and returns how that ends.
func (p *party) shakes(config *tls.Config) error {
	c := tls.Client(p.raw(), config)
	if err := c.Handshake(); err != nil {
		return err
	}
	return ends(c)
}

// ends reads to the end of a connection, which is always an error.
func ends(c net.Conn) error {
	if _, err := io.Copy(io.Discard, c); err != nil {
		return err
	}
	return io.EOF
}
