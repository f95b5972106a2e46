package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
)

// goodbye bounds how long Close waits for the server to take note.
const goodbye = time.Second

type worker struct {
	o      driver.Options
	name   string // of the transport, for errors
	json   bool
	lane   int
	client *exchange.Client
	table  store.Manifest // of updates
	fetch  store.Fetcher
	asks   asks
	shared *shared // memory that is the server's, too; nil if none is wanted
	memory heapMemory

	job    driver.Job
	update *tensor.Package // of the job in hand, after Reserve
	handle store.Handle    // of the update, if it lies in the lane's slab
	state  state
	closed bool

	which  []int            // scratch: tensors to fetch
	fields []exchange.Field // scratch of uploads
	body   [][]byte         // scratch of uploads
}

// heapMemory is what a worker needs if it shares nothing with the server, made
// when it is needed.
type heapMemory struct {
	o             driver.Options
	model, update *tensor.Package
}

func (m *heapMemory) downlink() *tensor.Package {
	if m.model == nil {
		m.model = tensor.AllocTouched(m.o.Down)
	}
	return m.model
}

func (m *heapMemory) uplink() *tensor.Package {
	if m.update == nil {
		m.update = tensor.AllocTouched(m.o.Up)
	}
	return m.update
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
type asks struct{ ping, join, prove, leave, jobs, results exchange.Request }

func newAsks(o driver.Options, lane int) asks {
	n := strconv.Itoa(lane)
	q := func(name, method, path string) exchange.Request {
		return exchange.Request{Method: method, Path: "/v1/" + path, Calls: o.Rec.Counter(phase.Calls + name)}
	}
	a := asks{
		ping:    q("ping", http.MethodGet, "ping"),
		join:    q("join", http.MethodPost, "lanes/"+n+"?down="+digest(o.Down)+"&up="+digest(o.Up)),
		prove:   q("prove", http.MethodPost, "lanes/"+n+"/local"),
		leave:   q("leave", http.MethodDelete, "lanes/"+n),
		jobs:    q("jobs", http.MethodGet, "jobs/"+n),
		results: q("results", http.MethodPost, "results/"+n),
	}
	a.jobs.Parks = true
	return a
}

func dial(ctx context.Context, addr string, lane int, o driver.Options, c config) (*worker, error) {
	m, err := manifestsOf(o)
	if err != nil {
		return nil, err
	}
	w := &worker{o: o, name: c.name, json: c.json, lane: lane, table: m.up, asks: newAsks(o, lane), memory: heapMemory{o: o}}
	if w.client, err = newClient(addr, c, o.Rec); err != nil {
		return nil, err
	}
	w.client.ID.Lane = lane
	w.fetch = store.Fetcher{
		Client: w.client, Manifest: m.down, Batch: c.batch, JSON: c.json, Calls: o.Rec.Counter(phase.Calls + "batch"),
		Tensors: o.Rec.Counter(phase.BodyTensors), Bytes: o.Rec.Counter(phase.BodyBytes), Copied: o.Rec.Counter(phase.Copied),
	}
	if c.cacheSize > 0 {
		w.fetch.Cache = store.NewCache(c.cacheSize, o.Rec)
	}
	if c.local {
		w.shared = newShared(o)
	}
	if err := w.join(ctx); err != nil {
		w.client.Close()
		return nil, errors.Join(err, w.shared.close())
	}
	if !w.shared.has() { // not before it is known: it is touched
		w.memory.downlink()
		w.memory.uplink()
	}
	return w, nil
}

func newClient(addr string, c config, rec *phase.Recorder) (*exchange.Client, error) {
	_, _, secret, err := splitAddr(addr)
	connect := func(ctx context.Context) (net.Conn, error) { return dialAddr(ctx, addr) }
	return exchange.NewClient(connect, secret, c.fresh, c.patience, rec), err
}

// join takes the lane, and proves to the server that this process is local, if
// it is.
func (w *worker) join(ctx context.Context) error {
	var a joinAnswer
	err := w.client.Do(ctx, w.asks.join, func(r *http.Response) error { return readJSON(r, &a) })
	if err != nil || w.shared == nil {
		return err
	}
	if !w.shared.open(a) {
		return nil
	}
	err = w.client.Do(ctx, w.asks.prove, nil)
	if status := (exchange.StatusError{}); errors.As(err, &status) {
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
	if status := (exchange.StatusError{}); errors.As(err, &status) && status.Code == http.StatusGone {
		w.state = over
		return driver.Job{}, nil, io.EOF
	}
	var model *tensor.Package
	if err == nil {
		model, err = w.take(ctx, a)
	}
	if err != nil {
		w.client.Close()
		return driver.Job{}, nil, fmt.Errorf("%s: receive on lane %d: %w", w.name, w.lane, err)
	}
	w.state = received
	return w.job, model, nil
}

// take returns the model of a job, from the server's slab as far as it lies
// there and the rest from the server's store.
func (w *worker) take(ctx context.Context, a jobAnswer) (model *tensor.Package, err error) {
	w.client.Claim(phase.ID{Lane: w.lane, Round: a.Round, Client: a.Client})
	w.job = driver.Job{Round: a.Round, Client: a.Client, Weight: a.Weight, Device: a.Device, Config: a.Config, Timed: a.Timed}
	if a.Drain {
		w.fetch.Cache.Drain()
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
	if w.shared == nil {
		if err := model.TakeRows(a.Rows); err != nil {
			return nil, err
		}
	}
	return model, w.fetch.Fetch(ctx, a.Model, w.which, model)
}

// ask waits for a job.
func (w *worker) ask(ctx context.Context) (a jobAnswer, err error) {
	w.client.ID.Round, w.client.ID.Client = -1, -1
	err = w.client.Do(ctx, w.asks.jobs, func(r *http.Response) error {
		if err := readJSON(r, &a); err != nil {
			return err
		}
		return store.CheckID([]byte(a.Model))
	})
	return a, err
}

// readJSON decodes an answer.
func readJSON(r *http.Response, v any) error {
	body, err := exchange.ReadBody(r, 4*maxReceipt)
	if err != nil {
		return err
	}
	return exchange.ParseJSON(body, v)
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
		w.client.Close()
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
	return w.client.Do(ctx, q, nil)
}

// upload returns the request that carries p.
func (w *worker) upload(p *tensor.Package) (exchange.Request, error) {
	if len(p.Receipt) > maxReceipt {
		return exchange.Request{}, fmt.Errorf("receipt of %d bytes, want %d at most", len(p.Receipt), maxReceipt)
	}
	q, cached := w.asks.results, w.fetch.Cache.Stats()
	w.fields = append(w.fields[:0], exchange.Field{Name: fieldRound, Value: w.job.Round}, exchange.Field{Name: fieldClient, Value: w.job.Client},
		exchange.Field{Name: fieldCached, Value: cached.Tensors}, exchange.Field{Name: fieldCache, Value: cached.Bytes})
	q.Fields = w.fields
	if w.json {
		return w.uploadJSON(q, p)
	}
	return w.uploadRaw(q, p), nil
}

// uploadRaw sends receipt, manifest and tensors; of an update in the lane's slab,
// what is not there. Its mirror image is server.readRaw.
func (w *worker) uploadRaw(q exchange.Request, p *tensor.Package) exchange.Request {
	q.Type, q.Body = exchange.TypeRaw, append(w.body[:0], p.Receipt)
	var table []byte
	if w.handle == "" || w.o.Up.Var() {
		table = w.table.Of(p).Bytes
		q.Body = append(q.Body, table)
	}
	q.Fields = append(q.Fields, exchange.Field{Name: fieldReceipt, Value: len(p.Receipt)}, exchange.Field{Name: store.FieldTable, Value: len(table)})
	if w.handle != "" {
		q.Fields = append(q.Fields, exchange.Field{Name: fieldUpdate, Text: string(w.handle)})
	} else {
		for i := range p.Len() {
			q.Body = append(q.Body, p.View(i))
		}
	}
	w.fields, w.body = q.Fields, q.Body
	return q
}

// uploadJSON sends receipt and tensors in JSON. Its mirror image is
// server.readJSON.
func (w *worker) uploadJSON(q exchange.Request, p *tensor.Package) (exchange.Request, error) {
	defer w.client.Begin(phase.Encode).End()
	body, err := json.Marshal(jsonUpdate{Receipt: p.Receipt, Tensors: w.table.ToJSON(p)})
	q.Type, q.Body = exchange.TypeJSON, [][]byte{body}
	return q, err
}

// Ping exchanges an empty request and an empty answer.
func (w *worker) Ping(ctx context.Context) error {
	if err := w.client.Do(ctx, w.asks.ping, nil); err != nil {
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
	if w.state != over && w.client.Open() {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		_ = w.client.Do(ctx, w.asks.leave, nil) // a server that is gone needs no goodbye
	}
	w.client.Close()
	if w.state == received || w.state == reserved {
		return nil // somebody may be looking at the model: Submit gives the memory up
	}
	if err := w.shared.close(); err != nil {
		return fmt.Errorf("%s: close lane %d: %w", w.name, w.lane, err)
	}
	return nil
}
