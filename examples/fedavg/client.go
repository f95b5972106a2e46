package main

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

// A ClientTrainer trains clients on a session of workers. The payload and the updates
// can be any Go values. It keeps the results in the clients' order until Results
// returns them. Except Stop, its methods must not be called concurrently. It uses
// only packages that other programs can import, so you can copy this file.
//
// Every client of a call has memory for its result before the first one trains.
// K clients on N workers need memory for N × ⌈K/N⌉ updates, and no worker trains more
// than ⌈K/N⌉ of them. With fewer clients than workers, fewer workers are started.
type ClientTrainer struct {
	// Update is an example of the updates that clients send. It defines the tensors
	// to prepare memory for, and the initial values of all other fields.
	Update any

	// Config returns the configuration of a client.
	Config func(client int) ([]byte, error)

	Func     string // name of a worker function made by trainer.Values
	Variant  transports.Variant
	Launcher trainer.Launcher // owned by the caller: Close does not close it
	Workers  int              // most worker processes; 0 means one
	Nesting  int              // depth to which tensors are found; 0 means receipt.DefaultDepth

	// Device and Devices determine the device of a client: "cuda" with 2 devices
	// gives cuda:0 to even clients and cuda:1 to odd ones. With 0 devices, every
	// client gets Device unchanged.
	Device  string
	Devices int

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
	results []*Result
	out     atomic.Int64 // number of results that were not released
}

// A Pending is a result that may not have arrived yet.
type Pending struct {
	Client int
	done   chan struct{} // closed when update is set
	update trainer.Update
}

// A Result is a client's update.
type Result struct {
	Client int
	update trainer.Update
	out    *atomic.Int64
}

// Into stores the client's update in the variable that v points to. Its tensors
// are views of the transport's memory, valid until Release.
func (r *Result) Into(v any) error {
	if err := receipt.Attach(r.update.Package.Receipt, r.update.Package, v); err != nil {
		return fmt.Errorf("update of client %d: %w", r.Client, err)
	}
	return nil
}

// Release returns the update's memory. It must be called before the next call of
// Process, whose clients need the memory.
func (r *Result) Release() {
	r.update.Release()
	r.out.Add(-1)
}

// Process trains the clients on payload and keeps their results. Every payload
// of a trainer must have the same tensors. Results of the previous call that Results
// did not return are released. If a worker process or the transport fails, all calls
// fail until Close; the next Process then opens a new session.
func (t *ClientTrainer) Process(ctx context.Context, payload any, clients []int) error {
	t.stopped.Store(false)
	for _, r := range t.Results() {
		r.Release()
	}
	if len(clients) == 0 {
		return nil
	}
	switch {
	case t.Update == nil:
		return errors.New("client trainer: Update is not set")
	case t.Config == nil:
		return errors.New("client trainer: Config is not set")
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
	t.results, err = t.collect(ctx, session, roster)
	return err
}

// roster returns the round's clients with their devices and configurations.
func (t *ClientTrainer) roster(clients []int) ([]trainer.Client, error) {
	seen := map[int]bool{}
	var roster []trainer.Client
	for _, id := range clients {
		if id < 0 || seen[id] {
			return nil, fmt.Errorf("client %d: clients must be distinct and not negative", id)
		}
		seen[id] = true
		config, err := t.Config(id)
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", id, err)
		}
		client := trainer.Client{ID: id, Weight: 1, Device: t.Device, Config: config}
		if t.Devices > 0 {
			client.Device += fmt.Sprint(":", id%t.Devices)
		}
		roster = append(roster, client)
	}
	return roster, nil
}

// prepare opens a session with memory for this many clients, unless there is one.
func (t *ClientTrainer) prepare(ctx context.Context, payload *receipt.Detached, clients int) error {
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
	config, prototype, err := trainer.PrepareValues(t.Update, cmp.Or(t.Nesting, receipt.DefaultDepth))
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
func (t *ClientTrainer) publish(ctx context.Context, session *trainer.Session, payload *receipt.Detached) error {
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

// collect runs the round and waits for its results in the order that Progress returns.
func (t *ClientTrainer) collect(ctx context.Context, session *trainer.Session, roster []trainer.Client) ([]*Result, error) {
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
	if err != nil {
		for _, p := range pending {
			if p.update.Package != nil {
				p.update.Release()
			}
		}
		return nil, err
	}
	results := make([]*Result, len(pending))
	for i, p := range pending { // in client order, not in the order of waiting
		results[i] = &Result{Client: p.Client, update: p.update, out: &t.out}
	}
	t.out.Add(int64(len(results)))
	return results, nil
}

// Results returns the results of the last Process, once, in the order of its
// clients. The caller owns them and must release them.
func (t *ClientTrainer) Results() []*Result {
	results := t.results
	t.results = nil
	return results
}

// Stop asks the worker functions of the running Process to end early. It does not
// affect the next Process. Any goroutine may call it.
func (t *ClientTrainer) Stop() error {
	t.stopped.Store(true)
	session, current := t.session.Load(), t.current.Load()
	if session == nil || current == 0 {
		return nil // Process passes it on after starting workers
	}
	return session.Stop(int(current - 1))
}

// Close releases results that Results did not return, and ends the session. Results
// that the caller holds stay valid until they are released.
func (t *ClientTrainer) Close() error {
	for _, r := range t.Results() {
		r.Release()
	}
	session := t.session.Swap(nil)
	t.next = nil // its memory belongs to the session
	if session == nil {
		return nil
	}
	_, err := session.Close()
	return err
}
