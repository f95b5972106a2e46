package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"ipcbench/phase"
	"ipcbench/tensor"
)

// A fetcher brings tensors of a model from the server's store to their places.
type fetcher struct {
	client  *client
	request request
	batch   int // tensors a request, 0 is all
	json    bool
	table   table
	cache   *cache // nil if it is off

	tensors, bytes, copied *phase.Counter

	ids, want, got []byte // scratch: a request's body, the table that must come and the one that came
}

// appendID appends the id of tensor i of the model called name.
func appendID(b []byte, name string, i int) []byte {
	b = append(b, name...)
	b = append(b, '.')
	return strconv.AppendInt(b, int64(i), 10)
}

// fetch brings the tensors in which, in their order, to p.
func (f *fetcher) fetch(ctx context.Context, name string, which []int, p *tensor.Package) error {
	if f.cache != nil {
		which = f.uncached(name, which, p)
	}
	for len(which) > 0 {
		n := len(which)
		if f.batch > 0 {
			n = min(n, f.batch)
		}
		n = min(n, maxIDs)
		if err := f.some(ctx, name, which[:n], p); err != nil {
			return err
		}
		which = which[n:]
	}
	return nil
}

// uncached takes what the cache has from there, and returns the rest.
func (f *fetcher) uncached(name string, which []int, p *tensor.Package) (rest []int) {
	for _, i := range which {
		f.ids = appendID(f.ids[:0], name, i)
		if !f.cache.get(f.client.id.Client, f.ids, p.View(i)) {
			rest = append(rest, i)
		}
	}
	return rest
}

// some makes one request.
func (f *fetcher) some(ctx context.Context, name string, which []int, p *tensor.Package) (err error) {
	if f.json {
		err = f.someJSON(ctx, name, which, p)
	} else {
		err = f.someRaw(ctx, name, which, p)
	}
	if err != nil {
		return err
	}
	size := 0
	for _, i := range which {
		size += len(p.View(i))
		if f.cache != nil {
			f.ids = appendID(f.ids[:0], name, i)
			f.cache.put(f.client.id.Client, f.ids, p.View(i))
		}
	}
	f.tensors.Add(len(which))
	f.bytes.Add(size)
	return nil
}

func (f *fetcher) someRaw(ctx context.Context, name string, which []int, p *tensor.Package) error {
	f.ids, f.want = f.ids[:0], f.want[:0]
	size := 0
	for _, i := range which {
		f.ids = append(appendID(f.ids, name, i), '\n')
		f.want = append(f.want, f.table.part(i, i+1)...)
		size += len(p.View(i))
	}
	q := f.request
	q.kind, q.body = typeText, [][]byte{f.ids}
	return f.client.do(ctx, q, func(r *http.Response) error {
		span := f.client.rec.Begin(phase.Read, f.client.id)
		defer span.End()
		if err := f.readTable(r, len(which), size); err != nil {
			return err
		}
		for _, i := range which {
			if _, err := io.ReadFull(r.Body, p.View(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// readTable reads the table of n tensors, and makes sure that it is the one that
// was asked for and that the tensors follow in full.
func (f *fetcher) readTable(r *http.Response, n, size int) error {
	if got := r.Header.Get(fieldCount); got != strconv.Itoa(n) {
		return fmt.Errorf("%w: %.20q, want %d", errCount, got, n)
	}
	length, err := parseCount(r.Header.Get(fieldTable), uint64(r.ContentLength))
	if err != nil {
		return fmt.Errorf("%s: %w", fieldTable, err)
	}
	f.got = resize(f.got, min(int(length), len(f.want)+1)) // one byte too many is a difference, too
	if _, err := io.ReadFull(r.Body, f.got); err != nil {
		return err
	}
	if err := matchTable(f.got, f.want); err != nil {
		return err
	}
	if r.ContentLength != length+int64(size) {
		return fmt.Errorf("answer of %d bytes, want a table of %d and tensors of %d", r.ContentLength, length, size)
	}
	return nil
}

func (f *fetcher) someJSON(ctx context.Context, name string, which []int, p *tensor.Package) error {
	ask, size := batchRequest{}, 0
	for _, i := range which {
		ask.IDs = append(ask.IDs, string(appendID(nil, name, i)))
		size += len(p.View(i))
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	q := f.request
	q.kind, q.body = typeJSON, [][]byte{body}
	var text []byte
	err = f.client.do(ctx, q, func(r *http.Response) (err error) {
		text, err = readBody(r, jsonLimit(len(which), size))
		return err
	})
	if err != nil {
		return err
	}
	span := f.client.rec.Begin(phase.Decode, f.client.id)
	defer span.End()
	var tensors []jsonTensor
	if err := parseJSON(text, &tensors); err != nil {
		return err
	}
	if len(tensors) != len(which) {
		return fmt.Errorf("%w: %d, want %d", errCount, len(tensors), len(which))
	}
	for n, i := range which {
		if err := unpackJSON(p, i, tensors[n:n+1]); err != nil {
			return err
		}
	}
	f.copied.Add(size)
	return nil
}

var errCount = errors.New("the answer has another number of tensors than the request")
