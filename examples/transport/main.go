// Command transport is ipcbench with a transport of your own, plain, next to the control:
//
//	go run ./examples/transport run --transport inproc,plain,plain:network=tcp --model cnn
//
// The transport is entirely in this file. It has one connection per lane. A message is the
// length of a header, the header in JSON, and the bytes of the tensors.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"ipcbench/cli"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

func main() { cli.Main(plain{}) }

// plain is the transport.
type plain struct{}

func (plain) Name() string                               { return "plain" }
func (plain) Settings() []driver.Setting                 { return driver.NetworkSettings() }
func (plain) Traits(s driver.Settings) driver.Traits     { return driver.Traits{Reach: s.Reach()} }
func (plain) Check(driver.Options) error                 { return nil }
func (plain) Needs(driver.Options) (driver.Needs, error) { return driver.Needs{}, nil }

// Footprint counts two models and all updates in flight at the server, and a model and
// an update at each worker.
func (plain) Footprint(o driver.Options) int64 {
	down, up := int64(o.Down.Size()), int64(o.Up.Size())
	return 2*down + int64(o.Lanes)*(int64(o.Depth)*up+down+up)
}

func (plain) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
	lanes, err := e.ListenLanes(ctx, o.Settings.Get("network"), o.Session())
	if err != nil {
		return nil, err
	}
	s := &server{o: o, lanes: lanes, models: driver.NewPair(o), jobs: make([]*driver.Job, o.Lanes)}
	for range o.Lanes {
		s.updates = append(s.updates, driver.NewBank(o))
	}
	return s, nil
}

func (plain) Dial(ctx context.Context, e *endpoint.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	w := &worker{o: o, lane: lane, model: o.Alloc(o.Down), update: o.Alloc(o.Up)} // touched before any round
	var err error
	w.conn, err = e.DialLane(ctx, lane, o.Session())
	return w, err
}

type server struct {
	o       driver.Options
	lanes   *endpoint.Lanes
	models  *driver.HeapPair
	updates []*driver.HeapBank // by lane
	jobs    []*driver.Job      // by lane: the job that is out; each lane uses only its own
}

func (s *server) Reserve() (*tensor.Package, error)              { return s.models.Reserve() }
func (s *server) Publish(context.Context, *tensor.Package) error { s.models.Publish(); return nil }
func (s *server) Settle(context.Context) error                   { return nil } // the server pushes jobs

func (s *server) Dispatch(ctx context.Context, lane int, model *tensor.Package, j driver.Job) error {
	c, err := s.lanes.Conn(ctx, lane)
	if err != nil {
		return err
	}
	s.jobs[lane] = &j
	h := header{Job: j, Receipt: s.models.Published(model).Receipt, Bare: model == nil}
	span := s.o.Rec.Begin(phase.Send, j.ID(lane))
	defer span.End()
	return endpoint.During(ctx, c, func() error { return write(c, h, model) })
}

func (s *server) Collect(ctx context.Context, lane int) (*tensor.Package, driver.Delivered, error) {
	update, err := s.updates[lane].Lend()
	if err != nil {
		return nil, driver.Delivered{}, err
	}
	c, j := s.lanes.Connected(lane), s.jobs[lane]
	err = endpoint.During(ctx, c, func() error {
		h, err := read(c, update, s.o.Rec, lane)
		if err == nil && (h.Job.Round != j.Round || h.Job.Client != j.Client) {
			err = fmt.Errorf("an update of round %d, client %d", h.Job.Round, h.Job.Client)
		}
		return err
	})
	if err != nil {
		update.Release()
		return nil, driver.Delivered{}, err
	}
	s.jobs[lane] = nil
	return update, driver.Delivered{Body: driver.All(update)}, nil
}

func (s *server) Shutdown(ctx context.Context) error {
	return s.lanes.Shutdown(ctx, func(lane int, c *endpoint.Conn) error {
		if s.jobs[lane] != nil {
			return errors.New("a job is out")
		}
		return endpoint.During(ctx, c, func() error { return write(c, header{End: true}, nil) })
	})
}

type worker struct {
	o             driver.Options
	lane          int
	conn          net.Conn
	model, update *tensor.Package
	job           driver.Job // the current one
}

func (w *worker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	var h header
	err := endpoint.During(ctx, w.conn, func() (err error) {
		h, err = read(w.conn, w.model, w.o.Rec, w.lane)
		return err
	})
	if err == nil && h.End {
		err = io.EOF
	}
	if w.job = h.Job; h.Bare {
		return h.Job, nil, driver.Delivered{}, err
	}
	return h.Job, w.model, driver.Delivered{Body: driver.All(w.model)}, err
}

func (w *worker) Reserve() (*tensor.Package, error) { return w.update, nil }

func (w *worker) Submit(ctx context.Context, p *tensor.Package) error {
	span := w.o.Rec.Begin(phase.Send, w.job.ID(w.lane))
	defer span.End()
	return endpoint.During(ctx, w.conn, func() error {
		return write(w.conn, header{Job: driver.Job{Round: w.job.Round, Client: w.job.Client}, Receipt: p.Receipt}, p)
	})
}

func (w *worker) Ping(context.Context) error { return nil } // never called: the transport makes no calls
func (w *worker) Close(error) error          { return w.conn.Close() }

// header is a message without its tensors.
type header struct {
	Job           driver.Job
	Receipt, Rows []byte
	Bare          bool // a job without a model: no tensors follow
	End           bool // the end of the session: no tensors follow
}

const maxHeader = 64 << 20 // configurations and receipts may be large

// write sends h and, unless p is nil, the tensors of p.
func write(c io.Writer, h header, p *tensor.Package) error {
	if p != nil {
		h.Rows = p.AppendRows(nil)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	for i := 0; err == nil && p != nil && i < p.Len(); i++ {
		_, err = c.Write(p.View(i))
	}
	return err
}

// read waits for a message and puts its tensors into p.
func read(c io.Reader, p *tensor.Package, rec *phase.Recorder, lane int) (h header, err error) {
	wait := rec.Begin(phase.Wait, phase.ID{Lane: lane, Round: -1, Client: -1})
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return h, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxHeader {
		return h, fmt.Errorf("header of %d bytes, must be at most %d", n, maxHeader)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(c, text); err != nil {
		return h, err
	}
	if err := json.Unmarshal(text, &h); err != nil || h.End {
		return h, err
	}
	wait.EndAs(h.Job.ID(lane))
	if h.Bare {
		return h, nil
	}
	span := rec.Begin(phase.Read, h.Job.ID(lane))
	defer span.End()
	p.Receipt = h.Receipt
	err = p.TakeRows(h.Rows)
	for i := 0; err == nil && i < p.Len(); i++ {
		_, err = io.ReadFull(c, p.View(i))
	}
	return h, err
}
