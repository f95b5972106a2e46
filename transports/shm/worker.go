package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// A view is where the tensors of a session lie, as a lane's worker sees it.
type view interface {
	// model returns the model that h names.
	model(h slab.Handle) (*tensor.Package, error)

	// update returns where the update that h names is to be written.
	update(h slab.Handle) (*tensor.Package, error)

	// finish is called when p, which update returned, is written, before the
	// server is told.
	finish(ctx context.Context, p *tensor.Package, id phase.ID) error

	// done ends the use of model and update: of those of the job in hand.
	done() error

	// close gives the memory up.
	close() error
}

type worker struct {
	name string
	o    driver.Options
	n    int
	link *link
	in   *inbox
	out  *outbox
	view view

	tensors, bytes *phase.Counter
	sent, received *phase.Counter

	watching chan struct{}         // closed when the goroutine that watches the link has returned
	why      atomic.Pointer[error] // the server is gone, if it said so; set before watch abandons in, which Close may do earlier

	mu     sync.Mutex // held by all calls
	task   task
	result result
	inHand bool            // a model is lent
	update *tensor.Package // of the job in hand, nil before Reserve
	hungUp bool            // the link is closed
	closed bool
}

// newWorker takes the link and the control areas' descriptors.
func newWorker(ctx context.Context, name string, n int, o driver.Options, l *link, files []*os.File, v view) (*worker, error) {
	w := &worker{
		name: name, o: o, n: n, link: l, view: v, watching: make(chan struct{}),
		tensors: o.Rec.Counter(phase.HandleTensors), bytes: o.Rec.Counter(phase.HandleBytes),
		sent: l.sent, received: l.received,
	}
	down, err := slab.Open(files[0], controlSize(o.Down.Len()), slab.ReadOnly, slab.Touched)
	if err != nil {
		files[1].Close()
		return nil, fmt.Errorf("control area: %w", err)
	}
	up, err := slab.Open(files[1], controlSize(o.Up.Len()), slab.ReadWrite, slab.Touched)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("control area: %w", err), down.Close())
	}
	if w.in, err = newInbox(down, spins(o.Settings)); err == nil {
		w.out, err = newOutbox(up, !spins(o.Settings))
	}
	if err == nil {
		err = l.agree(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, down.Close(), up.Close())
	}
	go w.watch()
	return w, nil
}

// watch waits for the end of the link, which means that the server is gone.
func (w *worker) watch() {
	defer close(w.watching)
	for {
		b, files, err := w.link.receive()
		closeAll(files) // none are expected
		if err == nil {
			err = refusal(b)
		}
		if err != nil {
			if !parted(err) {
				w.why.Store(&err)
			}
			w.in.abandon()
			return
		}
	}
}

func (w *worker) wrap(act string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: lane %d: %s: %w", w.name, w.n, act, err)
	}
	return nil
}

// Receive implements [driver.Worker].
func (w *worker) Receive(ctx context.Context) (driver.Job, *tensor.Package, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.receive(ctx)
	if errors.Is(err, errOver) {
		w.hangUp() // which the server waits for
		return driver.Job{}, nil, io.EOF
	}
	if err != nil {
		return driver.Job{}, nil, w.wrap("receive", err)
	}
	return w.task.job, p, nil
}

func (w *worker) receive(ctx context.Context) (*tensor.Package, error) {
	switch {
	case w.closed:
		return nil, errors.New("the lane is closed")
	case w.inHand:
		return nil, errors.New("the update of the job before was not submitted")
	}
	wait := w.o.Rec.Begin(phase.Wait, phase.ID{Lane: w.n, Round: -1, Client: -1})
	b, err := w.in.fetch(ctx)
	if err == nil {
		err = w.task.parse(b)
	}
	if why := w.why.Load(); why != nil {
		err = because(err, *why)
	}
	if err != nil {
		return nil, err
	}
	wait.EndAs(w.id())
	w.received.Add(len(b))
	p, err := w.view.model(w.task.model)
	if err != nil {
		return nil, err
	}
	p.Receipt = append(p.Receipt[:0], w.task.receipt...)
	w.inHand = true
	return p, nil
}

func (w *worker) id() phase.ID {
	return phase.ID{Lane: w.n, Round: w.task.job.Round, Client: w.task.job.Client}
}

// Reserve implements [driver.Worker].
func (w *worker) Reserve() (*tensor.Package, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.inHand {
		return nil, w.wrap("reserve", errors.New("no job is in hand"))
	}
	if w.update == nil {
		var err error
		if w.update, err = w.view.update(w.task.update); err != nil {
			return nil, w.wrap("reserve", err)
		}
	}
	return w.update, nil
}

// Submit implements [driver.Worker].
func (w *worker) Submit(ctx context.Context, p *tensor.Package) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrap("submit", w.submit(ctx, p))
}

func (w *worker) submit(ctx context.Context, p *tensor.Package) error {
	if !w.inHand {
		return errors.New("no job is in hand")
	}
	err := w.deliver(ctx, p)
	w.inHand, w.update = false, nil
	if w.closed {
		err = errors.Join(err, w.unmap())
	}
	return err
}

func (w *worker) deliver(ctx context.Context, p *tensor.Package) error {
	if w.update == nil || p != w.update {
		return errors.Join(errors.New("not the package that was reserved"), w.view.done())
	}
	if w.closed {
		return errors.Join(errors.New("the lane is closed"), w.view.done())
	}
	w.result = result{update: w.task.update, receipt: p.Receipt}
	size, err := w.result.put(w.out.message)
	if err == nil {
		err = w.view.finish(ctx, p, w.id())
	}
	if err = errors.Join(err, w.view.done()); err != nil {
		return err
	}
	w.tensors.Add(w.o.Up.Len())
	w.bytes.Add(w.o.Up.Payload())
	w.sent.Add(size)
	return w.out.post(size)
}

// hangUp closes the link. The server then knows that the lane has no worker.
func (w *worker) hangUp() {
	if w.hungUp {
		return
	}
	w.hungUp = true
	w.link.conn.Close()
	<-w.watching
}

// Close implements [driver.Worker]. The memory of a model and an update that
// a worker function still looks at lives until Submit.
func (w *worker) Close() error {
	w.in.abandon() // a Receive that is waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	w.hangUp()
	if w.inHand {
		return nil
	}
	return w.wrap("close", w.unmap())
}

func (w *worker) unmap() error {
	return errors.Join(w.in.mem.Close(), w.out.mem.Close(), w.view.close())
}
