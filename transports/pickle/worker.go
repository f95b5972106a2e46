package pickle

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/lend"
)

type worker struct {
	name   string // of the transport
	o      driver.Options
	lane   int
	stream *stream
	packer *packer
	model  *tensor.Package
	bank   *lend.Bank // of the one update in the making
	ledger tensor.Ledger
	job    driver.Job
	path   string // of the client's file; empty where tensors travel through the socket
	closed atomic.Bool
}

// newWorker returns a worker with its memory, and no stream yet.
func newWorker(name string, lane int, o driver.Options) *worker {
	w := &worker{name: name, o: o, lane: lane, packer: newPacker(o), model: tensor.Alloc(o.Down)}
	w.bank = lend.NewBank("updates of the worker", o.Up, 1, &w.ledger)
	return w
}

// wrap says whose error it is.
func (w *worker) wrap(act string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: lane %d: %s: %w", w.name, w.lane, act, err)
	}
	return nil
}

// hello makes the worker known and waits until it is admitted, so that a server
// which shuts down from then on tells it.
func (w *worker) hello(ctx context.Context) error {
	err := w.stream.sendHeader(ctx, phase.Whole(-1), header{
		Hello: &hello{Lane: w.lane, Down: w.o.Down.Digest(), Up: w.o.Up.Digest()},
	})
	if err != nil {
		return err
	}
	var h header
	err = w.stream.receive(ctx, phase.Whole(-1), func() error { return w.stream.next(&h) })
	if err == nil && h.Hello == nil {
		err = fmt.Errorf("refused: %s", h.Refused)
	}
	return err
}

func (w *worker) Receive(ctx context.Context) (driver.Job, *tensor.Package, error) {
	var h header
	err := w.stream.receive(ctx, phase.ID{Lane: w.lane, Round: -1, Client: -1}, func() error {
		if err := w.stream.next(&h); err != nil || h.End || h.Path != "" {
			return err
		}
		w.job = h.Job
		return w.packer.decode(w.stream, w.id(), h, w.model)
	})
	if err == nil && h.End {
		return driver.Job{}, nil, io.EOF
	}
	if err == nil && h.Path != "" {
		err = w.readFiles(h.Path)
	}
	if err != nil {
		return driver.Job{}, nil, w.wrap("receive", err)
	}
	return w.job, w.model, nil
}

func (w *worker) id() phase.ID {
	return phase.ID{Lane: w.lane, Round: w.job.Round, Client: w.job.Client}
}

func (w *worker) Reserve() (*tensor.Package, error) {
	p, err := w.bank.Lend()
	return p, w.wrap("reserve", err)
}

func (w *worker) Submit(ctx context.Context, p *tensor.Package) error {
	defer p.Release()
	return w.wrap("submit", w.submit(ctx, p))
}

func (w *worker) submit(ctx context.Context, p *tensor.Package) error {
	if w.closed.Load() { // no file either: the session's directory may be going
		return errors.New("the lane is closed")
	}
	encode := func(enc *gob.Encoder) error {
		return w.packer.encode(enc, header{Job: driver.Job{Round: w.job.Round, Client: w.job.Client}, Receipt: p.Receipt}, p)
	}
	if w.path == "" {
		return w.stream.send(ctx, w.id(), encode)
	}
	if err := writeFile(ctx, w.o.Rec, w.id(), w.path, encode); err != nil {
		return err
	}
	return w.stream.sendHeader(ctx, w.id(), header{Path: w.path})
}

func (w *worker) Close() error {
	w.closed.Store(true)
	if err := w.stream.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return w.wrap("close", err)
	}
	return nil
}
