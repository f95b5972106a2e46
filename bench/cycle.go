package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/bench/stat"
)

// A step is one part of a cycle: a block of a cell, or a measurement of a floor. Taking a
// profile is also a step, after all cycles.
type step struct {
	run   func() error
	cell  *cell         // cell whose block it is, or whose profile; else nil
	floor *result.Floor // floor that is measured; else nil

	runs int
	took time.Duration // total of all runs
}

func (r *run) planSteps(ctx, quit context.Context) {
	for _, c := range r.cells {
		r.steps = append(r.steps, &step{cell: c, run: func() error { return r.block(ctx, quit, c) }})
	}
	for _, f := range r.floors {
		if f.Name != rpcEmpty && !strings.HasSuffix(f.Name, idle) { // blocks measure rpc-empty themselves, and others idle
			r.steps = append(r.steps, r.floorStep(ctx, f))
		}
	}
	for _, ch := range r.chains {
		if ch.Coded() {
			continue
		}
		r.steps = append(r.steps, &step{run: func() error {
			r.progress("floor work " + ch.Spec.Moved().Label())
			return ch.Measure(ctx)
		}})
	}
	r.profiling = r.profileSteps(ctx, quit)
	r.pace.alike = !slices.ContainsFunc(r.cells, func(c *cell) bool {
		return c.Workers != r.cells[0].Workers || c.Clients != r.cells[0].Clients
	})
}

func (r *run) floorStep(ctx context.Context, f *result.Floor) *step {
	return &step{floor: f, run: func() error { return r.floor(ctx, f) }}
}

// cycles repeats cycles until no cell needs another block. A cycle runs blocks of cells that need one and floors that
// are due, as arrange orders them.
func (r *run) cycles(ctx, quit context.Context) error {
	for ; ; r.cycle++ {
		steps := r.due()
		if len(steps) == 0 {
			return nil
		}
		if err := r.rest(ctx, quit); err != nil {
			return err
		}
		r.cycleBegan = now().boot
		r.arrange(steps)
		if r.cycle == 0 {
			slices.SortStableFunc(steps, func(a, b *step) int { return a.when() - b.when() })
		}
		for _, s := range steps {
			if err := r.do(quit, s); err != nil {
				return err
			}
		}
		if r.cycle == 0 {
			for _, f := range r.planWire() {
				s := r.floorStep(ctx, f)
				r.steps = append(r.steps, s)
				if err := r.do(quit, s); err != nil {
					return err
				}
			}
		}
		r.save()
	}
}

// arrange puts steps in random order, in which cells of one question are neighbours, since they are compared: what the
// machine does for a while then meets all of them. Without a question, it is the cells that do the same work.
func (r *run) arrange(steps []*step) {
	order := r.order()
	order.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	ranks := map[any]int{}
	for i, rank := range order.Perm(len(steps)) {
		ranks[steps[i].group()] = rank
	}
	slices.SortStableFunc(steps, func(a, b *step) int { return ranks[a.group()] - ranks[b.group()] })
}

// order returns a source of the order of the current cycle, which does not depend on earlier cycles.
func (r *run) order() *rand.Rand { return rand.New(rand.NewPCG(r.Plan.OrderSeed, ^uint64(r.cycle))) }

// group identifies the steps that are neighbours of this one.
func (s *step) group() any {
	switch {
	case s.cell == nil:
		return s
	case s.cell.Question != "":
		return s.cell.Question
	}
	return fmt.Sprint(s.cell.Moved().Label(), s.cell.Workers, s.cell.Clients)
}

// when returns the position of a step in the first cycle: 1 if it needs an earlier block,
// of its model or of a canary's original, else 0.
func (s *step) when() int {
	if s.cell != nil && s.cell.canary == canarySlow || s.floor != nil && s.floor.Model != "" {
		return 1
	}
	return 0
}

// due returns the steps of the current cycle, or none if no cell needs another block.
func (r *run) due() []*step {
	var due []*step
	for _, s := range r.steps {
		if s.cell != nil && !r.finished(s.cell) {
			due = append(due, s)
		}
	}
	if len(due) == 0 || !r.floorsDue(r.cycle) {
		return due
	}
	for _, s := range r.steps {
		f := s.floor // hosts may take turns
		if s.cell == nil && (f == nil || f.Host == "" || r.here.Hosts.Due(f.Host, r.floorsIn(r.cycle))) {
			due = append(due, s)
		}
	}
	return due
}

// do runs a step and records its duration, without time spent on reference chains, unless
// quit is done.
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

// Floors are measured in each of the first cycles, as often as a 95 % confidence interval
// needs, and then in every fourth. A first answer has them in its first and its last cycle.
// Cells with short rounds may need many more blocks, and
// measuring the floors each time would take longer than those blocks.
const (
	floorCycles = stat.Blocks
	floorEvery  = 4
)

func (r *run) floorsDue(cycle int) bool {
	if r.Plan.Mode == session.Quick {
		return cycle == 0 || cycle == r.Plan.Blocks-1
	}
	return cycle < floorCycles || cycle%floorEvery == 0
}

func (r *run) floorsIn(cycles int) int {
	n := 0
	for cycle := range cycles {
		if r.floorsDue(cycle) {
			n++
		}
	}
	return n
}
