package transports

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// Errors of a worker's calls out of order.
var (
	errClosed       = errors.New("the lane is closed")
	errIdle         = errors.New("no job is in progress")
	errModelMissing = errors.New("the job has no model, and the lane holds none")
)

// A Worker is the worker's side of one lane. It wraps a driver's worker and enforces the
// order of calls. Only one goroutine may use it. After a call has failed or its context
// has ended, only Close is possible.
type Worker struct {
	variant Variant
	driver  driver.Worker
	coded   *codedWorker // nil without a codec
	lane    int
	rec     *phase.Recorder
	arrived arrivals

	job    driver.Job
	busy   bool            // job was received and its update not submitted
	update *tensor.Package // the job's update, or nil until reserved
	err    error           // why the lane cannot be used any more, or nil
}

// Dial connects a worker for lane to the server at e. ctx bounds this call, not the
// session. If Dial fails, it leaves nothing behind. It ignores o.Settings.
func Dial(ctx context.Context, v Variant, e *endpoint.Endpoint, lane int, o driver.Options) (*Worker, error) {
	at := *e // a copy, because lanes that dial concurrently share e
	at.Variant = v.String()
	name := v.Subject.Name()
	if lane < 0 || lane >= o.Lanes {
		return nil, fmt.Errorf("%s: lane %d: dial: the session has %d lanes", name, lane, o.Lanes)
	}
	w := &Worker{variant: v, lane: lane, rec: o.Rec, arrived: newArrivals(o.Rec)}
	if p := v.Codec(); p != nil {
		w.coded = newCodedWorker(p, o)
	}
	t, err := v.transport()
	if err != nil {
		return nil, err
	}
	if w.driver, err = t.Dial(ctx, &at, lane, v.driverOptions(o)); err != nil {
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
	case w.busy:
		return driver.Job{}, nil, w.failed("receive", fmt.Errorf("the update of client %d was not submitted", w.job.Client))
	}
	span := w.rec.Begin(phase.Receive, phase.ID{Lane: w.lane, Round: -1, Client: -1})
	job, model, d, err := w.driver.Receive(ctx)
	if err == nil {
		w.job, w.busy = job, true
		model, err = w.unpacked(model, d)
	}
	if err != nil {
		if errors.Is(err, io.EOF) { // only from Receive does it mean a regular end
			w.err = errOver
			return driver.Job{}, nil, io.EOF
		}
		w.err = err
		return driver.Job{}, nil, w.failed("receive", err)
	}
	span.EndAs(job.ID(w.lane))
	return job, model, nil
}

// unpacked counts p, which was delivered as d says, and returns the model of the current
// job. p is nil if the job came without a model.
func (w *Worker) unpacked(p *tensor.Package, d driver.Delivered) (*tensor.Package, error) {
	if p != nil {
		if err := w.arrived.count(d, p); err != nil {
			return nil, err
		}
	}
	switch {
	case w.coded != nil:
		return w.coded.receive(p, w.job.ID(w.lane))
	case p == nil:
		return nil, errModelMissing
	}
	return p, nil
}

// Reserve returns the package to write the current job's update into. Its contents are
// undefined, so every byte must be written.
func (w *Worker) Reserve() (p *tensor.Package, err error) {
	switch {
	case w.err != nil:
		err = w.err
	case !w.busy:
		err = errIdle
	case w.update != nil:
		err = errors.New("the update is reserved already")
	default:
		span := w.rec.Begin(phase.ReserveUpdate, w.job.ID(w.lane))
		if w.coded != nil {
			w.update = w.coded.update
		} else {
			w.update, err = w.driver.Reserve()
		}
		span.End()
		w.err = err
	}
	if err != nil {
		return nil, w.failed("reserve", err)
	}
	w.update.Receipt = w.update.Receipt[:0] // of an earlier update
	w.update.ResetRows()
	return w.update, nil
}

// Submit sends p, which Reserve returned, as the job's update. It takes ownership of p and
// the model, even if it returns an error.
func (w *Worker) Submit(ctx context.Context, p *tensor.Package) error {
	switch {
	case w.err != nil:
		return w.failed("submit", w.err)
	case !w.busy:
		return w.failed("submit", errIdle)
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
	w.busy, w.update = false, nil
	return err
}

// submit passes p, packed if there is a codec, to the driver.
func (w *Worker) submit(ctx context.Context, p *tensor.Package) error {
	if w.coded == nil {
		return w.driver.Submit(ctx, p)
	}
	to, err := w.driver.Reserve()
	if err == nil {
		err = w.coded.send(to, w.job.ID(w.lane))
	}
	if err != nil {
		return err
	}
	return w.driver.Submit(ctx, to)
}

// Ping exchanges an empty request and an empty answer with the server. It must be called
// before the first Receive, and only if [driver.Traits].Calls is set.
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

// Close gives up the lane. The model and the update of an unfinished job belong to the
// driver again. A second call does nothing.
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
		return fmt.Errorf("%s: lane %d: close: %w", w.variant.Subject.Name(), w.lane, err)
	}
	return nil
}

// failed adds the transport, the lane, the operation and the current job to err.
func (w *Worker) failed(act string, err error) error {
	id := phase.ID{Lane: w.lane, Round: -1, Client: -1}
	if w.busy {
		id = w.job.ID(w.lane)
	}
	return failed(w.variant, act, id, err)
}
