package http

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
)

// goodbye bounds how long Close waits for the server's answer.
const goodbye = time.Second

type worker struct {
	o      driver.Options
	c      config
	lane   int
	client *exchange.Client
	up     store.Manifest
	fetch  store.Fetcher
	shared *shared // view of the server's slabs

	// Heap memory for models and updates that are not shared; allocated when needed.
	model, update *tensor.Package

	job    phase.ID     // the current job
	handle store.Handle // location of its update in the lane's slab; empty if sent as a body

	ping, jobs, results exchange.Request // the parts that never change
	which               []int            // scratch: indexes of tensors to fetch
	fields              []exchange.Field // scratch for uploads
	body                [][]byte         // scratch for uploads
}

func (t transport) Dial(ctx context.Context, e *endpoint.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	m, err := manifestsOf(o)
	if err != nil {
		return nil, err
	}
	c := t.config(o)
	w := &worker{o: o, c: c, lane: lane, up: m.up}
	w.client = exchange.NewClient(func(ctx context.Context) (net.Conn, error) { return e.Dial(ctx, o.Rec) }, e.Authorization(), c.fresh, o.Rec)
	w.client.ID.Lane = lane
	if e.Mutual() {
		w.client.Sender = endpoint.LaneName(lane)
	}
	n := strconv.Itoa(lane)
	w.ping, w.jobs, w.results = w.request("ping", "GET", "ping"), w.request("jobs", "GET", "jobs/"+n), w.request("results", "POST", "results/"+n)
	w.jobs.Parks = true
	w.fetch = store.Fetcher{
		Client: w.client, Manifest: m.down, Batch: c.batch, JSON: c.json,
		Calls: o.Rec.Counter(phase.Calls + "batch"), Copied: o.Rec.Counter(phase.Copied),
	}
	if c.cacheSize > 0 {
		w.fetch.Cache = store.NewCache(c.cacheSize, o.Rec)
	}
	if err := w.join(ctx); err != nil {
		return nil, errors.Join(err, w.Close(nil))
	}
	// Allocate only now that the need is known, because allocating touches the pages.
	if w.shared.updates == nil || c.clone || c.missing > 0 {
		w.downlink()
	}
	if w.shared.updates == nil {
		w.uplink()
	}
	return w, nil
}

func (w *worker) request(name, method, path string) exchange.Request {
	return exchange.Request{Method: method, Path: "/v1/" + path, Calls: w.o.Rec.Counter(phase.Calls + name)}
}

// about returns a request for this worker's lane; rest follows the lane in the path.
func (w *worker) about(name, method, rest string) exchange.Request {
	return w.request(name, method, "lanes/"+strconv.Itoa(w.lane)+rest)
}

func (w *worker) downlink() *tensor.Package {
	if w.model == nil {
		w.model = w.o.Alloc(w.o.Down)
	}
	w.model.ResetRows()
	return w.model
}

func (w *worker) uplink() *tensor.Package {
	if w.update == nil {
		w.update = w.o.Alloc(w.o.Up)
	}
	return w.update
}

// join takes the lane. If this process can open the lane's slab, it also proves to the
// server that it is local.
func (w *worker) join(ctx context.Context) error {
	var a joinAnswer
	q := w.about("join", "POST", "?down="+digest(w.o.Down)+"&up="+digest(w.o.Up))
	err := w.client.Do(ctx, q, func(r *http.Response) error { return readJSON(r, &a) })
	if err != nil || !w.c.local || w.o.Folders != nil {
		a = joinAnswer{} // the transport http uses no slabs, and a confined worker opens none
	}
	w.shared = newShared(w.o, w.c, a)
	if err != nil || w.shared.updates == nil {
		return err
	}
	err = w.client.Do(ctx, w.about("prove", "POST", "/local"), nil)
	if status := (exchange.StatusError{}); errors.As(err, &status) {
		return w.shared.giveUp() // the server's slab is other memory, so this process is not local
	}
	return err
}

func readJSON(r *http.Response, v any) error {
	body, err := exchange.ReadBody(r, 4*maxReceipt)
	if err != nil {
		return err
	}
	return exchange.ParseJSON(body, v)
}

func (w *worker) Receive(ctx context.Context) (j driver.Job, model *tensor.Package, d driver.Delivered, err error) {
	var a jobAnswer
	w.client.ID.Round, w.client.ID.Client = -1, -1
	err = w.client.Do(ctx, w.jobs, func(r *http.Response) error { return readJSON(r, &a) })
	if status := (exchange.StatusError{}); errors.As(err, &status) && status.Code == http.StatusGone {
		return j, nil, d, io.EOF
	}
	if err == nil && a.Model != "" {
		err = store.CheckID([]byte(a.Model))
	}
	if err != nil {
		return j, nil, d, err
	}
	j = driver.Job{Round: a.Round, Client: a.Client, Weight: a.Weight, Device: a.Device, Config: a.Config, Timed: a.Timed}
	w.job, w.handle = j.ID(w.lane), a.Update
	w.client.Claim(w.job)
	if a.Drain {
		w.fetch.Cache.Drain()
	}
	if a.Model == "" {
		w.shared.none()
		return j, nil, d, nil
	}
	model, d, err = w.receive(ctx, a)
	return j, model, d, err
}

// receive returns the model of a job: tensors in the server's slab in place, others
// fetched from the store.
func (w *worker) receive(ctx context.Context, a jobAnswer) (model *tensor.Package, d driver.Delivered, err error) {
	model, w.which, err = w.shared.model(a, w.downlink, w.which[:0])
	if err == nil {
		err = model.TakeRows(a.Rows)
	}
	if err != nil {
		return nil, d, err
	}
	found := w.shared.amount(model)
	if w.c.clone && found.Tensors > 0 {
		own := w.downlink()
		if err = own.TakeRows(a.Rows); err == nil {
			err = w.shared.clone(own, model, w.job)
		}
		if err != nil {
			return nil, d, err
		}
		model = own
	}
	model.Receipt = a.Receipt
	d, err = w.fetch.Fetch(ctx, a.Model, w.which, model)
	d.Handle = found
	return model, d, err
}

func (w *worker) Reserve() (*tensor.Package, error) {
	if w.handle != "" {
		return w.shared.update(w.handle)
	}
	return w.uplink(), nil
}

func (w *worker) Submit(ctx context.Context, p *tensor.Package) error {
	if err := w.shared.unchanged(); err != nil {
		return err
	}
	q, err := w.upload(p)
	if err == nil {
		err = w.client.Do(ctx, q, nil)
	}
	return err
}

func (w *worker) upload(p *tensor.Package) (exchange.Request, error) {
	q, cached := w.results, w.fetch.Cache.Stats()
	if err := checkReceipt("receipt", p.Receipt); err != nil {
		return q, err
	}
	w.fields = append(w.fields[:0], exchange.Field{Name: fieldRound, Value: w.job.Round}, exchange.Field{Name: fieldClient, Value: w.job.Client},
		exchange.Field{Name: fieldCached, Value: cached.Tensors}, exchange.Field{Name: fieldCache, Value: cached.Bytes})
	q.Fields = w.fields
	if w.c.json {
		return w.uploadJSON(q, p)
	}
	return w.uploadRaw(q, p), nil
}

// uploadRaw sends the receipt, manifest and tensors of p. If p is in the lane's slab, it
// sends only the receipt, and the manifest if lengths vary. server.readRaw reads it.
func (w *worker) uploadRaw(q exchange.Request, p *tensor.Package) exchange.Request {
	q.Type, q.Body = exchange.TypeRaw, append(w.body[:0], p.Receipt)
	var table []byte
	if w.handle == "" || w.o.Up.Var() {
		table = w.up.Of(p).Bytes
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

// uploadJSON sends receipt and tensors in JSON. server.readJSON reads it.
func (w *worker) uploadJSON(q exchange.Request, p *tensor.Package) (exchange.Request, error) {
	defer w.client.Begin(phase.Encode).End()
	body, err := json.Marshal(jsonUpdate{Receipt: p.Receipt, Tensors: w.up.ToJSON(p)})
	q.Type, q.Body = exchange.TypeJSON, [][]byte{body}
	return q, err
}

// Ping sends an empty request and waits for its empty answer.
func (w *worker) Ping(ctx context.Context) error {
	return w.client.Do(ctx, w.ping, nil)
}

// Close ends the connection, and first reports cause, if any, to the server.
func (w *worker) Close(cause error) error {
	if cause != nil && w.client.Open() {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		query := "?cause=" + url.QueryEscape(cause.Error()[:min(len(cause.Error()), 1000)])
		_ = w.client.Do(ctx, w.about("leave", "DELETE", query), nil) // best effort: the server may be gone
	}
	w.client.Close()
	return w.shared.close()
}
