package slab

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ipcbench/internal/test/check"
)

// A modelled block is the model's record of one block of a pool.
type modelled struct {
	h        Handle
	view     []byte
	fill     byte
	visible  bool
	pins     int
	released bool
}

func (m *modelled) start() int { return int(m.h.Offset) - stampSize }

func (m *modelled) end() int {
	extent, _ := Extent(int(m.h.Length))
	return m.start() + extent
}

// A model is a simple pool that remembers the live blocks and their contents.
type model struct {
	alive  []*modelled // by address
	gone   []Handle
	next   int // offset of the next block, if it fits there
	most   int // largest number of live blocks so far
	closed bool
	fill   byte
}

// gap returns the offset of a block of extent bytes: the first large enough gap from next
// upwards, and then from 0.
func (m *model) gap(capacity, extent int) (at int, ok bool) {
	above := []int{m.next}
	below := []int{0}
	for _, b := range m.alive {
		if b.start() >= m.next {
			above = append(above, b.end())
		}
		below = append(below, b.end())
	}
	for _, at := range append(above, below...) {
		free := !slices.ContainsFunc(m.alive, func(b *modelled) bool { return b.start() < at+extent && at < b.end() })
		if free && extent <= capacity-at {
			return at, true
		}
	}
	return 0, false
}

func (m *model) used() (n int) {
	for _, b := range m.alive {
		n += b.end() - b.start()
	}
	return n
}

// pick draws a block.
func (m *model) pick(t *rapid.T, ok func(*modelled) bool) *modelled {
	some := slices.DeleteFunc(slices.Clone(m.alive), func(b *modelled) bool { return !ok(b) })
	if len(some) == 0 {
		t.Skip("none")
	}
	return rapid.SampledFrom(some).Draw(t, "block")
}

// drop forgets the blocks that are released and not pinned.
func (m *model) drop() {
	m.alive = slices.DeleteFunc(m.alive, func(b *modelled) bool {
		over := b.released && b.pins == 0
		if over {
			m.gone = append(m.gone, b.h)
		}
		return over
	})
	if len(m.alive) == 0 {
		m.next = 0
	}
}

// refuses checks that err is want, or ErrClosed after Close.
func (m *model) refuses(t *rapid.T, act string, err, want error) {
	if m.closed {
		want = ErrClosed
	}
	check.That(t, errors.Is(err, want), "%s: got %v, want %v", act, err, want)
}

// TestAgainstModel: A8 to A10, A12, A14 to A17, A19, A22, A26: after any operations, a pool
// agrees with a model of its live blocks and their contents.
func TestAgainstModel(t *testing.T) {
	few := rapid.IntRange(0, 200)
	sizes := rapid.OneOf(few, few, few, rapid.IntRange(0, 1000), rapid.SampledFrom([]int{-1, 4096, math.MaxInt - 64, math.MaxInt}))
	rapid.Check(t, func(t *rapid.T) {
		capacity, closing := rapid.IntRange(64, 2048).Draw(t, "capacity"), rapid.IntRange(1, 1000).Draw(t, "closed after")
		p, m := audited(newPool(heap(capacity))), &model{}
		capacity -= capacity % Align
		reserve := func(t *rapid.T) {
			n := sizes.Draw(t, "bytes")
			extent, possible := Extent(n)
			at, fits := 0, false
			if possible {
				at, fits = m.gap(capacity, extent)
			}
			h, view, err := p.Reserve(n)
			var full *FullError
			switch {
			case m.closed:
				check.That(t, errors.Is(err, ErrClosed), "got %v, want %v", err, ErrClosed)
			case !fits:
				check.That(t, errors.As(err, &full) && full.Capacity == capacity && full.Used == m.used() && (!possible || full.Need == extent),
					"%d bytes: got %v, want a full pool", n, err)
			default:
				check.Must(t, err)
				check.Need(t, h.Offset == uint64(at+stampSize) && len(view) == n && cap(view) == n,
					"got %d bytes at %d, want %d at %d", len(view), h.Offset, n, at+stampSize)
				m.fill++
				copy(view, bytes.Repeat([]byte{m.fill}, n))
				m.alive = append(m.alive, &modelled{h: h, view: view, fill: m.fill})
				slices.SortFunc(m.alive, func(a, b *modelled) int { return cmp.Compare(a.h.Offset, b.h.Offset) })
				m.next, m.most = at+extent, max(m.most, len(m.alive))
			}
		}
		acts := map[string]func(*rapid.T){
			"reserve": reserve, "another": reserve,
			"publish": func(t *rapid.T) {
				b := m.pick(t, func(b *modelled) bool { return !b.visible && !b.released })
				_, err := p.Pin(b.h)
				m.refuses(t, "pin what is in flight", err, ErrInFlight)
				m.refuses(t, "publish", p.Publish(b.h), nil)
				b.visible = !m.closed
			},
			"release": func(t *rapid.T) {
				b := m.pick(t, func(b *modelled) bool { return !b.released })
				check.Must(t, p.Release(b.h))
				b.released = true
				m.drop()
			},
			"pin": func(t *rapid.T) {
				b := m.pick(t, func(b *modelled) bool { return b.visible && !b.released })
				view, err := p.Pin(b.h)
				m.refuses(t, "pin", err, nil)
				if err == nil {
					check.That(t, len(view) == 0 || &view[0] == &b.view[0], "a view is a copy")
					b.pins++
				}
			},
			"unpin": func(t *rapid.T) {
				b := m.pick(t, func(b *modelled) bool { return b.pins > 0 })
				check.Must(t, p.Unpin(b.h))
				b.pins--
				m.drop()
			},
			"mistake": func(t *rapid.T) {
				old := m.gone
				for _, b := range m.alive {
					if b.released {
						old = append(old, b.h)
					} else if b.visible {
						check.That(t, p.Publish(b.h) != nil, "published twice")
					}
				}
				for _, h := range old {
					_, err := p.Pin(h)
					for _, err := range []error{err, p.Publish(h), p.Release(h)} {
						check.That(t, errors.Is(err, ErrStale), "a block that is gone: got %v, want %v", err, ErrStale)
					}
				}
			},
			"": func(t *rapid.T) {
				if closing--; closing == 0 {
					check.Must(t, errors.Join(p.Close(), p.Close())) // twice is harmless
					m.closed = true
				}
				want, holders := stats{used: m.used()}, int64(2) // the pool and the heap
				if m.closed {
					holders--
				}
				for _, b := range m.alive {
					check.Need(t, bytes.Equal(b.view, bytes.Repeat([]byte{b.fill}, len(b.view))), "block at %d lost bytes", b.h.Offset)
					if b.visible || b.released {
						want.live++
					} else {
						want.inFlight++
					}
				}
				check.Equal(t, figures(p), want, "blocks")
				check.Equal(t, p.mem.refs.Load(), holders+int64(len(m.alive)), "holders of the memory")
				check.That(t, len(p.blocks) <= m.most, "%d records for %d blocks", len(p.blocks), m.most)
			},
		}
		for range 50 { // a short run makes few checks of few steps
			t.Repeat(acts)
		}
	})
}
