package slab

import (
	"bytes"
	"ipcbench/internal/test/check"
	"testing"

	"pgregory.net/rapid"
)

// A8 to A10, A14, A15, A17, A22: any sequence of operations, against a model
// that only remembers what is alive and what it holds.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(64, 4096).Draw(t, "capacity")
		p := audited(newPool(heap(capacity)))
		type entry struct {
			h        Handle
			view     []byte
			fill     byte
			visible  bool
			pins     int
			released bool
		}
		var alive []*entry
		fill := byte(0)
		pick := func(t *rapid.T, ok func(*entry) bool) *entry {
			var some []*entry
			for _, e := range alive {
				if ok(e) {
					some = append(some, e)
				}
			}
			if len(some) == 0 {
				t.Skip("none")
			}
			return rapid.SampledFrom(some).Draw(t, "block")
		}
		drop := func() {
			kept := alive[:0]
			for _, e := range alive {
				if !e.released || e.pins > 0 {
					kept = append(kept, e)
				}
			}
			alive = kept
		}
		ok := func(t *rapid.T, err error) {
			check.Must(t, err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				n := rapid.IntRange(0, 1000).Draw(t, "bytes")
				h, b, err := p.Reserve(n)
				if err != nil {
					// Refused: there must really be no gap that is large enough.
					if need, _ := Extent(n); largestGap(p) >= need {
						t.Fatalf("%v, but there is a gap of %d", err, largestGap(p))
					}
					return
				}
				fill++
				for i := range b {
					b[i] = fill
				}
				alive = append(alive, &entry{h: h, view: b, fill: fill})
			},
			"publish": func(t *rapid.T) {
				e := pick(t, func(e *entry) bool { return !e.visible })
				ok(t, p.Publish(e.h))
				e.visible = true
			},
			"release": func(t *rapid.T) {
				e := pick(t, func(e *entry) bool { return !e.released })
				ok(t, p.Release(e.h))
				e.released = true
				drop()
			},
			"pin": func(t *rapid.T) {
				e := pick(t, func(e *entry) bool { return e.visible && !e.released })
				_, err := p.Pin(e.h)
				ok(t, err)
				e.pins++
			},
			"unpin": func(t *rapid.T) {
				e := pick(t, func(e *entry) bool { return e.pins > 0 })
				ok(t, p.Unpin(e.h))
				e.pins--
				drop()
			},
			"": func(t *rapid.T) {
				inFlight := 0
				for _, e := range alive {
					if !bytes.Equal(e.view, bytes.Repeat([]byte{e.fill}, len(e.view))) {
						t.Fatalf("block at %d lost bytes", e.h.Offset)
					}
					if !e.visible {
						inFlight++
					}
				}
				s := figures(p)
				check.Need(t, s.inFlight == inFlight && s.inFlight+s.live == len(alive),
					"got %+v, want %d blocks, %d in flight", s, len(alive), inFlight)
				check.Need(t, len(alive) != 0 || p.pointer == 0, "an empty pool goes on at %d", p.pointer)
			},
		})
	})
}

func largestGap(p *Pool) int {
	gap, end := 0, 0
	for i := p.first; i != none; i = p.blocks[i].above {
		gap = max(gap, p.blocks[i].offset-end)
		end = p.blocks[i].offset + p.blocks[i].extent
	}
	return max(gap, p.capacity()-end)
}
