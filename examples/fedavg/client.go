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

// A ClientTrainer trains clients on a session of workers: any Go value goes to them
// as payload, any Go value comes back, and the results are kept in the order of
// the clients until they are handed out. It has one user at a time, but for
// Stop. It needs nothing that is not there for other programs: copy this file.
//
// Every client of a call has memory for its result before the first one trains:
// K clients on N workers take that for N × ⌈K/N⌉ updates, and no worker trains more
// than ⌈K/N⌉ of them. Fewer clients than workers take fewer workers.
type ClientTrainer struct {
	// Update is an update of the kind that every client sends: its tensors say what
	// memory to prepare, and the rest is what a worker starts from.
	Update any

	// Config returns the configuration of a client.
	Config func(client int) ([]byte, error)

	Func     string // a worker function that trainer.Values made
	Variant  transports.Variant
	Launcher trainer.Launcher // stays the caller's: Close does not close it
	Workers  int              // that train at once, at most, each a process; 0 is one
	Nesting  int              // how deep to look for tensors; 0 is receipt.DefaultDepth

	// Device and Devices choose the device of a client: "cuda" with 2 devices
	// gives cuda:0 to even clients and cuda:1 to odd ones; with 0 devices every
	// client gets Device as it is.
	Device  string
	Devices int

	// Progress is given all pending results, in client order, and returns them in
	// the order in which the trainer is to wait for them; it sees each one as it
	// is waited for. Nil waits in client order.
	Progress func(iter.Seq[*Pending]) iter.Seq[*Pending]

	session   atomic.Pointer[trainer.Session]
	current   atomic.Int64    // the round of the Process that runs, plus one; 0 if none does
	stopped   atomic.Bool     // Stop was called since Process began
	next      *tensor.Package // reserved by a Process that could not publish it
	room      int             // clients that the session has memory for
	round     int
	results   []*Result
	out       atomic.Int64 // results that were not released
	untouched []string
}

// A Pending is a result that is on its way.
type Pending struct {
	Client int
	done   chan struct{} // closed when update is set
	update trainer.Update
}

// A Result is what a client sent back.
type Result struct {
	Client int
	update trainer.Update
	out    *atomic.Int64
}

// Into sets the variable that v points to to the client's update. Its tensors
// are the transport's memory, not a copy: they are valid until Release.
func (r *Result) Into(v any) error {
	if err := receipt.Attach(r.update.Package.Receipt, r.update.Package, v); err != nil {
		return fmt.Errorf("update of client %d: %w", r.Client, err)
	}
	return nil
}

// Release gives the memory of the update back. The clients of the next call to
// Process need it.
func (r *Result) Release() {
	r.update.Release()
	r.out.Add(-1)
}

// device returns the device of a client.
func (t *ClientTrainer) device(client int) string {
	if t.Devices > 0 {
		return fmt.Sprintf("%s:%d", t.Device, client%t.Devices)
	}
	return t.Device
}

// Process trains the clients on payload and keeps their results. Every payload
// of a trainer must have the same tensors. Results that were not handed out are
// released. If a worker process died or the transport failed, the session is dead:
// every call fails until Close, after which the next Process opens another one.
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
		t.round++ // also after a failure: whoever stopped this round did not stop another one
	}()
	if n := t.out.Load(); n > 0 {
		return fmt.Errorf("%d results of an earlier call are out, and their memory is needed: release them", n)
	}
	roster, err := t.roster(clients)
	if err != nil {
		return err
	}
	detached, err := receipt.Detach(payload, cmp.Or(t.Nesting, receipt.DefaultDepth))
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	t.untouched = detached.Untouched
	if err := t.prepare(ctx, detached, len(clients)); err != nil {
		return err
	}
	session := t.session.Load()
	if t.stopped.Load() { // before there was a session to tell
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

// roster returns the round's clients.
func (t *ClientTrainer) roster(clients []int) ([]trainer.Client, error) {
	seen := map[int]bool{}
	var roster []trainer.Client
	for _, id := range clients {
		if id < 0 || seen[id] {
			return nil, fmt.Errorf("client %d: want each client once, and none negative", id)
		}
		seen[id] = true
		config, err := t.Config(id)
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", id, err)
		}
		roster = append(roster, trainer.Client{ID: id, Weight: 1, Device: t.device(id), Config: config})
	}
	return roster, nil
}

// prepare makes sure that there is a session with room for this many clients.
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
		return fmt.Errorf("payload has other tensors than the session's first one: %w", err)
	}
	model := t.next
	t.next = nil
	_, err := session.Publish(ctx, t.round, model)
	return err
}

// collect runs the round and waits for its results as Progress wants it.
func (t *ClientTrainer) collect(ctx context.Context, session *trainer.Session, roster []trainer.Client) ([]*Result, error) {
	pending := make([]*Pending, len(roster))
	for i, c := range roster {
		pending[i] = &Pending{Client: c.ID, done: make(chan struct{})}
	}
	ended := make(chan error, 1)
	go func() {
		ended <- session.Round(ctx, trainer.Round{Number: t.round, Clients: roster, AsCompleted: true, Each: func(u trainer.Update) error {
			pending[u.Index].update = u
			close(pending[u.Index].done)
			return nil
		}})
	}()
	order := slices.Values(pending)
	if t.Progress != nil {
		order = t.Progress(order)
	}
	var waitErr error
	waited := 0
	for p := range order {
		waited++
		select {
		case <-p.done:
			continue
		case waitErr = <-ended:
			ended <- waitErr
		}
		if waitErr != nil {
			break
		}
	}
	err := <-ended
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
	for i, p := range pending { // in client order, whatever the order of waiting
		results[i] = &Result{Client: p.Client, update: p.update, out: &t.out}
	}
	t.out.Add(int64(len(results)))
	return results, nil
}

// Results hands out the results of the last Process, in the order of its
// clients. The trainer keeps none: the caller releases them.
func (t *ClientTrainer) Results() []*Result {
	results := t.results
	t.results = nil
	return results
}

// Untouched returns the paths of the tensors of the last payload that lie deeper
// than Nesting. They travelled inside the receipt, which is copied to every
// client.
func (t *ClientTrainer) Untouched() []string { return t.untouched }

// Stop asks the worker functions of the Process that runs to end early. Any
// goroutine may call it; the next Process does not see it.
func (t *ClientTrainer) Stop() error {
	t.stopped.Store(true)
	session, current := t.session.Load(), t.current.Load()
	if session == nil || current == 0 {
		return nil // Process passes it on when there are workers
	}
	return session.Stop(int(current - 1))
}

// Close releases what was not handed out and ends the session. Results that the
// caller holds stay valid until they are released.
func (t *ClientTrainer) Close() error {
	for _, r := range t.Results() {
		r.Release()
	}
	session := t.session.Swap(nil)
	t.next = nil // it goes with the session
	if session == nil {
		return nil
	}
	_, err := session.Close()
	return err
}
