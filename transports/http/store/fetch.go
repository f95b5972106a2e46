package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/exchange"
)

// A Fetcher fetches tensors of a model from a store. It is not safe for concurrent use.
type Fetcher struct {
	Client   *exchange.Client
	Manifest Manifest // of models
	Batch    int      // tensors per request; 0 means all
	JSON     bool
	Cache    *Cache // nil without a cache

	Calls, Copied *phase.Counter

	ids, got []byte // scratch: a request's body, and a received manifest or small tensors
}

func appendID(b []byte, name string, i int) []byte {
	b = append(b, name...)
	b = append(b, '.')
	return strconv.AppendInt(b, int64(i), 10)
}

// Fetch fills the tensors of p with the indexes which, from the cache or from the model
// with the given name. It returns the amounts that came each way.
func (f *Fetcher) Fetch(ctx context.Context, name string, which []int, p *tensor.Package) (d driver.Delivered, err error) {
	if f.Cache != nil {
		which = f.uncached(name, which, p, &d.Cached)
	}
	for len(which) > 0 && err == nil {
		n := min(len(which), MaxIDs)
		if f.Batch > 0 {
			n = min(n, f.Batch)
		}
		if f.JSON {
			err = f.json(ctx, name, which[:n], p)
		} else {
			err = f.raw(ctx, name, which[:n], p)
		}
		for _, i := range which[:n] {
			if f.Cache != nil && err == nil {
				f.ids = appendID(f.ids[:0], name, i)
				f.Cache.put(f.Client.ID.Client, f.ids, p.View(i))
			}
			d.Body.Tensors++
			d.Body.Bytes += len(p.View(i))
		}
		which = which[n:]
	}
	return d, err
}

// uncached copies the tensors that are in the cache to p, adds them to hit, and returns
// the indexes of the others.
func (f *Fetcher) uncached(name string, which []int, p *tensor.Package, hit *driver.Amount) (rest []int) {
	for _, i := range which {
		f.ids = appendID(f.ids[:0], name, i)
		if f.Cache.get(f.Client.ID.Client, f.ids, p.View(i)) {
			hit.Tensors++
			hit.Bytes += len(p.View(i))
		} else {
			rest = append(rest, i)
		}
	}
	return rest
}

func (f *Fetcher) ask(ctx context.Context, kind string, ids []byte, take func(*http.Response) error) error {
	return f.Client.Do(ctx, exchange.Request{Method: http.MethodPost, Path: "/v1/batch", Type: kind, Body: [][]byte{ids}, Calls: f.Calls}, take)
}

func (f *Fetcher) raw(ctx context.Context, name string, which []int, p *tensor.Package) error {
	f.ids = f.ids[:0]
	for _, i := range which {
		f.ids = append(appendID(f.ids, name, i), '\n')
	}
	return f.ask(ctx, exchange.TypeText, f.ids, func(r *http.Response) error {
		defer f.Client.Begin(phase.Read).End()
		if got := r.Header.Get(FieldCount); got != strconv.Itoa(len(which)) {
			return fmt.Errorf("%w: %.20q, must be %d", errCount, got, len(which))
		}
		table, err := exchange.ParseCount(r.Header.Get(FieldTable), uint64(r.ContentLength))
		if err != nil {
			return fmt.Errorf("%s: %w", FieldTable, err)
		}
		if err := f.Manifest.Read(r.Body, int(table), which, p, &f.got); err != nil {
			return err
		}
		return ReadTensors(r.Body, int(r.ContentLength-table), which, p, &f.got)
	})
}

var errCount = errors.New("wrong number of tensors")

func (f *Fetcher) json(ctx context.Context, name string, which []int, p *tensor.Package) error {
	size := 0
	var q batchRequest
	for _, i := range which {
		q.IDs = append(q.IDs, string(appendID(nil, name, i)))
		size += len(p.View(i))
	}
	ids, err := json.Marshal(q)
	if err != nil {
		return err
	}
	var text []byte
	err = f.ask(ctx, exchange.TypeJSON, ids, func(r *http.Response) (err error) {
		text, err = exchange.ReadBody(r, JSONLimit(len(which), size))
		return err
	})
	if err != nil {
		return err
	}
	defer f.Client.Begin(phase.Decode).End()
	var tensors []JSON
	if err := exchange.ParseJSON(text, &tensors); err != nil {
		return err
	}
	f.Copied.Add(size)
	return f.Manifest.FromJSON(p, which, tensors)
}
