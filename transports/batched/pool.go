package batched

import "sync"

// frameSize is the largest HTTP/2 frame that gRPC sends or takes.
const frameSize = 16 << 10

// A framePool recycles buffers of one HTTP/2 frame. gRPC's own pools clear what
// they hand out and lose everything at a garbage collection; here the buffer
// that was given back last goes out first, warm in the cache, and as many are
// kept as were ever out at once. It implements mem.BufferPool.
type framePool struct {
	mu   sync.Mutex
	idle []*[]byte // guarded by mu
}

// Get returns a buffer whose contents are undefined.
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

// Put takes a buffer back.
func (p *framePool) Put(b *[]byte) {
	if cap(*b) != frameSize {
		return // larger than a frame, or grown: rare
	}
	p.mu.Lock()
	p.idle = append(p.idle, b)
	p.mu.Unlock()
}
