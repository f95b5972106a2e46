// Package store stores tensors by id on a server, and serves them over HTTP. Clients put
// single tensors. The server publishes models, whose tensors have ids such as model-7.0
// and model-7.1.
//
// [Store] is the server's end, and [Fetcher] is the client's. The fetcher sends ids. The
// answer is a manifest and the tensors' bytes, sent from and received into their final
// memory; or base64 in JSON, if the request was in JSON.
//
// If the store has a slab of shared memory, a tensor that is put is stored there. The
// answer gives its location, so that processes that share memory with the server can
// read it. Tensors that the slab cannot hold are on the heap.
//
// A tensor's memory is not written to while the tensor can be found. A reader that is
// still reading when a model is replaced notices it: see lease.live.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ipcbench/tensor"
	"ipcbench/tensor/pages"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/internal/slab"
)

// Options of a store. Answer, Model and Prefix are required.
type Options struct {
	Room   int      // most bytes of all tensors that are put
	Answer int      // most bytes of tensors in one answer
	Model  Manifest // of all published models
	Prefix string   // of the ids of all models, past and future; clients cannot put such ids

	Slab     string // path of the slab, created with the first tensor that is put; empty for none
	SlabSize int
	Reason   string // reported as fallback of tensors that are put, if Slab is empty
}

// A Store holds tensors by id. Its methods may be called concurrently.
type Store struct {
	o       Options
	scratch sync.Pool // *scratchpad

	mu     sync.RWMutex
	put    map[string]*stored // guarded by mu: by id
	count  int                // guarded by mu: number of tensors that were put or are being received
	bytes  int                // guarded by mu: bytes of the same tensors
	models []*published       // guarded by mu: the newest is last

	making sync.Mutex // held while the slab is created; separate, so that other requests need not wait
	pool   *slab.Pool // guarded by making; nil until it is made
	ref    *SlabRef   // reference to pool, set with it
}

// A stored is a tensor that was put.
type stored struct {
	meta   Meta
	data   []byte
	pool   *slab.Pool  // nil if data is on the heap
	handle slab.Handle // location in pool
	reason string      // why data is on the heap and not in a slab; may be empty
}

// drop gives up the tensor's memory, now or when its last reader is done.
func (t *stored) drop() {
	if t.pool != nil {
		if err := t.pool.Release(t.handle); err != nil {
			panic(err) // released only once, here
		}
	}
}

// A published is a model. It is retired before its memory is overwritten.
type published struct {
	name     string
	p        *tensor.Package
	manifest Manifest
	retired  atomic.Bool
}

// A lease is a reader's access to a tensor. The reader must call done.
type lease struct {
	stored            // pinned in its pool, if it is in one
	model  *published // model that it belongs to; nil if it was put
}

// live returns an error unless the bytes read so far are the tensor's: its memory has not
// been reused.
func (l lease) live() error {
	if l.model != nil && l.model.retired.Load() {
		return errors.New("the model was replaced while it was being read")
	}
	return nil
}

func (l lease) done() {
	if l.pool != nil {
		_ = l.pool.Unpin(l.handle) // only unmapping can fail
	}
}

// New returns an empty store. It must be closed.
func New(o Options) *Store {
	return &Store{o: o, put: map[string]*stored{}, scratch: sync.Pool{New: func() any { return &scratchpad{} }}}
}

var (
	errUnknown error = exchange.StatusError{Code: http.StatusNotFound, Err: errors.New("no such tensor")}
	errSession error = exchange.StatusError{
		Code: http.StatusConflict, Err: errors.New("the tensors of models belong to the session"),
	}
)

// find leases the tensor with the given id. If plain is set, a tensor of an encoded model
// is decoded. The error is errUnknown if there is no such tensor.
func (s *Store) find(id []byte, plain bool) (lease, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m, i := s.inModel(id); m != nil {
		if p := m.p.Plain; plain && p != nil { // set again once the model has retired
			return lease{stored{meta: metaOf(p, i), data: p.View(i)}, m}, nil
		}
		return lease{stored{meta: m.manifest.metas[i], data: m.p.View(i)}, m}, nil
	}
	t, ok := s.put[string(id)]
	if !ok {
		return lease{}, errUnknown
	}
	l := lease{stored: *t}
	var err error
	if t.pool != nil {
		l.data, err = t.pool.Pin(t.handle)
	}
	return l, err
}

// inModel returns the published model of id, and the tensor's index, or nil. s.mu must
// be held.
func (s *Store) inModel(id []byte) (*published, int) {
	for _, m := range s.models {
		if i, ok := m.tensor(id); ok {
			return m, i
		}
	}
	return nil, 0
}

// tensor returns the index of the tensor that id names, and false if it is not in m.
func (m *published) tensor(id []byte) (i int, ok bool) {
	digits, ok := bytes.CutPrefix(id, []byte(m.name))
	if !ok || len(digits) < 2 || len(digits) > 10 || digits[0] != '.' || digits[1] == '0' && len(digits) > 2 {
		return 0, false
	}
	for _, c := range digits[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = 10*i + int(c-'0')
	}
	return i, i < m.p.Len()
}

// reserve reserves room for n bytes.
func (s *Store) reserve(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.o.Room-s.bytes || s.count == MaxIDs {
		return exchange.Refuse(http.StatusInsufficientStorage,
			"the store is full: it holds %d tensors and %d bytes, its limits are %d and %d, and %d more bytes were requested",
			s.count, s.bytes, MaxIDs, s.o.Room, n)
	}
	s.count++
	s.bytes += n
	return nil
}

// memory allocates a tensor in the slab. If the slab cannot hold it, t.reason tells why,
// and t.data is nil.
func (s *Store) memory(m Meta) (t *stored, err error) {
	t = &stored{meta: m}
	if s.o.Slab == "" {
		t.reason = s.o.Reason
		return t, nil
	}
	if _, ok := m.known(); !ok {
		t.reason = DType
		return t, nil
	}
	pool, err := s.slab()
	if err == nil {
		t.handle, t.data, err = pool.Reserve(m.Size)
		t.pool = pool
	}
	var full *slab.FullError
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) || errors.As(err, &full) {
		return &stored{meta: m, reason: Full}, nil
	}
	return t, err
}

// slab returns the pool, which it creates the first time.
func (s *Store) slab() (*slab.Pool, error) {
	s.making.Lock()
	defer s.making.Unlock()
	if s.pool == nil {
		pool, n, err := slab.CreatePool(s.o.Slab, s.o.SlabSize, pages.System) // none of the session's tensors are in it
		if err != nil {
			return nil, fmt.Errorf("slab of stored tensors: %w", err)
		}
		s.pool, s.ref = pool, NewSlabRef(s.o.Slab, n)
	}
	return s.pool, nil
}

// add makes a tensor visible, whose room is reserved and whose bytes are complete. It
// reports whether the id is new.
func (s *Store) add(id string, t *stored) (created bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	created = !s.delete(id)
	s.put[id] = t
	return created
}

// delete removes a tensor that was put, and reports whether there was one. s.mu must be
// held.
func (s *Store) delete(id string) bool {
	t, ok := s.put[id]
	if ok {
		delete(s.put, id)
		s.count--
		s.bytes -= len(t.data)
		t.drop()
	}
	return ok
}

// remove deletes tensors that were put, and returns how many existed. If an id belongs
// to a model, it fails and deletes nothing.
func (s *Store) remove(ids ...[]byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if m, _ := s.inModel(id); m != nil {
			return 0, errSession
		}
	}
	for _, id := range ids {
		if s.delete(string(id)) {
			n++
		}
	}
	return n, nil
}

// Publish serves p under ids that begin with name, until [Store.Retire]. The caller must
// not write to p meanwhile.
func (s *Store) Publish(name string, p *tensor.Package) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = append(s.models, &published{name: name, p: p, manifest: s.o.Model.Of(p)})
}

// Retire stops serving the model p, if it is published. The caller may then overwrite
// its memory, although readers may still read it: they notice.
func (s *Store) Retire(p *tensor.Package) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = slices.DeleteFunc(s.models, func(m *published) bool {
		if m.p == p {
			m.retired.Store(true)
		}
		return m.p == p
	})
}

// Close removes all tensors and the slab. No request may be in progress.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.put {
		s.delete(id)
	}
	s.models = nil
	s.making.Lock()
	defer s.making.Unlock()
	if s.pool == nil {
		return nil
	}
	return s.pool.Close()
}

// Stats are the contents of a store.
type Stats struct {
	Tensors  int    `json:"tensors"` // tensors that were put
	Bytes    int    `json:"bytes"`   // bytes of those that were put
	Capacity int    `json:"capacity"`
	Model    string `json:"model,omitempty"` // newest model; ids of its tensors are MODEL.0, MODEL.1, …
	Count    int    `json:"model_tensors"`
}

// Stats returns the store's contents.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	a := Stats{Tensors: len(s.put), Bytes: s.bytes, Capacity: s.o.Room}
	if n := len(s.models); n > 0 {
		a.Model, a.Count = s.models[n-1].name, s.models[n-1].p.Len()
	}
	return a
}
