package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ipcbench/bench/stat"
)

// A step is one part of a cycle: a block of a cell, or a floor. Taking a profile
// is one too, after all cycles.
type step struct {
	run   func() error
	guess time.Duration // what it takes, before it was run
	cell  *cell         // whose block it is; nil if it is none
	floor *Floor        // that is measured
	chain *chain        // whose floor is measured

	runs int
	took time.Duration // by all runs
}

// planSteps makes the steps of all cycles.
func (r *run) planSteps(ctx, quit context.Context) {
	for _, c := range r.cells {
		guess, _ := c.guess(r.Plan, len(r.here.cpus))
		r.steps = append(r.steps, &step{cell: c, guess: guess, run: func() error { return r.block(ctx, quit, c) }})
	}
	for _, f := range r.floors {
		if f.Name != rpcEmpty { // which the blocks measure
			r.steps = append(r.steps, &step{floor: f, guess: r.guessFloor(f), run: func() error { return r.floor(ctx, f) }})
		}
	}
	for _, ch := range r.chains {
		if !r.bounds(ch) {
			continue
		}
		r.steps = append(r.steps, &step{chain: ch, guess: guessFloor, run: func() error {
			r.progress("floor work " + ch.cell.moved().Label())
			return ch.measure(ctx, r.Plan.limits().warm)
		}})
	}
	r.profiling = r.profileSteps(ctx, quit)
	r.pace.alike = !slices.ContainsFunc(r.cells, func(c *cell) bool { return c.Workers != r.cells[0].Workers || c.Clients != r.cells[0].Clients })
}

// bounds reports whether the arithmetic of a chain is measured, as a floor.
func (r *run) bounds(ch *chain) bool { return !ch.coded() }

// cycles runs blocks of all cells that need more, and measures every floor, in
// random order, again and again.
func (r *run) cycles(quit context.Context) error {
	for ; ; r.cycle++ {
		start := time.Now()
		steps := r.due()
		if len(steps) == 0 {
			return nil
		}
		r.order.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		if r.cycle == 0 {
			slices.SortStableFunc(steps, func(a, b *step) int { return a.when() - b.when() })
		}
		for _, s := range steps {
			if err := r.do(quit, s); err != nil {
				return err
			}
		}
		last := time.Since(start)
		r.save()
		if r.cycle == 0 {
			r.fit()
		}
		if r.overspent(last) {
			return nil
		}
	}
}

// when returns 1 for a step of the first cycle that needs a block of its model, or of
// the cell that it is a copy of, before it, and 0 for others.
func (s *step) when() int {
	if s.cell != nil && s.cell.canary == canarySlow || s.floor != nil && (s.floor.Model != "" || s.floor.Link != "" && s.floor.Bytes == 0) {
		return 1
	}
	return 0
}

// due returns the steps of the cycle in hand; none if no cell needs another block.
func (r *run) due() []*step {
	var due []*step
	for _, s := range r.steps {
		if s.cell != nil && !r.finished(s.cell) {
			due = append(due, s)
		}
	}
	if len(due) > 0 && floorsDue(r.cycle) {
		for _, s := range r.steps {
			if s.cell == nil && (s.floor == nil || r.turn(s.floor)) {
				due = append(due, s)
			}
		}
	}
	return due
}

// do runs a step, unless quit has ended.
func (r *run) do(quit context.Context, s *step) error {
	if quit.Err() != nil {
		return quit.Err()
	}
	r.pace.begin(r, s)
	apart := r.pace.apart
	err := s.run()
	s.took += time.Since(r.pace.began) - (r.pace.apart - apart)
	s.runs++
	return err
}

// Floors are measured in the first cycles, so that their intervals have 95 %
// confidence, and then in every fourth: cells of short rounds may need many more
// blocks than others, and measuring the floors around each of them would take
// longer than they do.
const (
	floorCycles = stat.Blocks
	floorEvery  = 4
)

func floorsDue(cycle int) bool { return cycle < floorCycles || cycle%floorEvery == 0 }

// floorsIn returns in how many of the first cycles floors are measured.
func floorsIn(cycles int) int {
	n := 0
	for cycle := range cycles {
		if floorsDue(cycle) {
			n++
		}
	}
	return n
}

// finishing is about what a run takes after its last block: writing the result and
// printing the report.
const finishing = time.Second

// fit leaves models out, the smallest first, until the planned blocks of the
// others fit into the budget. It does so after the first cycle, which shows what a
// block takes. One model always stays: it takes the time that it needs, and so do
// all where a canary watches over one of them.
func (r *run) fit() {
	if r.Plan.Budget == 0 {
		return
	}
	for {
		left, _ := r.left()
		total := time.Since(r.started) + left
		if total <= r.Plan.Budget || left <= finishing { // or everything is measured
			return
		}
		smallest := r.smallest()
		if smallest == nil || r.Canary > 0 {
			r.pace.late = true
			r.note(fmt.Sprintf("%d blocks of every cell take longer than %v: the run goes on for about %v more", r.Plan.Blocks, r.Plan.Budget, left.Round(time.Second)))
			return
		}
		why := fmt.Sprintf("left out: with it, %d blocks of every cell would have taken about %v, more than the %v that the run may take; use --budget %v or --model %s",
			r.Plan.Blocks, total.Round(time.Second), r.Plan.Budget, (total*5/4).Round(10*time.Second)+10*time.Second, smallest.Name)
		r.leaveOut(*smallest, why)
		r.note(smallest.Label() + " is " + why)
	}
}

// smallest returns the model of the fewest bytes, or nil if there is only one.
func (r *run) smallest() *Model {
	var least *Model
	several := false
	for _, c := range r.cells {
		m := &c.result.Model
		several = several || *m != r.cells[0].result.Model
		if least == nil || m.Payload() < least.Payload() {
			least = m
		}
	}
	if !several {
		return nil
	}
	return least
}

// leaveOut takes a model's cells out of the run, with what was measured of them.
func (r *run) leaveOut(m Model, why string) {
	for _, c := range r.cells {
		if c.result.Model == m && c.result.Build != "base" {
			r.result.Skipped = append(r.result.Skipped, (&Unfit{c.Spec, errors.New(why)}).Skipped())
		}
	}
	ofCell := func(c *cell) bool { return c != nil && c.result.Model == m }
	ofFloor := func(f *Floor) bool { return f != nil && f.Model == m.Name && f.Up == m.Up }
	ofChain := func(ch *chain) bool { return ch != nil && ch.cell.moved() == m }
	r.cells = slices.DeleteFunc(r.cells, ofCell)
	r.floors = slices.DeleteFunc(r.floors, ofFloor)
	r.chains = slices.DeleteFunc(r.chains, ofChain)
	of := func(s *step) bool { return ofCell(s.cell) || ofFloor(s.floor) || ofChain(s.chain) }
	r.steps = slices.DeleteFunc(r.steps, of)
	r.profiling = slices.DeleteFunc(r.profiling, of)
}

// overspent reports whether another cycle, which takes as long as the last one,
// would go beyond the run's budget or the size of a result, and ends all cells if
// so. It does not break a cycle off: some cells would have a block that those lack
// which they are compared with. A budget takes away none of the planned blocks.
func (r *run) overspent(last time.Duration) bool {
	why := ""
	switch {
	case r.Plan.Budget > 0 && r.cycle+1 >= r.Plan.Blocks && time.Since(r.started)+last+finishing >= r.Plan.Budget:
		why = "budget"
	case r.full():
		why = "size"
	default:
		return false
	}
	for _, c := range r.cells {
		if c.result.Stopped == "" {
			c.result.Stopped = cmp.Or(r.enough(c, r.peers(c)), why)
		}
	}
	return true
}
