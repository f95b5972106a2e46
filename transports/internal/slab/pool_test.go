package slab

import (
	"bytes"
	"errors"
	"fmt"
	"ipcbench/internal/test/check"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// auditedPool returns an audited pool over the heap, so that the race detector sees
// what happens to its bytes.
func auditedPool(t testing.TB, capacity int) *Pool {
	t.Helper()
	return audited(newPool(heap(capacity)))
}

// heap returns memory that the race detector can watch, and that is never unmapped.
func heap(size int) *Memory {
	m := newMemory(make([]byte, size), size)
	m.Keep()
	return m
}

// audited makes p panic after a change by which blocks overlap or one is lost.
func audited(p *Pool) *Pool {
	p.changed = func() {
		if s := figures(p); s.used != p.used {
			panic(fmt.Sprintf("slab: audit: blocks say %+v, the pool %d bytes", s, p.used))
		}
	}
	return p
}

type stats struct{ inFlight, live, used int }

// figures adds the blocks of p up, and panics if they are not what the allocator
// promises.
func figures(p *Pool) (s stats) {
	end, below := 0, int32(none)
	for i := p.first; i != none; i = p.blocks[i].above {
		b := &p.blocks[i]
		switch {
		case b.state == spare || b.below != below || b.offset%Align != 0 || b.extent < b.length:
			panic(fmt.Sprintf("slab: audit: record %d is broken: %+v", i, *b))
		case b.offset < end:
			panic(fmt.Sprintf("slab: audit: block at %d to %d overlaps the one below, which ends at %d", b.offset, b.offset+b.extent, end))
		case b.state == inFlight:
			s.inFlight++
		default:
			s.live++
		}
		end, s.used, below = b.offset+b.extent, s.used+b.extent, i
	}
	if end > p.capacity() {
		panic(fmt.Sprintf("slab: audit: blocks end at %d of %d", end, p.capacity()))
	}
	return s
}

func reserved(t testing.TB, p *Pool, n int) (Handle, []byte) {
	t.Helper()
	h, b, err := p.Reserve(n)
	check.Must(t, err)
	check.Need(t, len(b) == n && cap(b) == n, "reserve %d: got len %d, cap %d", n, len(b), cap(b))
	return h, b
}

func published(t testing.TB, p *Pool, n int, fill byte) Handle {
	t.Helper()
	h, b := reserved(t, p, n)
	for i := range b {
		b[i] = fill
	}
	check.Must(t, p.Publish(h))
	return h
}

func refused(t testing.TB, got, want error) {
	t.Helper()
	check.Need(t, errors.Is(got, want), "got %v, want %v", got, want)
}

// A8: offsets increase, are multiples of 64, and ranges do not intersect.
func TestReserveBumps(t *testing.T) {
	p := auditedPool(t, 4096)
	end := uint64(0)
	for _, n := range []int{1, 63, 64, 65, 0, 200, 0} {
		h, _ := reserved(t, p, n)
		check.That(t, h.Offset >= end && h.Offset%64 == 0, "%d bytes at %d, want a multiple of 64 from %d on", n, h.Offset, end)
		end = h.Offset + max(h.Length, 1)
	}
}

// A9: back to zero when the next block does not fit at the end, never into a
// block that is alive.
func TestReserveWraps(t *testing.T) {
	p := auditedPool(t, 832)
	a := published(t, p, 256, 'a')
	b := published(t, p, 256, 'b')
	_, _, err := p.Reserve(256) // 192 are left
	var full *FullError
	check.Need(t, errors.As(err, &full) && full.Need == 320 && full.Used == 640 && full.Capacity == 832,
		"got %v, want a full pool that says so", err)
	check.Must(t, p.Release(a))
	c := published(t, p, 200, 'c')
	check.Equal(t, c.Offset, stampSize, "got offset")
	for h, want := range map[Handle]byte{b: 'b', c: 'c'} {
		view, err := p.Pin(h)
		check.Must(t, err)
		check.That(t, bytes.Equal(view, bytes.Repeat([]byte{want}, int(h.Length))), "block %c changed", want)
		check.Must(t, p.Unpin(h))
	}
	if _, _, err := p.Reserve(256); err == nil {
		t.Error("reserved into a live block")
	}
	h, _ := reserved(t, p, 128)
	check.That(t, h.Offset == 704, "got offset %d, want the gap at 704", h.Offset)
}

// Blocks that are released out of order leave gaps that are used before the
// pool is called full: a lane below its depth can always get a job.
func TestReserveSkipsLiveBlocks(t *testing.T) {
	p := auditedPool(t, 3*128)
	var h [3]Handle
	for i := range h {
		h[i] = published(t, p, 64, byte(i))
	}
	for _, i := range []int{1, 1, 2, 1, 0, 2, 2, 0} {
		check.Must(t, p.Release(h[i]))
		was := h[i].Offset
		h[i] = published(t, p, 64, byte(i))
		check.Need(t, h[i].Offset == was, "got offset %d, want the only gap at %d", h[i].Offset, was)
	}
}

// A10: a forced overlap is found by the next change, and the ranges are named.
func TestAuditFindsOverlap(t *testing.T) {
	p := auditedPool(t, 1024)
	reserved(t, p, 64)
	h, _ := reserved(t, p, 64)
	p.blocks[h.Index].offset = 0
	defer func() {
		msg := fmt.Sprint(recover())
		check.That(t, strings.Contains(msg, "overlaps"), "got %q, want an overlap", msg)
	}()
	reserved(t, p, 64)
}

// A10: a block that the allocator puts over another one is found at once, in every
// pool.
func TestOverlapIsFound(t *testing.T) {
	p := newPool(heap(1024))
	reserved(t, p, 64)
	h, _ := reserved(t, p, 64)
	p.pointer, p.after = 0, int32(h.Index)
	defer func() {
		if msg := fmt.Sprint(recover()); !strings.Contains(msg, "block at 0 to 128 overlaps its neighbours, which leave 256 to 1024") {
			t.Errorf("got %q, want an overlap", msg)
		}
		check.That(t, p.mu.TryLock(), "the pool is locked for ever")
	}()
	reserved(t, p, 64)
}

// A12: a block that cannot fit is refused with need and capacity, at once.
func TestReserveFull(t *testing.T) {
	p := auditedPool(t, 128)
	for _, n := range []int{1024, 129, int(^uint(0) >> 1), -1} {
		_, _, err := p.Reserve(n)
		var full *FullError
		check.That(t, errors.As(err, &full) && full.Capacity == 128, "reserve %d: got %v, want a full pool", n, err)
	}
	check.Equal(t, figures(p), (stats{}), "a refused reservation left")
}

// A14: nobody sees a block before it is published, nor one whose write failed.
func TestVisibleOncePublished(t *testing.T) {
	p := auditedPool(t, 1024)
	h, _ := reserved(t, p, 100)
	_, err := p.Pin(h)
	refused(t, err, ErrInFlight)
	check.Must(t, p.Publish(h))
	_, err = p.Pin(h)
	check.Must(t, err)
	check.That(t, p.Publish(h) != nil, "published twice")
	failed, _ := reserved(t, p, 100)
	check.Must(t, p.Release(failed))
	_, err = p.Pin(failed)
	refused(t, err, ErrStale)
	refused(t, p.Publish(failed), ErrStale)
}

// A15, A17: the pointer goes back to zero with the last block, and no earlier: not
// while one is in flight, alive or looked at.
func TestDrained(t *testing.T) {
	p := auditedPool(t, 1024)
	next := func(what string, want int) {
		t.Helper()
		check.Equal(t, p.pointer, want, what, "the next block goes to")
	}
	h, _ := reserved(t, p, 100)
	next("in flight", 192)
	check.Must(t, p.Publish(h))
	next("live", 192)
	other, _ := reserved(t, p, 64)
	check.Must(t, p.Release(other)) // was never visible
	next("one of two released", 320)
	_, err := p.Pin(h)
	check.Must(t, err)
	check.Must(t, p.Release(h))
	next("looked at", 320)
	check.Must(t, p.Unpin(h))
	next("empty", 0)
	if h, _ := reserved(t, p, 1024-stampSize); h.Offset != stampSize {
		t.Errorf("block at %d, want %d", h.Offset, stampSize)
	}
}

// A16: after Close nothing is stored, also not what was in flight; memory that is
// looked at stays.
func TestClose(t *testing.T) {
	p := auditedPool(t, 1<<16)
	seen := published(t, p, 64, 's')
	view, err := p.Pin(seen)
	check.Must(t, err)
	slow, _ := reserved(t, p, 64)
	check.Must(t, p.Close())
	check.Must(t, p.Close()) // twice is harmless
	_, _, err = p.Reserve(1)
	refused(t, err, ErrClosed)
	refused(t, p.Publish(slow), ErrClosed)
	_, err = p.Pin(seen)
	refused(t, err, ErrClosed)
	check.Must(t, p.Release(slow))
	check.Must(t, p.Release(seen))
	check.That(t, view[0] == 's' && view[63] == 's', "a view changed")
	check.Must(t, p.Unpin(seen))
	n := p.mem.refs.Load()
	check.That(t, n == 1, "memory is held %d times, want once, by its maker", n)
}

// A20, A21: a handle is checked completely before anything is read through it.
func TestHandles(t *testing.T) {
	p := auditedPool(t, 1024)
	h := published(t, p, 100, 'h')
	for name, c := range map[string]struct {
		change func(*Handle)
		want   error
	}{
		"length":            {func(h *Handle) { h.Length++ }, ErrLength},
		"offset":            {func(h *Handle) { h.Offset += 64 }, ErrLength},
		"generation before": {func(h *Handle) { h.Generation-- }, ErrStale},
		"generation after":  {func(h *Handle) { h.Generation++ }, ErrUnknown},
		"index":             {func(h *Handle) { h.Index = 1 << 31 }, ErrUnknown},
		"zero":              {func(h *Handle) { *h = Handle{} }, ErrUnknown},
	} {
		bad := h
		c.change(&bad)
		_, err := p.Pin(bad)
		check.That(t, errors.Is(err, c.want), "%s: got %v, want %v", name, err, c.want)
		if err := p.Release(bad); !errors.Is(err, c.want) {
			t.Errorf("release, %s: got %v, want %v", name, err, c.want)
		}
	}
	check.Must(t, p.Release(h))
	again := published(t, p, 100, 'i') // the same record
	check.Need(t, again.Index == h.Index, "got record %d, want %d", again.Index, h.Index)
	refused(t, p.Release(h), ErrStale)

	for name, c := range map[string]struct {
		h    Handle
		want error
	}{
		"beyond the end":  {Handle{Offset: 1024, Length: 64}, ErrBounds},
		"over the end":    {Handle{Offset: 960, Length: 65}, ErrBounds},
		"sum overflows":   {Handle{Offset: 1<<64 - 64, Length: 128}, ErrBounds},
		"length is huge":  {Handle{Offset: 64, Length: 1<<64 - 1}, ErrBounds},
		"not aligned":     {Handle{Offset: 8, Length: 64}, ErrAlignment},
		"another length":  {Handle{Offset: 64, Length: 63}, ErrLength},
		"good":            {Handle{Offset: 64, Length: 64}, nil},
		"good at the end": {Handle{Offset: 960, Length: 64}, nil},
	} {
		_, err := c.h.Slice(make([]byte, 1024), 64)
		check.That(t, errors.Is(err, c.want), "%s: got %v, want %v", name, err, c.want)
	}
}

// A22: a view is not a copy; its block is not reused while somebody looks.
func TestViewsProtect(t *testing.T) {
	p := auditedPool(t, 128)
	h := published(t, p, 64, 'v')
	view, err := p.Pin(h)
	check.Must(t, err)
	check.Must(t, p.Release(h))
	if _, _, err := p.Reserve(1); err == nil {
		t.Fatal("reused a block that is looked at")
	}
	refused(t, p.Release(h), ErrStale)
	check.That(t, view[0] == 'v', "view changed")
	check.Must(t, p.Unpin(h))
	reserved(t, p, 1)
}

// A26: two pools know nothing of each other.
func TestPoolsAreIndependent(t *testing.T) {
	p, q := auditedPool(t, 192), auditedPool(t, 192)
	h := published(t, p, 128, 'p')
	published(t, q, 128, 'q')
	check.Must(t, p.Release(h))
	check.Must(t, p.Close())
	s := figures(q)
	check.That(t, s.live == 1, "got %+v, want one live block", s)
}

// A19: a thousand steps leave the high-water mark where the second one put it.
func TestStepsAreFlat(t *testing.T) {
	p := auditedPool(t, 1<<20)
	sizes := []int{1, 1000, 64, 65_000, 0, 12}
	step := func() {
		var handles []Handle
		for i, n := range sizes {
			handles = append(handles, published(t, p, n, byte(i)))
		}
		for _, h := range handles {
			check.Must(t, p.Release(h))
		}
	}
	highest := 0
	audit := p.changed
	p.changed = func() { audit(); highest = max(highest, p.used) }
	step()
	mark, records := highest, len(p.blocks)
	for range 1000 {
		step()
	}
	if highest != mark || p.used != 0 || len(p.blocks) != records {
		t.Errorf("after 1000 steps at most %d bytes, %d now and %d records, want %d, none and %d", highest, p.used, len(p.blocks), mark, records)
	}
}

func TestSteadyStepAllocatesNothing(t *testing.T) {
	p := newPool(heap(1 << 12))
	n := testing.AllocsPerRun(100, func() {
		h, _, err := p.Reserve(1000)
		if err == nil {
			err = errors.Join(p.Publish(h), p.Release(h))
		}
		check.Must(t, err)
	})
	check.That(t, n == 0, "got %v allocations, want none", n)
}

// A16, A26: many writers and a Close among them; for the race detector.
func TestConcurrentUse(t *testing.T) {
	p := auditedPool(t, 1<<14)
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 300 {
				h, b, err := p.Reserve(1 + (i*37+w)%700)
				var full *FullError
				switch {
				case errors.As(err, &full):
					continue
				case errors.Is(err, ErrClosed):
					return
				case err != nil:
					t.Error(err)
					return
				}
				for j := range b {
					b[j] = byte(w)
				}
				if err := p.Publish(h); err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				if view, err := p.Pin(h); err == nil {
					check.That(t, bytes.Equal(view, bytes.Repeat([]byte{byte(w)}, len(view))),
						"block of writer %d holds another one's bytes", w)
					check.OK(t, p.Unpin(h))
				}
				check.OK(t, p.Release(h))
				if w == 0 && i == 200 {
					go p.Close()
				}
			}
		})
	}
	writers.Wait()
	check.Must(t, p.Close())
}

// A pool whose file was truncated says so, by name, whatever is called, and can
// still be closed.
func TestTruncatedPool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	p, _, err := CreatePool(path, 4*os.Getpagesize())
	check.Must(t, err)
	audited(p)
	live := published(t, p, 100, 1)
	flying, _ := reserved(t, p, 100)
	check.Must(t, os.Truncate(path, 0))
	_, _, err = p.Reserve(100)
	for act, err := range map[string]error{
		"reserve": err, "publish": p.Publish(flying), "release in flight": p.Release(flying), "release": p.Release(live),
	} {
		check.That(t, err != nil && strings.Contains(err.Error(), "memory fault in "+path),
			"%s: got %v, want a fault in %s", act, err, path)
	}
	check.Equal(t, figures(p), (stats{}), "blocks are left")
	check.Must(t, p.Close())
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no file", err)
	}
}
