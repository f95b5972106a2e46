package slab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"ipcbench/internal/crash"
)

// A Pool allocates blocks in a Memory, which it owns. Several goroutines may use it. Its
// lock is never held while a block's bytes are read or written.
//
// A block is in flight from Reserve to Publish, live from Publish to Release, and then
// gone. Pins delay that: a block released while pinned keeps its place until the last
// Unpin. When no blocks are left, allocation starts at zero again, so a pool needs no
// reset.
type Pool struct {
	mem     *Memory
	changed func() // set by tests, to check all blocks after each change; nil otherwise

	mu         sync.Mutex // guards what follows
	blocks     []block    // records, used or spare; a handle's Index is an index of this slice
	spare      int32      // first record of the spare list, or none
	first      int32      // block at the lowest address, or none
	after      int32      // block below the pointer, or none
	pointer    int        // offset for the next block, if it fits there
	generation uint64
	used       int  // bytes of all blocks, padding included
	closed     bool // only Release and Unpin are possible
}

type block struct {
	offset, extent int // of the space used, with stamp and padding
	length         int // the n of Reserve
	generation     uint64
	state          state
	pins           int   // number of Pins without Unpin
	below, above   int32 // neighbours by address; above also links the spare list
}

type state uint8

const (
	spare state = iota
	inFlight
	live
	doomed // released while pinned
)

const none = -1

// newPool returns a pool in mem and takes ownership of mem. Each published block has a
// stamp before it: 64 bytes with its generation, from which a [Reader] in another process
// recognizes a stale handle.
func newPool(mem *Memory) *Pool {
	// Generations start at a random number, so that a tensor's bytes cannot be mistaken
	// for a stamp, as small numbers could for a small counter.
	return &Pool{mem: mem, spare: none, first: none, after: none, generation: rand.Uint64() >> 1}
}

// capacity returns the number of bytes for blocks.
func (p *Pool) capacity() int { return p.mem.Len() &^ (Align - 1) }

// Extent returns the bytes of a pool that a block of n bytes uses, with stamp and padding.
// ok is false if no pool could hold it.
func Extent(n int) (int, bool) {
	n, ok := place(n)
	return n + stampSize, ok
}

// place returns n rounded up to a multiple of Align, and at least Align, so that empty
// blocks have distinct places too. It returns false if no memory could hold n bytes.
func place(n int) (int, bool) {
	const most = int(^uint(0)>>1) - stampSize - Align
	if n < 0 || n > most {
		return 0, false
	}
	return max(n+Align-1, Align) &^ (Align - 1), true
}

// Reserve allocates a block of n bytes for the caller to write. Readers cannot see it until
// Publish. It never waits: if there is no room, the error is a *FullError. The block must
// be released.
func (p *Pool) Reserve(n int) (Handle, []byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Handle{}, nil, fmt.Errorf("slab: reserve %d bytes: %w", n, ErrClosed)
	}
	extent, ok := Extent(n)
	if !ok {
		extent = n
	}
	at, after, found := 0, int32(none), false
	if ok {
		at, after, found = p.find(extent)
	}
	if !found {
		return Handle{}, nil, &FullError{Need: extent, Used: p.used, Capacity: p.capacity()}
	}
	p.generation++
	i := p.insert(block{offset: at, extent: extent, length: n, generation: p.generation, state: inFlight}, after)
	p.pointer, p.after = at+extent, i
	p.used += extent
	p.mem.Keep()
	p.check(i)
	p.notify()
	if err := p.stamp(i, 0); err != nil { // readers of an earlier block here must notice before it is overwritten
		p.remove(i)
		return Handle{}, nil, errors.Join(fmt.Errorf("slab: reserve %d bytes: %w", n, err), p.mem.Close())
	}
	return p.handle(i), p.bytes(i), nil
}

// find looks for a gap of extent bytes: at the pointer, then upwards from there past the
// blocks in the way, once around. If blocks are released in the order of their
// allocation, as in rounds, a block in the way means that the pool is full.
func (p *Pool) find(extent int) (at int, after int32, ok bool) {
	at, after = p.pointer, p.after
	for wrapped := false; ; {
		next, end := p.next(after), p.capacity()
		if next != none {
			end = p.blocks[next].offset
		}
		switch {
		case end-at >= extent:
			return at, after, true
		case next != none:
			at, after = p.blocks[next].offset+p.blocks[next].extent, next
		case !wrapped:
			at, after, wrapped = 0, none, true
		default:
			return 0, none, false
		}
	}
}

// next returns the block above i, or the first one if i is none.
func (p *Pool) next(i int32) int32 {
	if i == none {
		return p.first
	}
	return p.blocks[i].above
}

// insert records b as the block above block after, and returns its index.
func (p *Pool) insert(b block, after int32) int32 {
	i := p.spare
	if i == none {
		i = int32(len(p.blocks))
		p.blocks = append(p.blocks, block{})
	} else {
		p.spare = p.blocks[i].above
	}
	b.below, b.above = after, p.next(after)
	p.blocks[i] = b
	if b.above != none {
		p.blocks[b.above].below = i
	}
	if after == none {
		p.first = i
	} else {
		p.blocks[after].above = i
	}
	return i
}

// remove frees the space and the record of block i.
func (p *Pool) remove(i int32) {
	b := &p.blocks[i]
	if b.above != none {
		p.blocks[b.above].below = b.below
	}
	if b.below == none {
		p.first = b.above
	} else {
		p.blocks[b.below].above = b.above
	}
	if p.after == i {
		p.after = b.below
	}
	p.used -= b.extent
	*b = block{above: p.spare}
	p.spare = i
	if p.first == none { // reuse memory that is likely in the cache
		p.pointer, p.after = 0, none
	}
	p.notify()
}

func (p *Pool) notify() {
	if p.changed != nil {
		p.changed()
	}
}

func (p *Pool) handle(i int32) Handle {
	b := &p.blocks[i]
	return Handle{Offset: uint64(p.start(b)), Length: uint64(b.length), Generation: b.generation, Index: uint32(i)}
}

func (p *Pool) start(b *block) int { return b.offset + stampSize }

func (p *Pool) bytes(i int32) []byte {
	b := &p.blocks[i]
	at := p.start(b)
	return p.mem.bytes[at : at+b.length : at+b.length]
}

// stamp writes generation to the stamp of block i. It fails if the file was truncated.
func (p *Pool) stamp(i int32, generation uint64) error {
	return crash.Guard(func() error {
		stampAt(p.mem.bytes, p.blocks[i].offset).Store(generation)
		return nil
	})
}

// lookup returns the index of the block that h names, unless it was released.
func (p *Pool) lookup(h Handle) (int32, error) {
	if uint64(h.Index) >= uint64(len(p.blocks)) || h.Generation == 0 || h.Generation > p.generation {
		return none, ErrUnknown
	}
	i := int32(h.Index)
	b := &p.blocks[i]
	switch {
	case b.generation != h.Generation || b.state == doomed:
		return none, ErrStale
	case h != p.handle(i):
		return none, fmt.Errorf("handle to %d bytes at %d, the block has %d at %d: %w",
			h.Length, h.Offset, b.length, p.start(b), ErrLength)
	}
	return i, nil
}

// Publish makes a reserved block visible to Pin and to Readers. The caller must have
// written every byte, and must not write again.
func (p *Pool) Publish(h Handle) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, err := p.lookup(h)
	switch {
	case err != nil:
	case p.closed:
		err = ErrClosed
	case p.blocks[i].state != inFlight:
		err = fmt.Errorf("block was published before")
	default:
		err = p.stamp(i, h.Generation)
	}
	if err != nil {
		return fmt.Errorf("slab: publish: %w", err)
	}
	p.blocks[i].state = live
	return nil
}

// Release gives a block back, in flight or live. If the block is pinned, its space becomes
// free with the last Unpin.
func (p *Pool) Release(h Handle) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, err := p.lookup(h)
	if err != nil {
		return fmt.Errorf("slab: release: %w", err)
	}
	err = p.stamp(i, 0)
	p.blocks[i].state = doomed
	if err = errors.Join(err, p.freeIfUnused(i)); err != nil {
		return fmt.Errorf("slab: release: %w", err)
	}
	return nil
}

// freeIfUnused frees block i if it is released and not pinned.
func (p *Pool) freeIfUnused(i int32) error {
	if b := &p.blocks[i]; b.state != doomed || b.pins > 0 {
		return nil
	}
	p.remove(i)
	return p.mem.Close()
}

// Pin returns the bytes of a live block, not a copy. They stay valid and unchanged until
// Unpin, even if the block is released and the pool closed.
func (p *Pool) Pin(h Handle) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, err := p.lookup(h)
	switch {
	case err != nil:
	case p.closed:
		err = ErrClosed
	case p.blocks[i].state == inFlight:
		err = ErrInFlight
	}
	if err != nil {
		return nil, fmt.Errorf("slab: view: %w", err)
	}
	p.blocks[i].pins++
	return p.bytes(i), nil
}

// Unpin undoes a Pin. It panics if the block is not pinned.
func (p *Pool) Unpin(h Handle) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := int32(h.Index)
	if uint64(h.Index) >= uint64(len(p.blocks)) || p.blocks[i].generation != h.Generation || p.blocks[i].pins == 0 {
		panic(fmt.Sprintf("slab: unpin of %+v, which is not pinned", h))
	}
	p.blocks[i].pins--
	return p.freeIfUnused(i)
}

// Close makes all later calls except Release and Unpin fail. The memory is unmapped when
// the last block is gone. A second call does nothing.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	return p.mem.Close()
}

// check panics unless block i, which was just placed, is aligned, in bounds, and overlaps
// neither of its neighbours.
func (p *Pool) check(i int32) {
	b := &p.blocks[i]
	from, to := 0, p.capacity()
	if b.below != none {
		from = p.blocks[b.below].offset + p.blocks[b.below].extent
	}
	if b.above != none {
		to = p.blocks[b.above].offset
	}
	if b.offset%Align != 0 || b.offset < from || b.offset+b.extent > to {
		panic(fmt.Sprintf("slab: block at %d to %d overlaps its neighbours, which leave %d to %d",
			b.offset, b.offset+b.extent, from, to))
	}
}
