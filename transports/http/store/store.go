// Package store keeps tensors by id and serves them over HTTP: those that were
// put one by one, and a model that its owner publishes, whose tensors are named
// after it: model-7.0, model-7.1, ….
//
// [Store] is the server's end, [Fetcher] the other one. Between them go ids and,
// in return, a manifest and the tensors' bytes, from where they lie and into
// their places; or, for those who ask in JSON, base64 in JSON.
//
// A tensor that is put lies in a slab of shared memory, if the store has one, and
// the answer says where: whoever shares memory with the server can read it there.
// What the slab cannot hold lies on the heap.
//
// What the store hands out is never written to while it is live, and a reader
// that outlives it notices: see lease.live.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ipcbench/tensor"
	"ipcbench/transports/internal/slab"
)

// Options of a store.
type Options struct {
	Room   int      // bytes that tensors which are put may take
	Answer int      // bytes that one answer may have at most
	Model  Manifest // of every model that is published
	Prefix string   // of the ids of all models, past and future: nobody can put such an id

	Slab     string // the path of the slab, which is made when the first tensor is put; empty for none
	SlabSize int
	Reason   string // why there is no slab, if somebody expects one
}

// A Store holds tensors by id.
type Store struct {
	o       Options
	scratch sync.Pool // of *scratchpad

	mu     sync.RWMutex
	put    map[string]*stored // guarded by mu
	count  int                // guarded by mu: tensors that were put, and those being received
	bytes  int                // guarded by mu: of the same
	models []*published       // guarded by mu: the last one is the newest

	making sync.Mutex // held while the slab is made: a request for another tensor does not wait for it
	pool   *slab.Pool // guarded by making; nil until it is made
	ref    *SlabRef   // of pool, and set with it
}

// A stored tensor was put.
type stored struct {
	meta   Meta
	data   []byte
	pool   *slab.Pool  // nil if data is on the heap
	handle slab.Handle // in pool
	reason string      // why data is on the heap although somebody expects it in a slab
}

// drop gives the memory up: at once, or when the last reader is done.
func (t *stored) drop() {
	if t.pool != nil {
		if err := t.pool.Release(t.handle); err != nil {
			panic(err) // nobody else releases it
		}
	}
}

// A published model retires before its memory is written to again.
type published struct {
	name     string
	p        *tensor.Package
	manifest Manifest
	retired  atomic.Bool
}

// A lease is a tensor as a reader gets it. The reader ends with done.
type lease struct {
	stored            // pinned in its pool, if it lies in one
	model  *published // the model that it is a part of; nil if a client put it
}

// live reports whether the bytes that were read so far are the tensor's: its
// memory was not reused in the meantime.
func (l lease) live() bool { return l.model == nil || !l.model.retired.Load() }

func (l lease) done() {
	if l.pool != nil {
		_ = l.pool.Unpin(l.handle) // what can go wrong is the unmapping of memory
	}
}

// New returns an empty store.
func New(o Options) *Store {
	return &Store{o: o, put: map[string]*stored{}, scratch: sync.Pool{New: func() any { return &scratchpad{} }}}
}

// Errors of the store that have a status code of their own.
var (
	errUnknown = errors.New("no such tensor")
	errNoRoom  = errors.New("the store is full")
	errSession = errors.New("the tensors of models belong to the session")
)

// find returns the tensor called id. The error is errUnknown if there is none.
func (s *Store) find(id []byte) (lease, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m, i := s.inModel(id); m != nil {
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

// decoded returns the tensor called id as it is for who cannot decode: of a model that
// is encoded, what that decodes to.
func (s *Store) decoded(id []byte) (lease, error) {
	l, err := s.find(id)
	if err != nil || l.model == nil || l.model.p.Plain == nil {
		return l, err
	}
	i, _ := l.model.tensor(id)
	p := l.model.p.Plain
	l.data, l.meta = p.View(i), metaOf(p.Layout().Spec(i), len(p.View(i)))
	if p.Layout().Spec(i).Var {
		l.meta.Shape[0] = p.Rows(i)
	}
	return l, nil
}

// inModel returns which tensor of which published model id names, if it does. s.mu is
// held.
func (s *Store) inModel(id []byte) (*published, int) {
	for _, m := range s.models {
		if i, ok := m.tensor(id); ok {
			return m, i
		}
	}
	return nil, 0
}

// tensor returns which tensor of m id names.
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

// reserve takes room for a tensor of n bytes, under an id that does not belong to
// a model. It is given back with unreserve, unless the tensor is added.
func (s *Store) reserve(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.o.Room-s.bytes || s.count == MaxIDs {
		return fmt.Errorf("%w: it holds %d tensors and %d bytes, the limits are %d and %d; %d bytes more were asked for",
			errNoRoom, s.count, s.bytes, MaxIDs, s.o.Room, n)
	}
	s.count++
	s.bytes += n
	return nil
}

// unreserve gives back what a tensor of n bytes takes.
func (s *Store) unreserve(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	s.bytes -= n
}

// memory returns n bytes for a tensor: in the slab, or on the heap with the
// reason. What is on the heap has no data yet.
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

// slab returns the pool, which it makes first if need be.
func (s *Store) slab() (*slab.Pool, error) {
	s.making.Lock()
	defer s.making.Unlock()
	if s.pool == nil {
		pool, n, err := slab.CreatePool(s.o.Slab, s.o.SlabSize)
		if err != nil {
			return nil, fmt.Errorf("slab of stored tensors: %w", err)
		}
		s.pool, s.ref = pool, NewSlabRef(s.o.Slab, n)
	}
	return s.pool, nil
}

// add makes a tensor visible whose room was reserved and whose bytes are all
// there. It reports whether the id is new.
func (s *Store) add(id string, t *stored) (created bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	created = !s.delete(id)
	s.put[id] = t
	return created
}

// delete forgets a tensor that was put, and reports whether there is one. s.mu is
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

// remove deletes tensors that were put, and returns how many of the ids there
// were. If one of them belongs to the model nothing is deleted.
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

// owns reports whether id belongs to a model, a past or a future one.
func (s *Store) owns(id string) bool { return strings.HasPrefix(id, s.o.Prefix) }

// Publish makes p a model of the store.
func (s *Store) Publish(name string, p *tensor.Package) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = append(s.models, &published{name: name, p: p, manifest: s.o.Model.Of(p)})
}

// Retire makes the model p unknown, if it was published: its memory may be written to
// again.
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

// Close forgets everything. No request is being served any more.
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

// Stats say what a store holds.
type Stats struct {
	Tensors  int    `json:"tensors"` // that were put
	Bytes    int    `json:"bytes"`   // of these
	Capacity int    `json:"capacity"`
	Model    string `json:"model,omitempty"` // the newest: the ids of its tensors are this, a dot, and 0, 1, …
	Count    int    `json:"model_tensors"`
}

// Stats returns what the store holds.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	a := Stats{Tensors: len(s.put), Bytes: s.bytes, Capacity: s.o.Room}
	if n := len(s.models); n > 0 {
		a.Model, a.Count = s.models[n-1].name, s.models[n-1].p.Len()
	}
	return a
}
