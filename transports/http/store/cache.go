package store

import (
	"bytes"

	"ipcbench/phase"
)

// A Cache keeps the tensors that a worker fetched. If the same client asks for the
// same tensor again, it gets it without a request, also after the server has deleted
// it. The cache is bounded; the oldest tensors go first.
//
// Ids are never reused, so nothing in it is ever wrong: it only grows, if nobody
// drains it, and for models that are new every round it grows for nothing.
type Cache struct {
	limit, bytes int // that the tensors may cost, and do
	tensors      map[cacheKey][]byte
	order        []cacheKey     // of tensors, oldest first
	hits, size   *phase.Counter // size goes up and down with bytes
}

// A cacheKey says whose copy of which tensor it is.
type cacheKey struct {
	client int
	id     string
}

// entryBytes is what a tensor takes besides its id and data: one without elements
// is not free.
const entryBytes = 256

func (k cacheKey) cost(data []byte) int { return len(data) + len(k.id) + entryBytes }

// NewCache returns a cache of limit bytes.
func NewCache(limit int, rec *phase.Recorder) *Cache {
	return &Cache{limit: limit, tensors: map[cacheKey][]byte{}, hits: rec.Counter(phase.CacheHits), size: rec.Counter(phase.CacheBytes)}
}

// get copies a tensor to dst, and reports whether the cache has it.
func (c *Cache) get(client int, id []byte, dst []byte) bool {
	data, ok := c.tensors[cacheKey{client, string(id)}]
	if !ok || len(data) != len(dst) {
		return false
	}
	copy(dst, data)
	c.hits.Add(1)
	return true
}

// put keeps a copy of a tensor that was fetched.
func (c *Cache) put(client int, id []byte, data []byte) {
	k := cacheKey{client, string(id)}
	if _, ok := c.tensors[k]; ok || k.cost(data) > c.limit {
		return
	}
	for c.bytes+k.cost(data) > c.limit {
		oldest := c.order[0]
		c.grow(-oldest.cost(c.tensors[oldest]))
		delete(c.tensors, oldest)
		c.order = c.order[1:]
	}
	c.tensors[k], c.order = bytes.Clone(data), append(c.order, k)
	c.grow(k.cost(data))
}

func (c *Cache) grow(n int) {
	c.bytes += n
	c.size.Add(n)
}

// Drain forgets everything. A nil cache has nothing to forget.
func (c *Cache) Drain() {
	if c != nil {
		clear(c.tensors)
		c.order = nil
		c.grow(-c.bytes)
	}
}

// CacheStats say what a cache holds.
type CacheStats struct {
	Tensors int `json:"tensors"`
	Bytes   int `json:"bytes"`
}

// Stats returns what the cache holds. A nil cache holds nothing.
func (c *Cache) Stats() CacheStats {
	if c == nil {
		return CacheStats{}
	}
	return CacheStats{Tensors: len(c.tensors), Bytes: c.bytes}
}
