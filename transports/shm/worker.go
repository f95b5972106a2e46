package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/slab"
)

// A worker is the common part of both transports' workers.
type worker struct {
	owner
	o    driver.Options
	n    int
	link *link
	in   *inbox
	out  *outbox

	watching sync.WaitGroup        // the goroutine that watches the link
	why      atomic.Pointer[error] // why the server is gone; nil after a normal end

	order order  // the current job's
	rows  []byte // rows of the last update
}

// join connects lane n and opens its mailboxes. It returns the welcome's text and other
// descriptors, which the caller must close. If w is not nil, it must be closed even
// after an error.
func join(ctx context.Context, e *endpoint.Endpoint, n int, o driver.Options) (w *worker, text string, files []*os.File, err error) {
	c, err := e.DialLane(ctx, n, o.Session())
	if err != nil {
		return nil, "", nil, err
	}
	socket, ok := c.(endpoint.Counted)
	if ok {
		_, ok = socket.Conn.(*net.UnixConn)
	}
	if !ok {
		return nil, "", nil, errors.Join(fmt.Errorf("%v is not a Unix socket", e), c.Close())
	}
	w = &worker{o: o, n: n, link: newLink(socket.Conn, o.Rec)}
	if text, files, err = w.link.expect(ctx, string(welcomed)); err != nil {
		return w, "", nil, fmt.Errorf("welcome: %w", err)
	}
	if len(files) < 2 {
		closeAll(files)
		return w, "", nil, fmt.Errorf("welcome with %d descriptors, must have at least 2", len(files))
	}
	down, err := w.mapped("mailbox", files[0], controlSize(o.Down.Len()), slab.ReadOnly)
	if err == nil {
		w.in, err = newInbox(down.Bytes(), spins(o.Settings))
	}
	if err == nil {
		var up *slab.Memory
		if up, err = w.mapped("mailbox", files[1], controlSize(o.Up.Len()), slab.ReadWrite); err == nil {
			w.out, err = newOutbox(up.Bytes(), !spins(o.Settings))
		}
	}
	if err != nil {
		closeAll(files)
		return w, "", nil, err
	}
	return w, text, files[2:], nil
}

// mapped maps memory of the server, which w then owns. It takes ownership of f.
func (w *worker) mapped(what string, f *os.File, size int, a slab.Access) (*slab.Memory, error) {
	m, err := slab.Open(f, size, a, slab.Touched.In(w.o.Pages))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	w.own(m.Close)
	return m, nil
}

// agree tells the server that the worker has mapped its memory, and waits until the
// server has sealed it.
func (w *worker) agree(ctx context.Context) error {
	err := w.link.send([]byte(agreed))
	if err == nil {
		var files []*os.File
		_, files, err = w.link.expect(ctx, agreed)
		closeAll(files) // none are expected
	}
	if err == nil {
		w.watching.Go(w.watch)
	}
	return err
}

// watch waits for the end of the link, and then ends the wait for jobs.
func (w *worker) watch() {
	for {
		_, files, err := w.link.receive()
		closeAll(files) // none are expected
		if err != nil {
			if !closedNormally(err) {
				w.why.Store(&err)
			}
			w.in.abandon()
			return
		}
	}
}

// fetch waits for the next job and stores it in w.order. It returns io.EOF at the
// session's end.
func (w *worker) fetch(ctx context.Context) error {
	wait := w.o.Rec.Begin(phase.Wait, phase.ID{Lane: w.n, Round: -1, Client: -1})
	b, err := w.in.fetch(ctx)
	if err == nil {
		err = w.order.parse(b)
	}
	if errors.Is(err, errOver) {
		return io.EOF
	}
	if why := w.why.Load(); why != nil {
		err = withCause(err, *why)
	}
	if err != nil {
		return err
	}
	wait.EndAs(w.order.job.ID(w.n))
	w.link.received.Add(len(b))
	return nil
}

// receive waits for the next job and returns it with its model, if any, which find
// returns for the handle.
func (w *worker) receive(ctx context.Context, find func(slab.Handle) (*tensor.Package, error)) (driver.Job, *tensor.Package, driver.Delivered, error) {
	err := w.fetch(ctx)
	if err == nil && w.order.bare {
		return w.order.job, nil, driver.Delivered{}, nil
	}
	var model *tensor.Package
	if err == nil {
		model, err = find(w.order.model)
	}
	if err == nil {
		err = model.TakeRows(w.order.rows)
	}
	if err != nil {
		return driver.Job{}, nil, driver.Delivered{}, err
	}
	model.Receipt = append(model.Receipt[:0], w.order.receipt...)
	return w.order.job, model, driver.Delivered{Handle: driver.All(model)}, nil
}

// post sends the result of the current job, whose update is p.
func (w *worker) post(p *tensor.Package) error {
	w.rows = p.AppendRows(w.rows[:0])
	r := result{update: w.order.update, rows: w.rows, receipt: p.Receipt}
	size, err := r.put(w.out.message)
	if err != nil {
		return err
	}
	w.link.sent.Add(size)
	return w.out.post(size)
}

// Ping is never called, because the transports make no calls.
func (w *worker) Ping(context.Context) error { return nil }

// Close implements [driver.Worker].
func (w *worker) Close(cause error) error {
	w.link.refuse(cause)
	w.link.conn.Close() // tells the server that the worker is gone
	w.watching.Wait()
	return w.release()
}
