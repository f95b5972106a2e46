package store

import (
	"bytes"

	"ipcbench/phase"
)

// A Cache keeps copies of fetched tensors, separately for each client. If the client
// needs the same tensor again, there is no request, even if the server has deleted it.
// If the cache is full, the oldest tensors are dropped.
//
// Ids are never reused, so entries are never stale. With a new model in every round, the
// cache only fills up and never helps, unless it is drained.
type Cache struct {
	limit, bytes int // largest and current sum of the costs of tensors
	tensors      map[cacheKey][]byte
	order        []cacheKey     // keys of tensors, oldest first
	hits, size   *phase.Counter // size counts bytes up and down
}

// A cacheKey names a client's copy of a tensor.
type cacheKey struct {
	client int
	id     string
}

// entryBytes is the cost of an entry besides id and data: empty tensors are not free.
const entryBytes = 256

func (k cacheKey) cost(data []byte) int { return len(data) + len(k.id) + entryBytes }

// NewCache returns a cache of at most limit bytes. rec counts its hits and its size.
func NewCache(limit int, rec *phase.Recorder) *Cache {
	return &Cache{limit: limit, tensors: map[cacheKey][]byte{}, hits: rec.Counter(phase.CacheHits), size: rec.Counter(phase.CacheBytes)}
}

// get copies a cached tensor to dst. It returns false if there is none of that size.
func (c *Cache) get(client int, id []byte, dst []byte) bool {
	data, ok := c.tensors[cacheKey{client, string(id)}]
	if !ok || len(data) != len(dst) {
		return false
	}
	copy(dst, data)
	c.hits.Add(1)
	return true
}

// put stores a copy of a fetched tensor, unless it is larger than the whole cache.
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

// Drain empties the cache. It does nothing to a nil cache.
func (c *Cache) Drain() {
	if c != nil {
		clear(c.tensors)
		c.order = nil
		c.grow(-c.bytes)
	}
}

// CacheStats holds the number and the bytes of a cache's tensors.
type CacheStats struct {
	Tensors int `json:"tensors"`
	Bytes   int `json:"bytes"`
}

// Stats returns the cache's contents; zero for a nil cache.
func (c *Cache) Stats() CacheStats {
	if c == nil {
		return CacheStats{}
	}
	return CacheStats{Tensors: len(c.tensors), Bytes: c.bytes}
}
