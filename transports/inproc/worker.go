package inproc

import (
	"context"
	"errors"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/mailbox"
	"ipcbench/transports/internal/slab"
)

type worker struct {
	lane  *lane
	order order  // current job
	rows  []byte // encoded rows of the update

	// The server's memory, with the worker's layouts. The worker keeps it until Close, so
	// that Shutdown does not unmap it while a worker function runs.
	models, updates *slab.Packages
}

func newWorker(s *server, l *lane, o driver.Options) *worker {
	models, updates := s.places.Memory(), l.updates.Memory()
	models.Keep()
	updates.Keep()
	return &worker{lane: l, models: slab.NewPackages(models, o.Down), updates: slab.NewPackages(updates, o.Up)}
}

func (w *worker) Receive(ctx context.Context) (j driver.Job, model *tensor.Package, d driver.Delivered, err error) {
	if w.order, err = w.lane.mail.Take(ctx); err != nil {
		return j, nil, d, err
	}
	if w.order.bare {
		return w.order.job, nil, d, nil
	}
	if model, err = w.models.At(w.order.model); err != nil {
		return j, nil, d, err
	}
	model.Receipt = w.order.beside.Receipt
	err = model.TakeRows(w.order.beside.Rows)
	return w.order.job, model, handed(model), err
}

func (w *worker) Reserve() (*tensor.Package, error) { return w.updates.At(w.order.update) }

func (w *worker) Submit(_ context.Context, p *tensor.Package) error {
	update, err := w.lane.updates.Lend()
	if err != nil {
		return err
	}
	update.Receipt, w.rows = append(update.Receipt[:0], p.Receipt...), p.AppendRows(w.rows[:0])
	if err := update.TakeRows(w.rows); err != nil {
		update.Release()
		return err
	}
	return w.lane.mail.Deliver(mailbox.Delivery{Package: update, Delivered: handed(update)})
}

// Ping is never called: inproc makes no calls.
func (w *worker) Ping(context.Context) error { return nil }

func (w *worker) Close(cause error) error {
	if cause != nil {
		w.lane.left.Store(&cause)
	}
	w.lane.mail.Close()
	return errors.Join(w.models.Close(), w.updates.Close())
}
