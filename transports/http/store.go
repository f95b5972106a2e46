package http

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"ipcbench/tensor"
	"ipcbench/transports/internal/slab"
)

// A store holds tensors by id: those that were put one by one, and the
// published model, whose tensors are named after it: model-7.0, model-7.1, ….
//
// What it hands out is never written to while its shard is live, and a reader
// that outlives a shard notices: see shard.live.
type store struct {
	room int         // bytes that put tensors may take
	own  string      // what the ids of the session's models start with
	pool *storedPool // where they lie if they can

	mu     sync.RWMutex
	single map[string]*single // guarded by mu
	count  int                // guarded by mu: of single tensors, and of those being received
	bytes  int                // guarded by mu: of the same
	model  *modelSet          // guarded by mu; nil before the first Publish
}

// A single is a tensor that was put.
type single struct {
	kind   kind
	entry  []byte // of a table
	data   []byte
	pool   *slab.Pool  // nil if data is on the heap
	handle slab.Handle // in pool
	why    string      // data is on the heap although there is a pool, or could be one
}

// drop gives the memory up: at once, or when the last reader is done.
func (t *single) drop() {
	if t.pool != nil {
		if err := t.pool.Release(t.handle); err != nil {
			panic(err) // nobody else releases it
		}
	}
}

// A modelSet is one published model. It retires before its memory is written to
// again.
type modelSet struct {
	name    string
	p       *tensor.Package
	table   table
	retired atomic.Bool

	pool *poolRef // where some or all of the tensors lie; nil without shared memory
	runs []run    // which, and where in the pool
}

// A shard is a tensor as a reader gets it. The reader ends with done.
type shard struct {
	entry  []byte
	data   []byte
	set    *modelSet  // of which it is a part; nil for a single tensor
	pool   *slab.Pool // in which the tensor is pinned, or nil
	handle slab.Handle
}

// live reports whether the bytes that were read so far are the shard's: its
// memory was not reused in the meantime.
func (s shard) live() bool { return s.set == nil || !s.set.retired.Load() }

func (s shard) done() {
	if s.pool != nil {
		_ = s.pool.Unpin(s.handle) // what can go wrong is the unmapping of memory
	}
}

func newStore(room int, own string, pool *storedPool) *store {
	return &store{room: room, own: own, pool: pool, single: map[string]*single{}}
}

// Errors of the store that have a status code of their own.
var (
	errUnknown = errors.New("no such tensor")
	errNoRoom  = errors.New("the store is full")
	errSession = errors.New("the tensors of models belong to the session")
)

// find returns the tensor called id. The error is errUnknown if there is none.
func (s *store) find(id []byte) (shard, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if i, ok := s.inModel(id); ok {
		return shard{entry: s.model.table.part(i, i+1), data: s.model.p.View(i), set: s.model}, nil
	}
	t, ok := s.single[string(id)]
	if !ok {
		return shard{}, errUnknown
	}
	if t.pool == nil {
		return shard{entry: t.entry, data: t.data}, nil
	}
	data, err := t.pool.Pin(t.handle)
	return shard{entry: t.entry, data: data, pool: t.pool, handle: t.handle}, err
}

// checkPut refuses an id that belongs to a model of the session, past or future.
func (s *store) checkPut(id string) error {
	if strings.HasPrefix(id, s.own) {
		return errSession
	}
	return nil
}

// inModel returns which tensor of the published model id names. s.mu is held.
func (s *store) inModel(id []byte) (i int, ok bool) {
	if s.model == nil {
		return 0, false
	}
	digits, ok := bytes.CutPrefix(id, []byte(s.model.name))
	if !ok || len(digits) < 2 || len(digits) > 10 || digits[0] != '.' || digits[1] == '0' && len(digits) > 2 {
		return 0, false
	}
	for _, c := range digits[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = 10*i + int(c-'0')
	}
	return i, i < s.model.p.Len()
}

// reserve takes room for a tensor of n bytes. It is given back with unreserve,
// unless the tensor is put.
func (s *store) reserve(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.room-s.bytes || s.count == maxIDs {
		return fmt.Errorf("%w: it holds %d tensors and %d bytes, the limits are %d and %d; %d bytes more were asked for",
			errNoRoom, s.count, s.bytes, maxIDs, s.room, n)
	}
	s.take(1, n)
	return nil
}

func (s *store) unreserve(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(-1, -n)
}

// take counts room that is taken, or given back. s.mu is held.
func (s *store) take(tensors, bytes int) {
	s.count += tensors
	s.bytes += bytes
}

// put makes a tensor visible whose room was reserved and whose bytes are all
// there, under an id that checkPut allows. It reports whether the id is new.
func (s *store) put(id string, t *single) (created bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, replaced := s.single[id]
	if replaced {
		s.take(-1, -len(before.data))
		before.drop()
	}
	s.single[id] = t
	return !replaced
}

// remove deletes tensors that were put, and returns how many of the ids there
// were. If one of them belongs to the model nothing is deleted.
func (s *store) remove(ids ...[]byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if _, ok := s.inModel(id); ok {
			return 0, errSession
		}
	}
	for _, id := range ids {
		if t, ok := s.single[string(id)]; ok {
			delete(s.single, string(id))
			s.take(-1, -len(t.data))
			t.drop()
			n++
		}
	}
	return n, nil
}

// publish makes m the model, and the one before unknown.
func (s *store) publish(m *modelSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.model != nil {
		s.model.retired.Store(true)
	}
	s.model = m
}

// current returns the published model.
func (s *store) current() (*modelSet, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.model == nil {
		return nil, errors.New("no model was published")
	}
	return s.model, nil
}

// close forgets everything. No request is being served any more.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.single {
		t.drop()
	}
	clear(s.single)
	s.count, s.bytes, s.model = 0, 0, nil
}

// held returns how many tensors were put and are still there, and their bytes.
func (s *store) held() (tensors, bytes int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.single), s.bytes
}
