package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// goodbye bounds how long Close waits for the server to take note.
const goodbye = time.Second

type worker struct {
	o      driver.Options
	name   string // of the transport, for errors
	json   bool
	lane   int
	client *client
	table  table // of updates
	fetch  fetcher
	asks   asks
	shared *shared // memory that is the server's, too; nil if none is wanted
	memory heapMemory

	job    driver.Job
	update *tensor.Package // of the job in hand, after Reserve
	handle hexHandle       // of the update, if it lies in the lane's slab
	state  state
	closed bool

	which  []int    // scratch: tensors to fetch
	fields []field  // scratch of uploads
	body   [][]byte // scratch of uploads
}

// heapMemory is what a worker needs if it shares nothing with the server, made
// when it is needed.
type heapMemory struct {
	o             driver.Options
	model, update *tensor.Package
}

func (m *heapMemory) downlink() *tensor.Package {
	if m.model == nil {
		m.model = touched(m.o.Down)
	}
	return m.model
}

func (m *heapMemory) uplink() *tensor.Package {
	if m.update == nil {
		m.update = touched(m.o.Up)
	}
	return m.update
}

// touched returns a package whose memory is there already.
func touched(l *tensor.Layout) *tensor.Package {
	p := tensor.Alloc(l)
	tensor.Fill(p, 0)
	return p
}

// A state is what a worker's lane waits for.
type state uint8

const (
	idle     state = iota // Receive
	received              // Reserve
	reserved              // Submit
	over                  // nothing: the session has ended
)

// asks are the requests that a worker makes, as far as they are always the same.
type asks struct{ ping, join, prove, leave, jobs, batch, results request }

func newAsks(o driver.Options, lane int) asks {
	n := strconv.Itoa(lane)
	q := func(name, method, path string) request {
		return request{method: method, path: "/v1/" + path, calls: o.Rec.Counter(phase.Calls + name)}
	}
	a := asks{
		ping:    q("ping", http.MethodGet, "ping"),
		join:    q("join", http.MethodPost, "lanes/"+n+"?down="+digest(o.Down)+"&up="+digest(o.Up)),
		prove:   q("prove", http.MethodPost, "lanes/"+n+"/local"),
		leave:   q("leave", http.MethodDelete, "lanes/"+n),
		jobs:    q("jobs", http.MethodGet, "jobs/"+n),
		batch:   q("batch", http.MethodPost, "batch"),
		results: q("results", http.MethodPost, "results/"+n),
	}
	a.jobs.parks = true
	return a
}

func dial(ctx context.Context, addr string, lane int, o driver.Options, c config) (*worker, error) {
	t, err := tablesOf(o)
	if err != nil {
		return nil, err
	}
	w := &worker{
		o: o, name: c.name, json: c.json, lane: lane, table: t.up, asks: newAsks(o, lane),
		client: newClient(addr, c.json, c.patience, o.Rec), memory: heapMemory{o: o},
	}
	w.client.id.Lane = lane
	w.fetch = fetcher{
		client: w.client, request: w.asks.batch, batch: c.batch, json: c.json, table: t.down,
		tensors: o.Rec.Counter(phase.BodyTensors), bytes: o.Rec.Counter(phase.BodyBytes), copied: o.Rec.Counter(phase.Copied),
	}
	if c.cacheSize > 0 {
		w.fetch.cache = newCache(c.cacheSize, o.Rec)
	}
	if c.local {
		w.shared = newShared(o)
	}
	if err := w.join(ctx); err != nil {
		w.client.close()
		return nil, errors.Join(err, w.shared.close())
	}
	if !w.shared.has() { // not before it is known: it is touched
		w.memory.downlink()
		w.memory.uplink()
	}
	return w, nil
}

// join takes the lane, and proves to the server that this process is local, if
// it is.
func (w *worker) join(ctx context.Context) error {
	var a joinAnswer
	err := w.client.do(ctx, w.asks.join, func(r *http.Response) error { return readJSON(r, &a) })
	if err != nil || w.shared == nil {
		return err
	}
	if !w.shared.open(a) {
		return nil
	}
	err = w.client.do(ctx, w.asks.prove, nil)
	if status := (statusError{}); errors.As(err, &status) {
		return w.shared.giveUp() // the server looks at other memory: this process is not local
	}
	return err
}

func (w *worker) Receive(ctx context.Context) (driver.Job, *tensor.Package, error) {
	switch {
	case w.state == over:
		return driver.Job{}, nil, io.EOF
	case w.closed:
		return driver.Job{}, nil, fmt.Errorf("%s: receive on a lane that is closed", w.name)
	case w.state != idle:
		return driver.Job{}, nil, fmt.Errorf("%s: receive before the update of client %d was submitted", w.name, w.job.Client)
	}
	a, err := w.ask(ctx)
	if status := (statusError{}); errors.As(err, &status) && status.code == http.StatusGone {
		w.state = over
		return driver.Job{}, nil, io.EOF
	}
	var model *tensor.Package
	if err == nil {
		model, err = w.take(ctx, a)
	}
	if err != nil {
		w.client.close()
		return driver.Job{}, nil, fmt.Errorf("%s: receive on lane %d: %w", w.name, w.lane, err)
	}
	w.state = received
	return w.job, model, nil
}

// take returns the model of a job, from the server's slab as far as it lies
// there and the rest from the server's store.
func (w *worker) take(ctx context.Context, a jobAnswer) (model *tensor.Package, err error) {
	w.client.id.Round, w.client.id.Client = a.Round, a.Client
	for _, s := range w.client.parked {
		w.client.add(s)
	}
	w.job = driver.Job{Round: a.Round, Client: a.Client, Weight: a.Weight, Device: a.Device, Config: a.Config, Timed: a.Timed}
	if a.Drain && w.fetch.cache != nil {
		w.fetch.cache.drain()
	}
	w.handle = a.Update
	w.which = w.which[:0]
	if w.shared != nil {
		if model, w.which, err = w.shared.model(a, &w.memory, w.which); err != nil {
			return nil, err
		}
	} else {
		model = w.memory.downlink()
		for i := range model.Len() {
			w.which = append(w.which, i)
		}
	}
	model.Receipt = a.Receipt
	return model, w.fetch.fetch(ctx, a.Model, w.which, model)
}

// ask waits for a job.
func (w *worker) ask(ctx context.Context) (a jobAnswer, err error) {
	w.client.id.Round, w.client.id.Client = -1, -1
	err = w.client.do(ctx, w.asks.jobs, func(r *http.Response) error {
		if err := readJSON(r, &a); err != nil {
			return err
		}
		return checkID([]byte(a.Model))
	})
	return a, err
}

// readJSON decodes an answer.
func readJSON(r *http.Response, v any) error {
	body, err := readBody(r, 4*maxReceipt)
	if err != nil {
		return err
	}
	return parseJSON(body, v)
}

func (w *worker) Reserve() (*tensor.Package, error) {
	if w.state != received {
		return nil, fmt.Errorf("%s: reserve without a job that was received", w.name)
	}
	w.update = nil
	if w.handle != "" {
		p, err := w.shared.update(w.handle)
		if err != nil {
			return nil, fmt.Errorf("%s: reserve on lane %d: %w", w.name, w.lane, err)
		}
		w.update = p
	} else {
		w.update = w.memory.uplink()
	}
	w.state = reserved
	w.update.Receipt = nil
	return w.update, nil
}

func (w *worker) Submit(ctx context.Context, p *tensor.Package) error {
	err := errors.New("not the package that was reserved for the job")
	if w.state == reserved && p == w.update {
		err = w.submit(ctx, p)
	}
	if w.state != over {
		w.state = idle
	}
	w.update = nil
	if w.closed {
		err = errors.Join(err, w.shared.close())
	}
	if err != nil {
		w.client.close()
		return fmt.Errorf("%s: submit on lane %d: round %d, client %d: %w", w.name, w.lane, w.job.Round, w.job.Client, err)
	}
	return nil
}

func (w *worker) submit(ctx context.Context, p *tensor.Package) error {
	if w.closed {
		return errors.New("the lane is closed")
	}
	// The model was read in place. Had its memory been reused meanwhile, the
	// update would be worthless.
	if err := w.shared.unchanged(); err != nil {
		return fmt.Errorf("the model changed while it was in use: %w", err)
	}
	q, err := w.upload(p)
	if err != nil {
		return err
	}
	return w.client.do(ctx, q, nil)
}

// upload returns the request that carries p.
func (w *worker) upload(p *tensor.Package) (request, error) {
	if len(p.Receipt) > maxReceipt {
		return request{}, fmt.Errorf("receipt of %d bytes, want %d at most", len(p.Receipt), maxReceipt)
	}
	q := w.asks.results
	held := w.fetch.cache.stats()
	w.fields = append(w.fields[:0], field{fieldRound, w.job.Round}, field{fieldClient, w.job.Client},
		field{fieldCached, held.Tensors}, field{fieldCache, held.Bytes})
	q.fields = w.fields
	if w.json {
		span := w.o.Rec.Begin(phase.Encode, w.client.id)
		defer span.End()
		body, err := json.Marshal(jsonUpdate{Receipt: p.Receipt, Tensors: jsonPackage(p)})
		q.kind, q.body = typeJSON, [][]byte{body}
		return q, err
	}
	table := w.table.bytes
	if q.handle = w.handle; q.handle != "" {
		table = nil // the server has the tensors
	}
	q.kind = typeRaw
	q.fields = append(q.fields, field{fieldReceipt, len(p.Receipt)}, field{fieldTable, len(table)})
	q.body = append(w.body[:0], p.Receipt, table)
	for i := range p.Len() {
		if q.handle == "" {
			q.body = append(q.body, p.View(i))
		}
	}
	w.fields, w.body = q.fields, q.body
	return q, nil
}

// Ping exchanges an empty request and an empty answer.
func (w *worker) Ping(ctx context.Context) error {
	if err := w.client.do(ctx, w.asks.ping, nil); err != nil {
		return fmt.Errorf("%s: ping: %w", w.name, err)
	}
	return nil
}

// Close tells the server that the lane has no worker any more, if it can still
// be told.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if w.state != over && (w.client.conn != nil || w.client.fresh) {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		_ = w.client.do(ctx, w.asks.leave, nil) // a server that is gone needs no goodbye
	}
	w.client.close()
	if w.state == received || w.state == reserved {
		return nil // somebody may be looking at the model: Submit gives the memory up
	}
	if err := w.shared.close(); err != nil {
		return fmt.Errorf("%s: close lane %d: %w", w.name, w.lane, err)
	}
	return nil
}
