package slab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ipcbench/internal/test/check"
)

// heap returns memory that the race detector sees and that is never unmapped.
func heap(size int) *Memory {
	m := newMemory(make([]byte, size), size)
	m.Keep()
	return m
}

// audited makes p panic after a change that makes blocks overlap or loses one.
func audited(p *Pool) *Pool {
	p.changed = func() {
		if s := figures(p); s.used != p.used {
			panic(fmt.Sprintf("slab: audit: blocks say %+v, the pool %d bytes", s, p.used))
		}
	}
	return p
}

type stats struct{ inFlight, live, used int }

// figures sums the blocks of p, and panics if they violate the allocator's invariants.
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
	return h, b
}

func published(t testing.TB, p *Pool, n int) Handle {
	t.Helper()
	h, _ := reserved(t, p, n)
	check.Must(t, p.Publish(h))
	return h
}

func refused(t testing.TB, got, want error) {
	t.Helper()
	check.Need(t, errors.Is(got, want), "got %v, want %v", got, want)
}

// TestOverlapIsFound: A10: in every pool, a block that the allocator puts over another one
// is detected at once. The neighbours above and below are both checked.
func TestOverlapIsFound(t *testing.T) {
	p := newPool(heap(1024))
	reserved(t, p, 64)
	middle, _ := reserved(t, p, 64)
	top, _ := reserved(t, p, 64)
	found := func(f func(), want string) {
		t.Helper()
		defer func() {
			msg := fmt.Sprint(recover())
			check.That(t, strings.Contains(msg, want), "got %q, want %q", msg, want)
		}()
		f()
	}
	p.blocks[middle.Index].extent += Align
	checked := func() { p.check(int32(middle.Index)) }
	found(checked, "block at 128 to 320 overlaps its neighbours, which leave 128 to 256")
	p.pointer, p.after = 0, int32(top.Index)
	found(func() { reserved(t, p, 64) }, "block at 0 to 128 overlaps its neighbours, which leave 384 to 1024")
	check.That(t, p.mu.TryLock(), "the pool is locked for ever")
}

// TestStartsOver: A15, A17: a pool starts over at zero when its last block is gone, and not
// while a block is in flight, live, or pinned.
func TestStartsOver(t *testing.T) {
	p := audited(newPool(heap(1024)))
	lands := func(when string, at uint64) Handle {
		t.Helper()
		h, _ := reserved(t, p, 64)
		check.Equal(t, h.Offset-stampSize, at, when)
		return h
	}
	first, last := lands("the pool is empty", 0), lands("one block", 128)
	check.Must(t, p.Release(first))
	check.Must(t, p.Release(lands("one block in flight", 256)))
	check.Must(t, p.Publish(last))
	check.Must(t, p.Release(lands("one block is live", 384)))
	check.Must(t, check.Err(p.Pin(last)))
	check.Must(t, p.Release(last))
	check.Must(t, p.Release(lands("one block is pinned", 512)))
	check.Must(t, p.Unpin(last))
	lands("all blocks are gone", 0)
}

// TestHandles: A20, A21: a handle is checked completely before anything is read through it.
func TestHandles(t *testing.T) {
	p := audited(newPool(heap(1024)))
	h := published(t, p, 100)
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
	}
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

// TestConcurrentUse: A16, A26: writers work at once, and the pool is closed among them, for
// the race detector.
func TestConcurrentUse(t *testing.T) {
	p := audited(newPool(heap(1 << 14)))
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

// TestTruncatedPool: if a pool's file was truncated, every call returns an error with its
// name, and the pool can still be closed.
func TestTruncatedPool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	p, _, err := CreatePool(path, 4*os.Getpagesize(), "")
	check.Must(t, err)
	audited(p)
	live := published(t, p, 100)
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
	_, err = os.Stat(path)
	refused(t, err, os.ErrNotExist)
}
