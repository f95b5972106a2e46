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
	"ipcbench/transports"
)

// goodbye bounds how long Close waits for the server to take note.
const goodbye = time.Second

type worker struct {
	o      transports.Options
	json   bool
	lane   int
	client *client
	table  table // of updates
	fetch  fetcher
	which  []int // all tensors of the model
	asks   asks

	model  *tensor.Package
	update *tensor.Package
	job    transports.Job
	state  state
	closed bool

	fields []field  // scratch of uploads
	body   [][]byte // scratch of uploads
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
type asks struct{ ping, join, leave, jobs, batch, results request }

func newAsks(o transports.Options, lane int) asks {
	n := strconv.Itoa(lane)
	q := func(name, method, path string) request {
		return request{method: method, path: "/v1/" + path, calls: o.Rec.Counter(phase.Calls + name)}
	}
	a := asks{
		ping:    q("ping", http.MethodGet, "ping"),
		join:    q("join", http.MethodPost, "lanes/"+n+"?down="+digest(o.Down)+"&up="+digest(o.Up)),
		leave:   q("leave", http.MethodDelete, "lanes/"+n),
		jobs:    q("jobs", http.MethodGet, "jobs/"+n),
		batch:   q("batch", http.MethodPost, "batch"),
		results: q("results", http.MethodPost, "results/"+n),
	}
	a.jobs.parks = true
	return a
}

func dial(ctx context.Context, addr string, lane int, o transports.Options, c config) (*worker, error) {
	t, err := tablesOf(o)
	if err != nil {
		return nil, err
	}
	w := &worker{
		o: o, json: c.json, lane: lane, table: t.up, asks: newAsks(o, lane),
		client: newClient(addr, c.json, o.Rec),
		model:  tensor.Alloc(o.Down), update: tensor.Alloc(o.Up),
	}
	w.client.id.Lane = lane
	w.fetch = fetcher{
		client: w.client, request: w.asks.batch, batch: c.batch, json: c.json, table: t.down,
		tensors: o.Rec.Counter(phase.BodyTensors), bytes: o.Rec.Counter(phase.BodyBytes), copied: o.Rec.Counter(phase.Copied),
	}
	if c.cacheSize > 0 {
		w.fetch.cache = newCache(c.cacheSize, o.Rec)
	}
	for i := range o.Down.Len() {
		w.which = append(w.which, i)
	}
	if err := w.client.do(ctx, w.asks.join, nil); err != nil {
		w.client.close()
		return nil, err
	}
	return w, nil
}

func (w *worker) Receive(ctx context.Context) (transports.Job, *tensor.Package, error) {
	switch w.state {
	case over:
		return transports.Job{}, nil, io.EOF
	case received, reserved:
		return transports.Job{}, nil, fmt.Errorf("http: receive before the update of client %d was submitted", w.job.Client)
	}
	a, err := w.ask(ctx)
	if status := (statusError{}); errors.As(err, &status) && status.code == http.StatusGone {
		w.state = over
		return transports.Job{}, nil, io.EOF
	}
	if err == nil {
		w.client.id.Round, w.client.id.Client = a.Round, a.Client
		w.job = transports.Job{Round: a.Round, Client: a.Client, Weight: a.Weight, Device: a.Device, Config: a.Config, Timed: a.Timed}
		if a.Drain && w.fetch.cache != nil {
			w.fetch.cache.drain()
		}
		w.model.Receipt = a.Receipt
		err = w.fetch.fetch(ctx, a.Model, w.which, w.model)
	}
	if err != nil {
		return transports.Job{}, nil, fmt.Errorf("http: receive on lane %d: %w", w.lane, err)
	}
	w.state = received
	return w.job, w.model, nil
}

// ask waits for a job.
func (w *worker) ask(ctx context.Context) (a jobAnswer, err error) {
	w.client.id.Round, w.client.id.Client = -1, -1
	err = w.client.do(ctx, w.asks.jobs, func(r *http.Response) error {
		body, err := readBody(r, 4*maxReceipt)
		if err == nil {
			err = json.Unmarshal(body, &a)
		}
		if err == nil {
			err = checkID([]byte(a.Model))
		}
		return err
	})
	return a, err
}

func (w *worker) Reserve() (*tensor.Package, error) {
	if w.state != received {
		return nil, errors.New("http: reserve without a job that was received")
	}
	w.state = reserved
	w.update.Receipt = nil
	return w.update, nil
}

func (w *worker) Submit(ctx context.Context, p *tensor.Package) error {
	if w.state != reserved || p != w.update {
		return errors.New("http: submit of a package that was not reserved for the job")
	}
	w.state = idle
	q, err := w.upload(p)
	if err == nil {
		err = w.client.do(ctx, q, nil)
	}
	if err != nil {
		w.client.close()
		return fmt.Errorf("http: submit on lane %d: round %d, client %d: %w", w.lane, w.job.Round, w.job.Client, err)
	}
	return nil
}

// upload returns the request that carries p.
func (w *worker) upload(p *tensor.Package) (request, error) {
	if len(p.Receipt) > maxReceipt {
		return request{}, fmt.Errorf("receipt of %d bytes, want %d at most", len(p.Receipt), maxReceipt)
	}
	q := w.asks.results
	held := w.fetch.cache.stats()
	if w.json {
		span := w.o.Rec.Begin(phase.Encode, w.client.id)
		defer span.End()
		body, err := json.Marshal(jsonUpdate{
			Round: w.job.Round, Client: w.job.Client, Receipt: p.Receipt, Tensors: jsonPackage(p), Cache: held,
		})
		q.kind, q.body = typeJSON, [][]byte{body}
		return q, err
	}
	q.kind = typeRaw
	q.fields = append(w.fields[:0], field{fieldRound, w.job.Round}, field{fieldClient, w.job.Client},
		field{fieldReceipt, len(p.Receipt)}, field{fieldCached, held.Tensors}, field{fieldCache, held.Bytes})
	q.body = append(w.body[:0], p.Receipt, w.table.bytes)
	for i := range p.Len() {
		q.body = append(q.body, p.View(i))
	}
	w.fields, w.body = q.fields, q.body
	return q, nil
}

// Ping exchanges an empty request and an empty answer.
func (w *worker) Ping(ctx context.Context) error {
	if err := w.client.do(ctx, w.asks.ping, nil); err != nil {
		return fmt.Errorf("http: ping: %w", err)
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
	return nil
}
