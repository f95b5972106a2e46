package result

import (
	"fmt"
	"slices"
)

// A Canary holds two copies of one cell, which test whether the gate works.
type Canary struct {
	Slowdown float64 `json:"slowdown" check:"0..100" unit:"share"` // slowdown of the rounds of `slow`; 0.2 means 20 %
	Same     Cell    `json:"same"`                                 // identical copy, which the gate must pass
	Slow     Cell    `json:"slow"`                                 // slowed copy, which the gate must fail
}

// An Untried says why a peer has no canary.
type Untried struct {
	Slowdown float64 `json:"slowdown" check:"0..100" unit:"share"` // slowdown that was asked for
	Why      string  `json:"why" check:"name"`                     // in words
}

// Pairs returns two results of two programs to test a gate on: in unchanged, base and head are
// alike; in slow, head is slower. It is an error if r has no canary.
func (r *Result) Pairs() (unchanged, slow *Result, err error) {
	if r.Canary == nil {
		return nil, nil, fmt.Errorf("the result has no canary: it was measured without --canary, or was interrupted")
	}
	if unchanged, err = r.pair(r.Canary.Same); err == nil {
		slow, err = r.pair(r.Canary.Slow)
	}
	return unchanged, slow, err
}

// pair returns a result with a copy, as the head, and the cell that it copies, as the base.
func (r *Result) pair(head Cell) (*Result, error) {
	i := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.ID() == head.ID() && c.Program == head.Program })
	if i < 0 {
		return nil, fmt.Errorf("canary: %s: no such cell in the result", head.ID())
	}
	pair, base := *r, r.Cells[i]
	pair.Canary = nil
	if head.IsPeer() { // both stay a peer's, and are compared like two peers
		base.Variant += " (original)"
		pair.Plan.Baseline = base.Variant
	} else {
		var layouts []Layout
		if ran := r.ProgramOf(&head); ran != nil { // it ran both copies
			layouts = ran.Layouts
		}
		pair.Plan.Baseline, base.Program, head.Program = Base, Base, Head
		pair.Programs = []Program{{Name: Base, Layouts: layouts}, {Name: Head, Layouts: layouts}}
	}
	pair.Cells = []Cell{base, head}
	return &pair, nil
}
