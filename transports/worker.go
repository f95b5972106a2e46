package transports

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// What a worker's goroutine can do wrong.
var (
	errClosed      = errors.New("the lane is closed")
	errInHand      = errors.New("no job is in hand")
	errNoModelCame = errors.New("a job without a model, and the lane holds none")
)

// A Worker is one lane's end of a session: a driver's worker, and the rules that are
// the same for all of them. It has one goroutine. A call that failed, or whose context
// ended, leaves the lane dead: only Close follows.
type Worker struct {
	variant Variant
	driver  driver.Worker
	replica *replica // nil without a codec
	lane    int
	rec     *phase.Recorder
	came    arrivals

	job    driver.Job
	inHand bool            // job was received, and its update not submitted
	update *tensor.Package // of that job, once it is reserved
	err    error           // why nothing goes on any more
}

// Dial connects lane to the server at e. ctx bounds the call, not the session. An
// error leaves nothing behind.
func Dial(ctx context.Context, v Variant, e *driver.Endpoint, lane int, o driver.Options) (*Worker, error) {
	at := *e // lanes that dial at the same time share e
	at.Variant = v.String()
	name := v.Transport.Name()
	if lane < 0 || lane >= o.Lanes {
		return nil, fmt.Errorf("%s: lane %d: dial: the session has %d lanes", name, lane, o.Lanes)
	}
	w := &Worker{variant: v, lane: lane, rec: o.Rec, came: newArrivals(o.Rec)}
	if p := v.Codec(); p != nil {
		w.replica = newReplica(p, o)
	}
	var err error
	if w.driver, err = v.Transport.Dial(ctx, &at, lane, v.travelling(o)); err != nil {
		return nil, fmt.Errorf("%s: lane %d: dial: %w", name, lane, err)
	}
	return w, nil
}

// Receive waits for the next job and its model. The model is lent, read-only, until
// Submit. io.EOF means that the server has shut down.
func (w *Worker) Receive(ctx context.Context) (driver.Job, *tensor.Package, error) {
	switch {
	case w.err == errOver:
		return driver.Job{}, nil, io.EOF
	case w.err != nil:
		return driver.Job{}, nil, w.failed("receive", w.err)
	case w.inHand:
		return driver.Job{}, nil, w.failed("receive", fmt.Errorf("the update of client %d was not submitted", w.job.Client))
	}
	span := w.rec.Begin(phase.Receive, phase.ID{Lane: w.lane, Round: -1, Client: -1})
	job, model, d, err := w.driver.Receive(ctx)
	if err == nil {
		w.job, w.inHand = job, true
		model, err = w.unpacked(model, d)
	}
	if err != nil {
		if errors.Is(err, io.EOF) { // from Receive alone it is the end in order
			w.err = errOver
			return driver.Job{}, nil, io.EOF
		}
		w.err = err
		return driver.Job{}, nil, w.failed("receive", err)
	}
	span.EndAs(job.ID(w.lane))
	return job, model, nil
}

// unpacked returns the model of the job in hand, of which p has come as d says.
func (w *Worker) unpacked(p *tensor.Package, d driver.Delivered) (*tensor.Package, error) {
	if p != nil {
		if err := w.came.attest(d, p); err != nil {
			return nil, err
		}
	}
	switch {
	case w.replica != nil:
		return w.replica.receive(p, w.job.ID(w.lane))
	case p == nil:
		return nil, errNoModelCame
	}
	return p, nil
}

// Reserve returns where the update of the job last received is to be written, every
// byte of it: what it holds is undefined.
func (w *Worker) Reserve() (p *tensor.Package, err error) {
	switch {
	case w.err != nil:
		err = w.err
	case !w.inHand:
		err = errInHand
	case w.update != nil:
		err = errors.New("the update is reserved already")
	default:
		span := w.rec.Begin(phase.ReserveUpdate, w.job.ID(w.lane))
		if w.replica != nil {
			w.update = w.replica.update
		} else {
			w.update, err = w.driver.Reserve()
		}
		span.End()
		w.err = err
	}
	if err != nil {
		return nil, w.failed("reserve", err)
	}
	w.update.Receipt = w.update.Receipt[:0] // that of an update before
	w.update.ResetRows()
	return w.update, nil
}

// Submit sends the update. It takes p and the model, also when it fails.
func (w *Worker) Submit(ctx context.Context, p *tensor.Package) error {
	switch {
	case w.err != nil:
		return w.failed("submit", w.err)
	case !w.inHand:
		return w.failed("submit", errInHand)
	case p == nil || p != w.update:
		return w.failed("submit", errForeign)
	}
	span := w.rec.Begin(phase.Submit, w.job.ID(w.lane))
	err := w.submit(ctx, p)
	span.End()
	if err != nil {
		w.err = err
		err = w.failed("submit", err)
	}
	w.inHand, w.update = false, nil
	return err
}

// submit hands p, or what is made of it, to the driver.
func (w *Worker) submit(ctx context.Context, p *tensor.Package) error {
	if w.replica == nil {
		return w.driver.Submit(ctx, p)
	}
	to, err := w.driver.Reserve()
	if err == nil {
		err = w.replica.send(to, w.job.ID(w.lane))
	}
	if err != nil {
		return err
	}
	return w.driver.Submit(ctx, to)
}

// Ping exchanges an empty request and an empty answer with the server, in a transport
// that makes calls: see [driver.Traits]. It is called before the first Receive.
func (w *Worker) Ping(ctx context.Context) error {
	err := w.err
	if err == nil {
		err = w.driver.Ping(ctx)
	}
	if err != nil {
		w.err = err
		return w.failed("ping", err)
	}
	return nil
}

// Close gives up the lane. A model and an update that are in hand are the driver's
// again. A second call does nothing.
func (w *Worker) Close() error {
	if errors.Is(w.err, errClosed) {
		return nil
	}
	cause := w.err
	if cause == errOver {
		cause = nil
	} else if cause == nil {
		cause = errors.New("the worker has left")
	}
	w.err = errClosed
	if err := w.driver.Close(cause); err != nil {
		return fmt.Errorf("%s: lane %d: close: %w", w.variant.Transport.Name(), w.lane, err)
	}
	return nil
}

// failed names what an error is about.
func (w *Worker) failed(act string, err error) error {
	name := w.variant.Transport.Name()
	if !w.inHand {
		return fmt.Errorf("%s: lane %d: %s: %w", name, w.lane, act, err)
	}
	return fmt.Errorf("%s: lane %d: %s: round %d, client %d: %w", name, w.lane, act, w.job.Round, w.job.Client, err)
}
