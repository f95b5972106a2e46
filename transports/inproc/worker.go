package inproc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/mailbox"
	"ipcbench/transports/internal/slab"
)

type worker struct {
	lane   *lane
	attest attest
	up     *tensor.Layout

	// The same memory as the server's packages, in the worker's layouts.
	models, updates *slab.Packages

	// Both memories are kept from Dial to Close, or to the last Submit if that is
	// later, so that a server that shuts down never unmaps them under a worker
	// function.
	kept   [2]*slab.Memory
	update *tensor.Package // of the job in hand, nil if there is none
	closed bool
}

func newWorker(s *server, l *lane, o driver.Options) *worker {
	models, updates := s.models.Memory(), l.updates.Memory()
	models.Keep()
	updates.Keep()
	return &worker{
		lane: l, attest: newAttest(o.Rec), up: o.Up,
		models: slab.NewPackages(models, o.Down), updates: slab.NewPackages(updates, o.Up),
		kept: [2]*slab.Memory{models, updates},
	}
}

func (w *worker) Receive(ctx context.Context) (driver.Job, *tensor.Package, error) {
	j, p, err := w.receive(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("inproc: lane %d: receive: %w", w.lane.n, err)
	}
	return j, p, err
}

func (w *worker) receive(ctx context.Context) (driver.Job, *tensor.Package, error) {
	switch {
	case w.closed:
		return driver.Job{}, nil, errors.New("lane is closed")
	case w.update != nil:
		return driver.Job{}, nil, errors.New("the update of the job before was not submitted")
	}
	j, err := w.lane.mail.Take(ctx)
	if err != nil {
		return driver.Job{}, nil, err
	}
	_, model, err := w.models.At(w.lane.model)
	if err != nil {
		return driver.Job{}, nil, err
	}
	_, update, err := w.updates.At(w.lane.update)
	if err != nil {
		return driver.Job{}, nil, err
	}
	model.Receipt = w.lane.modelReceipt
	w.update = update
	return j, model, nil
}

func (w *worker) Reserve() (*tensor.Package, error) {
	if w.update == nil {
		return nil, fmt.Errorf("inproc: lane %d: reserve without a job", w.lane.n)
	}
	return w.update, nil
}

func (w *worker) Submit(ctx context.Context, p *tensor.Package) error {
	if err := w.submit(p); err != nil {
		return fmt.Errorf("inproc: lane %d: submit: %w", w.lane.n, err)
	}
	return nil
}

func (w *worker) submit(p *tensor.Package) error {
	reserved := w.update
	if reserved == nil {
		return errors.New("no job is in hand")
	}
	defer w.done()
	if p != reserved {
		return errors.New("not the package that was reserved")
	}
	update, err := w.lane.updates.Lend(w.lane.update)
	if err != nil {
		return err
	}
	update.Receipt = append(update.Receipt[:0], p.Receipt...)
	w.attest.count(w.up)
	return w.lane.mail.Deliver(mailbox.Update{Package: update})
}

// done ends the loan of model and update.
func (w *worker) done() {
	w.update = nil
	if w.closed {
		w.letGo()
	}
}

func (w *worker) letGo() {
	for _, m := range w.kept {
		_ = m.Close() // anonymous memory: unmapping it cannot fail
	}
}

// Close implements [driver.Worker]. A worker function that still runs keeps
// its memory until Submit.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.lane.left.Store(true)
	w.lane.mail.Close()
	if w.update == nil {
		w.letGo()
	}
	return nil
}
