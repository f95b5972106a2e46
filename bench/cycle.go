package bench

import (
	"context"
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
			r.steps = append(r.steps, r.floorStep(ctx, f))
		}
	}
	for _, ch := range r.chains {
		if ch.coded() {
			continue
		}
		r.steps = append(r.steps, &step{guess: guessFloor, run: func() error {
			r.progress("floor work " + ch.cell.moved().Label())
			return ch.measure(ctx, ofBlock(r.Plan).WarmTime)
		}})
	}
	r.profiling = r.profileSteps(ctx, quit)
	r.pace.alike = !slices.ContainsFunc(r.cells, func(c *cell) bool { return c.Workers != r.cells[0].Workers || c.Clients != r.cells[0].Clients })
}

func (r *run) floorStep(ctx context.Context, f *Floor) *step {
	return &step{floor: f, guess: r.guessFloor(f), run: func() error { return r.floor(ctx, f) }}
}

// cycles runs blocks of all cells that need more, and measures every floor, in
// random order, again and again.
func (r *run) cycles(ctx, quit context.Context) error {
	for ; ; r.cycle++ {
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
		if r.cycle == 0 {
			if err := r.measureWire(ctx, quit); err != nil {
				return err
			}
		}
		r.save()
	}
}

// measureWire measures what [run.planWire] adds, for the first time.
func (r *run) measureWire(ctx, quit context.Context) error {
	for _, f := range r.planWire() {
		s := r.floorStep(ctx, f)
		r.steps = append(r.steps, s)
		if err := r.do(quit, s); err != nil {
			return err
		}
	}
	return nil
}

// when returns 1 for a step of the first cycle that needs a block of its model, or of
// the cell that it is a copy of, before it, and 0 for others.
func (s *step) when() int {
	if s.cell != nil && s.cell.canary == canarySlow || s.floor != nil && s.floor.Model != "" {
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
