// Package fedavg trains clients in worker processes, for federated averaging (McMahan et al., 2017).
//
// A [Trainer] has three type parameters: C is the configuration of one client, P the payload
// that all clients get, and U the update that each of them sends back. They are any Go types
// that [receipt.Detach] accepts. Tensors in payloads and updates are of type
// [receipt.Tensor], and travel over a transport. All other values are copied to every client.
//
// A payload and the ids of clients enter by [Trainer.Process], which does one round. One
// [Result] per client leaves by [Trainer.Results]. The caller averages them, as the example
// does.
//
// A worker function, made by [Worker], trains one client at a time in a worker process. Its
// payload is read-only, because all clients may share the tensors. It writes to the tensors of
// its update, whose memory was prepared before the first client of the round trained.
//
// The caller owns the payload, which Process neither changes nor keeps, and the results, until
// it releases them. All quantities are counts: of workers, devices and levels of nesting.
// Nothing limits a round's time: for a deadline, call [Trainer.Stop] from a timer.
//
// A program that starts worker processes must call [trainer.Host.MaybeWorker] first in main.
// The package prints nothing.
package fedavg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// A Trainer trains clients on a session of workers, which the first Process starts. Its
// fields must not change while Process runs, and except Stop its methods must not be called
// concurrently.
//
// Every client of a call has memory for its result before the first one trains.
// K clients on N workers need memory for N × ⌈K/N⌉ updates, and no worker trains more
// than ⌈K/N⌉ of them. With fewer clients than workers, fewer workers are started.
type Trainer[C, P, U any] struct {
	// Update is an example of the updates that clients send. It defines the tensors
	// to prepare memory for, and the initial values of all other fields. It must be set.
	Update *U

	// Config returns the configuration of a client, once per round. It must be set.
	Config func(client int) (C, error)

	// Device returns the device of a client, once per round: a label for the worker function.
	// [Devices] makes such a hook. Nil means "" for every client.
	Device func(client int) string

	Func     string // name of a worker function made by Worker, in the Host of the worker processes
	Variant  transports.Variant
	Launcher trainer.Launcher // owned by the caller: Close does not close it
	Workers  int              // most worker processes; 0 means one
	Nesting  int              // depth to which tensors are found; 0 means receipt.DefaultDepth
	Known    []any            // values of the types that interfaces in updates may hold, as for Worker

	// Progress gets all pending results in client order, and returns them in the
	// order in which the trainer must wait for them. A result has arrived when its
	// yield returns. Nil means client order.
	Progress func(iter.Seq[*Pending]) iter.Seq[*Pending]

	// Untouched has the paths of the last payload's tensors that are nested deeper than
	// Nesting. They were sent in the receipt, which is copied to every client. Process
	// sets it.
	Untouched []string

	session atomic.Pointer[trainer.Session]
	current atomic.Int64    // round of the running Process plus one; 0 if none is running
	stopped atomic.Bool     // Stop was called since Process began
	next    *tensor.Package // reserved by a Process that could not publish it
	room    int             // number of clients that the session has memory for
	round   int
	results []*Result[U]
	out     atomic.Int64 // number of results that were not released
}

// A Pending is a result that may not have arrived yet.
type Pending struct {
	Client int
	done   chan struct{} // closed when update is set
	update trainer.Update
}

// A Result is a client's update. Its tensors are views of the transport's memory, valid until
// Release.
type Result[U any] struct {
	Client int
	Update U
	memory trainer.Update
	out    *atomic.Int64
}

// Release returns the update's memory. It must be called once, before the next call of
// Process, whose clients need the memory.
func (r *Result[U]) Release() {
	r.memory.Release()
	r.out.Add(-1)
}

// Process trains the clients on payload and keeps their results. Every payload
// of a trainer must have the same tensors. Results of the previous call that Results
// did not return are released. If a worker process or the transport fails, all calls
// fail until Close; the next Process then opens a new session.
func (t *Trainer[C, P, U]) Process(ctx context.Context, payload P, clients []int) error {
	t.stopped.Store(false)
	t.drop()
	if len(clients) == 0 {
		return nil
	}
	switch {
	case t.Update == nil:
		return errors.New("fedavg: Update is not set")
	case t.Config == nil:
		return errors.New("fedavg: Config is not set")
	}
	t.current.Store(int64(t.round) + 1)
	defer func() {
		t.current.Store(0)
		t.round++ // also after a failure, so that a late Stop cannot stop the next round
	}()
	if n := t.out.Load(); n > 0 {
		return fmt.Errorf("%d results of an earlier call must be released first, because their memory is needed", n)
	}
	roster, err := t.roster(clients)
	if err != nil {
		return err
	}
	detached, err := receipt.Detach(payload, cmp.Or(t.Nesting, receipt.DefaultDepth))
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	t.Untouched = detached.Untouched
	if err := t.prepare(ctx, detached, len(clients)); err != nil {
		return err
	}
	session := t.session.Load()
	if t.stopped.Load() { // Stop was called before the session existed
		if err := session.Stop(t.round); err != nil {
			return err
		}
	}
	if err := t.publish(ctx, session, detached); err != nil {
		return err
	}
	if err := t.collect(ctx, session, roster); err != nil {
		t.drop()
		return err
	}
	return nil
}

// roster returns the round's clients with their devices and configurations.
func (t *Trainer[C, P, U]) roster(clients []int) ([]trainer.Client, error) {
	seen := map[int]bool{}
	var roster []trainer.Client
	for _, id := range clients {
		if id < 0 || seen[id] {
			return nil, fmt.Errorf("client %d: clients must be distinct and not negative", id)
		}
		seen[id] = true
		config, err := t.Config(id)
		if err != nil {
			return nil, fmt.Errorf("configuration of client %d: %w", id, err)
		}
		detached, err := receipt.Detach(config, -1) // tensors in it, if any, stay in the receipt
		if err != nil {
			return nil, fmt.Errorf("configuration of client %d: %w", id, err)
		}
		client := trainer.Client{ID: id, Weight: 1, Config: detached.Receipt}
		if t.Device != nil {
			client.Device = t.Device(id)
		}
		roster = append(roster, client)
	}
	return roster, nil
}

// prepare opens a session with memory for this many clients, unless there is one.
func (t *Trainer[C, P, U]) prepare(ctx context.Context, payload *receipt.Detached, clients int) error {
	if t.session.Load() != nil && clients > t.room {
		if err := t.Close(); err != nil {
			return err
		}
	}
	if t.session.Load() != nil {
		return nil
	}
	down, err := tensor.NewLayout(payload.Specs)
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	config, prototype, err := trainer.PrepareValues(*t.Update, cmp.Or(t.Nesting, receipt.DefaultDepth))
	if err != nil {
		return err
	}
	up, err := tensor.NewLayout(prototype.Specs)
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	workers := min(max(1, t.Workers), clients)
	session, err := trainer.Open(ctx, trainer.Config{
		Variant: t.Variant, Down: down, Up: up, Workers: workers, Clients: clients,
		Depth: (clients + workers - 1) / workers, Func: t.Func, FuncConfig: config, Launcher: t.Launcher,
	})
	if err != nil {
		return err
	}
	t.room = clients
	t.session.Store(session)
	return nil
}

// publish writes the payload to the next model and publishes it.
func (t *Trainer[C, P, U]) publish(ctx context.Context, session *trainer.Session, payload *receipt.Detached) error {
	if t.next == nil {
		var err error
		if t.next, err = session.Reserve(t.round); err != nil {
			return err
		}
	}
	if err := payload.CopyTo(t.next); err != nil {
		return fmt.Errorf("the tensors of the payload must be the same as in the session's first payload: %w", err)
	}
	model := t.next
	t.next = nil
	_, err := session.Publish(ctx, t.round, model)
	return err
}

// collect runs the round, and waits for its results in the order that Progress returns. If the
// round fails, it keeps the results that have arrived, for the caller to release.
func (t *Trainer[C, P, U]) collect(ctx context.Context, session *trainer.Session, roster []trainer.Client) error {
	pending := make([]*Pending, len(roster))
	for i, c := range roster {
		pending[i] = &Pending{Client: c.ID, done: make(chan struct{})}
	}
	over := make(chan struct{})
	var err error // of the round; set before over is closed
	go func() {
		defer close(over)
		arrived := func(u trainer.Update) error {
			pending[u.Index].update = u
			close(pending[u.Index].done)
			return nil
		}
		err = session.Round(ctx, trainer.Round{Number: t.round, Clients: roster, AsCompleted: true, Each: arrived})
	}()
	order := slices.Values(pending)
	if t.Progress != nil {
		order = t.Progress(order)
	}
	waited := 0
wait:
	for p := range order {
		waited++
		select {
		case <-p.done:
		case <-over:
			if err != nil {
				break wait
			}
		}
	}
	<-over
	if err == nil && waited != len(pending) {
		err = fmt.Errorf("the progress hook returned %d of %d pending results", waited, len(pending))
	}
	for _, p := range pending { // in client order, not in the order of waiting
		if p.update.Package == nil {
			continue // the round failed
		}
		r := &Result[U]{Client: p.Client, memory: p.update, out: &t.out}
		t.out.Add(1)
		t.results = append(t.results, r)
		if err == nil {
			err = t.attach(r)
		}
	}
	return err
}

// attach puts an update together.
func (t *Trainer[C, P, U]) attach(r *Result[U]) error {
	if err := receipt.Attach(r.memory.Package.Receipt, r.memory.Package, &r.Update, t.Known...); err != nil {
		return fmt.Errorf("update of client %d: %w", r.Client, err)
	}
	return nil
}

// Results returns the results of the last Process, once, in the order of its
// clients. The caller owns them and must release them.
func (t *Trainer[C, P, U]) Results() []*Result[U] {
	results := t.results
	t.results = nil
	return results
}

// drop releases the results that Results did not return.
func (t *Trainer[C, P, U]) drop() {
	for _, r := range t.Results() {
		r.Release()
	}
}

// Stop asks the worker functions of the running Process to end early. It does not
// affect the next Process. Any goroutine may call it.
func (t *Trainer[C, P, U]) Stop() error {
	t.stopped.Store(true)
	session, current := t.session.Load(), t.current.Load()
	if session == nil || current == 0 {
		return nil // Process passes it on after starting workers
	}
	return session.Stop(int(current - 1))
}

// Close releases results that Results did not return, and ends the session. Results
// that the caller holds stay valid until they are released.
func (t *Trainer[C, P, U]) Close() error {
	t.drop()
	session := t.session.Swap(nil)
	t.next = nil // its memory belongs to the session
	if session == nil {
		return nil
	}
	_, err := session.Close()
	return err
}
