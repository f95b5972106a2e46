package store

import (
	"bytes"
	"container/list"

	"ipcbench/phase"
)

// A Cache keeps the tensors that a worker fetched, so that the same client that
// asks for the same tensor again gets it without a request, also after the
// server has deleted it. It is bounded; the oldest tensors go first.
//
// Ids are never reused, so nothing in it is ever wrong: it only grows, if nobody
// drains it, and for models that are new every round it grows for nothing.
type Cache struct {
	limit   int // bytes
	bytes   int // that the entries cost
	entries map[cacheKey]*list.Element
	order   list.List // of *cached, oldest first
	hits    *phase.Counter
	size    *phase.Counter // goes up and down with bytes
}

// A cacheKey says whose copy of which tensor it is.
type cacheKey struct {
	client int
	id     string
}

type cached struct {
	key  cacheKey
	data []byte
}

// entryBytes is what an entry takes besides its id and data: a tensor without
// elements is not free.
const entryBytes = 256

func (t *cached) cost() int { return len(t.data) + len(t.key.id) + entryBytes }

// NewCache returns a cache of limit bytes.
func NewCache(limit int, rec *phase.Recorder) *Cache {
	return &Cache{
		limit: limit, entries: map[cacheKey]*list.Element{},
		hits: rec.Counter(phase.CacheHits), size: rec.Counter(phase.CacheBytes),
	}
}

// get copies a tensor to dst, and reports whether the cache has it.
func (c *Cache) get(client int, id []byte, dst []byte) bool {
	e, ok := c.entries[cacheKey{client, string(id)}]
	if !ok || len(e.Value.(*cached).data) != len(dst) {
		return false
	}
	copy(dst, e.Value.(*cached).data)
	c.hits.Add(1)
	return true
}

// put keeps a copy of a tensor that was fetched.
func (c *Cache) put(client int, id []byte, data []byte) {
	t := &cached{cacheKey{client, string(id)}, data}
	if _, ok := c.entries[t.key]; ok || t.cost() > c.limit {
		return
	}
	for c.bytes+t.cost() > c.limit {
		c.remove(c.order.Front())
	}
	t.data = bytes.Clone(data)
	c.entries[t.key] = c.order.PushBack(t)
	c.grow(t.cost())
}

func (c *Cache) remove(e *list.Element) {
	t := c.order.Remove(e).(*cached)
	delete(c.entries, t.key)
	c.grow(-t.cost())
}

func (c *Cache) grow(n int) {
	c.bytes += n
	c.size.Add(n)
}

// Drain forgets everything. A nil cache has nothing to forget.
func (c *Cache) Drain() {
	if c == nil {
		return
	}
	clear(c.entries)
	c.order.Init()
	c.grow(-c.bytes)
}

// Stats returns what the cache holds. A nil cache holds nothing.
func (c *Cache) Stats() CacheStats {
	if c == nil {
		return CacheStats{}
	}
	return CacheStats{Tensors: len(c.entries), Bytes: c.bytes}
}

// CacheStats say what a cache holds.
type CacheStats struct {
	Tensors int `json:"tensors"`
	Bytes   int `json:"bytes"`
}
