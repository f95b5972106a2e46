package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// A Session is a server and workers in this process, driven call by call. It ends with its
// test, if the test has not ended it.
type Session struct {
	T        testing.TB
	Variant  transports.Variant
	Options  driver.Options // Rec is the server's recorder
	Dir      string         // the endpoint's directory
	Endpoint *endpoint.Endpoint
	Server   *transports.Server
	Driver   driver.Server   // the driver below Server
	Model    *tensor.Package // the last published model, as workers get it
	Workers  []*Worker
}

// A Worker is the worker of one lane, with its driver and its own recorder.
type Worker struct {
	*transports.Worker
	Driver driver.Worker
	Rec    *phase.Recorder
}

// A spy is a transport that keeps the drivers that it makes.
type spy struct {
	driver.Transport
	server driver.Server
	worker driver.Worker // the latest one
}

func (s *spy) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (d driver.Server, err error) {
	d, err = s.Transport.Listen(ctx, e, o)
	s.server = d
	return d, err
}

func (s *spy) Dial(ctx context.Context, e *endpoint.Endpoint, lane int, o driver.Options) (d driver.Worker, err error) {
	d, err = s.Transport.Dial(ctx, e, lane, o)
	s.worker = d
	return d, err
}

// Listen starts a session without workers. In o, zero values of Clients, Depth and Rec mean
// 8, 2 and a new recorder; a zero Lanes means one lane.
func Listen(t testing.TB, v transports.Variant, o driver.Options) *Session {
	t.Helper()
	dir := check.Value(scratch.New(scratch.Roots()[0]))(t)
	t.Cleanup(func() { check.Must(t, dir.Close()) })
	return ListenAt(t, v, endpoint.New(dir.Path()), dir.Path(), o)
}

// ListenAt is Listen with an endpoint in a directory of the caller.
func ListenAt(t testing.TB, v transports.Variant, e *endpoint.Endpoint, dir string, o driver.Options) *Session {
	t.Helper()
	o.Settings, o.Lanes = v.Settings, max(1, o.Lanes)
	if o.Clients == 0 {
		o.Clients = 8
	}
	if o.Depth == 0 {
		o.Depth = 2
	}
	if o.Rec == nil {
		o.Rec = phase.NewRecorder(samples)
	}
	s := &Session{T: t, Variant: v, Dir: dir, Endpoint: e, Options: o}
	spy := &spy{Transport: v.Subject.(driver.Transport)}
	v.Subject = spy
	s.Server = check.Value(transports.Listen(t.Context(), v, e, o))(t)
	s.Driver = spy.server
	t.Cleanup(s.end)
	return s
}

// end ends a session, any part of which the test may have closed or killed.
func (s *Session) end() {
	done := make(chan struct{})
	go func() { // workers leave while the server waits for them
		defer close(done)
		for _, w := range s.Workers {
			_ = w.Close()
		}
	}()
	_ = s.Server.Shutdown(waiting.Context(s.T))
	<-done
}

// Open starts a session with one worker per lane, whose models and updates have layout l.
func Open(t testing.TB, v transports.Variant, l *tensor.Layout, lanes int) *Session {
	t.Helper()
	s := Listen(t, v, driver.Options{Down: l, Up: l, Lanes: lanes})
	for n := range lanes {
		s.Dial(n)
	}
	return s
}

// At returns the endpoint of the worker of a lane.
func (s *Session) At(lane int) *endpoint.Endpoint {
	s.T.Helper()
	return check.Value(s.Endpoint.Worker(lane))(s.T)
}

// Dial connects the worker of a lane.
func (s *Session) Dial(lane int) *Worker {
	s.T.Helper()
	return s.DialAt(s.At(lane), lane)
}

// DialAt is Dial with another endpoint.
func (s *Session) DialAt(e *endpoint.Endpoint, lane int) *Worker {
	s.T.Helper()
	w := check.Value(Dial(s.T.Context(), s.Variant, e, lane, s.Options))(s.T)
	s.Workers = append(s.Workers, w)
	return w
}

// Dial connects a worker with its own recorder.
func Dial(ctx context.Context, v transports.Variant, e *endpoint.Endpoint, lane int, o driver.Options) (*Worker, error) {
	o.Rec, o.Settings = phase.NewRecorder(samples), v.Settings
	spy := &spy{Transport: v.Subject.(driver.Transport)}
	v.Subject = spy
	w, err := transports.Dial(ctx, v, e, lane, o)
	return &Worker{w, spy.worker, o.Rec}, err
}

// Publish publishes a model filled from a seed.
func (s *Session) Publish(seed uint64) *tensor.Package {
	s.T.Helper()
	m := check.Value(s.Server.Reserve(0))(s.T)
	tensor.Fill(m, seed)
	m.Receipt = append(m.Receipt[:0], "model"...)
	s.Model = check.Value(s.Server.Publish(s.T.Context(), 0, m))(s.T)
	return s.Model
}

// A Fill writes the update of a job.
type Fill func(j driver.Job, model, update *tensor.Package) error

// Exchange carries out a job on lane n, whose worker must be Workers[n], and returns the
// update.
func (s *Session) Exchange(n int, j driver.Job) *tensor.Package {
	s.T.Helper()
	return s.ExchangeBy(n, j, Stock)
}

// ExchangeBy is Exchange with fill as the worker function.
func (s *Session) ExchangeBy(n int, j driver.Job, fill Fill) *tensor.Package {
	s.T.Helper()
	failed := make(chan error, 1)
	go func() { failed <- Turn(s.T.Context(), s.Workers[n].Worker, fill) }()
	check.Must(s.T, s.Server.Dispatch(s.T.Context(), n, j))
	p, err := s.Server.Collect(s.T.Context(), n)
	check.Must(s.T, errors.Join(err, <-failed))
	return p
}

// Prove is Exchange, then proves the update and releases it.
func (s *Session) Prove(n int, j driver.Job) {
	s.T.Helper()
	p := s.Exchange(n, j)
	check.Must(s.T, tensor.Prove(p, s.Model, Key(j)))
	p.Release()
}

// Together carries out a job on lane 0 on the caller's goroutine, for drivers that allow
// both ends on one goroutine. It allocates nothing itself.
func (s *Session) Together(j driver.Job) error {
	ctx := context.Background()
	err := s.Server.Dispatch(ctx, 0, j)
	if err == nil {
		err = Turn(ctx, s.Workers[0].Worker, echo)
	}
	if err != nil {
		return err
	}
	p, err := s.Server.Collect(ctx, 0)
	if err == nil {
		p.Release()
	}
	return err
}

// echo is the stock worker function, with the model's receipt.
func echo(j driver.Job, model, update *tensor.Package) error {
	update.Receipt = append(update.Receipt[:0], model.Receipt...)
	return tensor.Train(update, model, Key(j))
}

// Carry carries out the server's part of a job, and proves the update.
func (s *Session) Carry(lane int, j driver.Job) error {
	ctx := waiting.Context(s.T)
	if err := s.Server.Dispatch(ctx, lane, j); err != nil {
		return err
	}
	p, err := s.Server.Collect(ctx, lane)
	if err != nil {
		return err
	}
	defer p.Release()
	if want := receipt(j); string(p.Receipt) != want {
		return fmt.Errorf("got receipt %q, want %q", p.Receipt, want)
	}
	return tensor.Prove(p, s.Model, Key(j))
}

// Round carries out and proves one job for each client, on all lanes at once.
func (s *Session) Round(number, clients int) {
	s.T.Helper()
	failed := make(chan error)
	for lane := range s.Options.Lanes {
		go func() {
			var err error
			for c := lane; c < clients && err == nil; c += s.Options.Lanes {
				err = s.Carry(lane, driver.Job{Round: number, Client: c, Timed: true})
			}
			failed <- err
		}()
	}
	var errs error
	for range s.Options.Lanes {
		errs = errors.Join(errs, <-failed)
	}
	check.Must(s.T, errs)
}

// Counts returns the server's counters, and the sums of all workers' counters.
func (s *Session) Counts() (server, workers map[string]int64) {
	workers = map[string]int64{}
	for _, w := range s.Workers {
		for name, n := range w.Rec.Counts() {
			workers[name] += n
		}
	}
	return s.Options.Rec.Counts(), workers
}

// Turn carries out the worker's part of one job.
func Turn(ctx context.Context, w *transports.Worker, fill Fill) error {
	j, model, err := w.Receive(ctx)
	if err != nil {
		return err
	}
	update, err := w.Reserve()
	if err != nil {
		return err
	}
	return errors.Join(fill(j, model, update), w.Submit(ctx, update))
}

// Stock is the stock worker function, with a receipt that names the client.
func Stock(j driver.Job, model, update *tensor.Package) error {
	update.Receipt = append(update.Receipt[:0], receipt(j)...)
	return tensor.Train(update, model, Key(j))
}

func receipt(j driver.Job) string { return fmt.Sprintf("client %d", j.Client) }

// Serve carries out a worker's jobs until the session ends or a job fails, and closes the
// worker.
func Serve(ctx context.Context, w *transports.Worker, fill Fill) error {
	for {
		if err := Turn(ctx, w, fill); errors.Is(err, io.EOF) {
			return w.Close()
		} else if err != nil {
			return errors.Join(err, w.Close())
		}
	}
}

// Key returns the key from which the stock worker function trains.
func Key(j driver.Job) tensor.Key {
	return tensor.Key{Seed: seed, Round: j.Round, Client: j.Client}
}

const seed = 42

// samples is the capacity of each recorder.
const samples = 1 << 16

// Layout returns the layout of the given tensors.
func Layout(t testing.TB, specs ...tensor.Spec) *tensor.Layout {
	t.Helper()
	return check.Value(tensor.NewLayout(specs))(t)
}

// Vectors returns a layout of one-dimensional tensors with the given numbers of elements.
func Vectors(t testing.TB, d tensor.DType, elems ...int) *tensor.Layout {
	t.Helper()
	specs := make([]tensor.Spec, len(elems))
	for i, n := range elems {
		specs[i] = tensor.Spec{Name: fmt.Sprintf("layer%d.weight", i), DType: d, Shape: []int{n}}
	}
	return Layout(t, specs...)
}

// Parse returns the variant that text describes, such as "http:batch=2", of one of the
// transports.
func Parse(t testing.TB, text string, all ...driver.Transport) transports.Variant {
	t.Helper()
	return check.Value(transports.Parse(text, all))(t)
}

// Preset returns a transport with its own name and other defaults, because the suite runs
// with defaults.
func Preset(tr driver.Transport, name string, defaults driver.Settings) driver.Transport {
	return preset{tr, name, defaults}
}

type preset struct {
	driver.Transport
	name     string
	defaults driver.Settings
}

func (p preset) Name() string { return p.name }

func (p preset) Settings() []driver.Setting {
	all := p.Transport.Settings()
	for i, s := range all {
		all[i].Default = cmp.Or(p.defaults[s.Name], s.Default)
	}
	return all
}
