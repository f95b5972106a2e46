package batched

import "sync"

// frameSize is the payload of the largest HTTP/2 frame that gRPC sends or accepts.
const frameSize = 16 << 10

// A framePool recycles buffers of one HTTP/2 frame. gRPC's own pools clear each buffer
// and lose all of them in a garbage collection. This one hands out the buffer returned
// last, still in the processor's cache, and never frees any. It implements mem.BufferPool.
type framePool struct {
	mu   sync.Mutex
	idle []*[]byte // guarded by mu
}

// Get returns a buffer of n bytes with undefined contents.
func (p *framePool) Get(n int) *[]byte {
	if n > frameSize {
		b := make([]byte, n)
		return &b
	}
	p.mu.Lock()
	last := len(p.idle) - 1
	if last < 0 {
		p.mu.Unlock()
		b := make([]byte, n, frameSize)
		return &b
	}
	b := p.idle[last]
	p.idle = p.idle[:last]
	p.mu.Unlock()
	*b = (*b)[:n]
	return b
}

// Put returns a buffer to the pool.
func (p *framePool) Put(b *[]byte) {
	if cap(*b) != frameSize {
		return // larger than a frame, or grown: rare
	}
	p.mu.Lock()
	p.idle = append(p.idle, b)
	p.mu.Unlock()
}
