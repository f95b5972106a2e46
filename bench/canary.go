package bench

import (
	"time"

	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
)

// A canary tests whether a gate works. It is two copies of a cell, measured in turn with
// all others. One is identical: a gate must find no difference. In the other one, every
// training burns extra CPU time: a gate on rounds must find that. The slowdown is real
// work in the workers, not a change of numbers. A peer that is a baseline slows itself down.

// canaryKind identifies a copy of a canary; it is empty for other cells.
type canaryKind string

const (
	canarySame canaryKind = "canary, identical copy"
	canarySlow canaryKind = "canary, slowed copy"
)

func (r *run) addCanaries() {
	if r.Canary == 0 || r.untried() != "" {
		return
	}
	var original *cell // a cell of this build; the control only if there is no other cell
	for _, c := range r.cells {
		if c.result.Program == result.Base || r.baselinePeer() && c.result.Variant != r.Plan.Baseline {
			continue
		}
		if original == nil || original.Inside() && !c.Inside() {
			original = c
		}
	}
	for _, kind := range []canaryKind{canarySame, canarySlow} {
		c := *original
		c.canary, c.copyOf = kind, original
		r.cells = append(r.cells, &c)
	}
}

// baselinePeer reports whether other peers are compared with one.
func (r *run) baselinePeer() bool { return r.Plan.Baseline != "" && len(r.Builds) == 0 }

// untried returns the reason why there is no slow copy: the baseline is a peer that did not say
// that it slows itself down.
func (r *run) untried() string {
	if !r.baselinePeer() || r.burns {
		return ""
	}
	return r.Plan.Baseline + " does not slow itself down if " + program.CanaryVariable + " asks it to"
}

// slow returns the extra CPU time per training of a slowed copy; 0 for other cells. It is
// based on the blocks that the original has so far, which runs first: see [step.when].
// Each lane trains several clients of a round in turn, so each training gets its share of
// the round's slowdown.
func (r *run) slow(c *cell) time.Duration {
	if c.canary != canarySlow || c.result.IsPeer() {
		return 0
	}
	inTurn := (c.Clients + c.Workers - 1) / c.Workers
	share := r.Canary / float64(inTurn)
	return time.Duration(share * stat.Median(stat.Medians(c.copyOf.rounds())) * float64(time.Second))
}

// canaries returns the canary of the result. It is nil if the run has none, or ended
// before both copies had a block.
func (r *run) canaries() *result.Canary {
	copies := map[canaryKind]result.Cell{}
	for _, c := range r.cells {
		if c.canary != "" && len(c.result.Blocks) > 0 {
			copies[c.canary] = c.sofar()
		}
	}
	if len(copies) < 2 {
		return nil
	}
	return &result.Canary{Slowdown: r.Canary, Same: copies[canarySame], Slow: copies[canarySlow]}
}
