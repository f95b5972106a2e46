package bench

import (
	"time"

	"ipcbench/bench/stat"
)

// A canary tests whether a gate works. It is two copies of a cell, measured in turn
// with all others. One is the same again: a gate must find nothing there. In the
// other one, every training burns some CPU time besides: a gate of rounds must find that.
// The slowdown is in the workers, not in the numbers.

// canaryKind says which copy a cell is; empty if it is none.
type canaryKind string

const (
	canarySame canaryKind = "canary, the same again"
	canarySlow canaryKind = "canary, slowed down"
)

// addCanaries adds the copies of a cell, if the run has a canary.
func (r *run) addCanaries() {
	if r.Canary == 0 {
		return
	}
	var of *cell // of this build, and not the control if there is another one
	for _, c := range r.cells {
		if c.result.Build != "base" && (of == nil || of.inside() && !c.inside()) {
			of = c
		}
	}
	for _, kind := range []canaryKind{canarySame, canarySlow} {
		c := *of
		c.canary, c.copyOf = kind, of
		r.cells = append(r.cells, &c)
	}
}

// slow returns what each training of the cell is to burn besides, as the blocks so far of the
// cell that it is a copy of tell; see [step.when]. The updates of a round
// follow each other on each lane, so each of them takes its share of what is to
// be added to the round.
func (r *run) slow(c *cell) time.Duration {
	if c.canary != canarySlow {
		return 0
	}
	inTurn := (c.Clients + c.Workers - 1) / c.Workers
	return time.Duration(r.Canary * stat.Median(stat.Medians(c.copyOf.rounds())) / float64(inTurn) * float64(time.Second))
}

// canaries returns the canary of the result; nil if the run has none or was
// broken off before there was a block of both.
func (r *run) canaries() *Canary {
	canary := Canary{Slowdown: r.Canary}
	for _, c := range r.cells {
		if len(c.result.Blocks) == 0 {
			continue
		}
		switch c.canary {
		case canarySame:
			canary.Same = c.sofar()
		case canarySlow:
			canary.Slow = c.sofar()
		}
	}
	if len(canary.Same.Blocks) == 0 || len(canary.Slow.Blocks) == 0 {
		return nil
	}
	return &canary
}
