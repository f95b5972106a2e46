package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/stat"
)

// Progress reports how far a run has got.
type Progress struct {
	What       string // the current cell, floor or other activity
	Done, Plan int    // blocks that have ended, and blocks planned so far
	Elapsed    time.Duration
	Left       time.Duration // time that the rest of the run will need; 0 if unknown, as in the first cycle

	// More is set once all planned blocks have ended, if cells that are not precise get more. Left
	// is then an upper bound.
	More bool

	// Standing names the fastest cells and the slowest of the ones alike with the current one, by the blocks so far. It is
	// no verdict. It is empty until two of them have a block.
	Standing string

	Until time.Time // when the next cycle begins, in a pause of a run with --spread; else zero
}

// pace holds what progress reports say about a run. Its times are means of steps that have run,
// so it has none in the first cycle.
type pace struct {
	Progress               // at the start of the current step
	began    time.Time     // start of the current step
	cost     time.Duration // mean duration of the current step
	alike    bool          // all cells have the same workers and clients
	until    time.Time     // end of the current pause
	apart    time.Duration // total time spent on reference chains
}

// begin updates the pace when a step begins, so that progress reports between rounds
// are cheap.
func (p *pace) begin(r *run, s *step) {
	p.began, p.cost, p.Progress = time.Now(), s.mean(), Progress{}
	p.Left, p.More = r.left()
	if s.cell != nil {
		p.Standing = r.standing(s.cell)
	}
	for _, c := range r.cells {
		had := len(c.result.Blocks)
		p.Done += had
		if c.result.Stopped == "" {
			had = max(had, r.Plan.Blocks, r.cycle+1)
		}
		p.Plan += had
	}
}

// standing describes the order of the cells that do the work of c, without controls and canaries.
func (r *run) standing(c *cell) string {
	type place struct {
		name  string
		round float64
	}
	var places []place
	for _, d := range r.alike(c) {
		if len(d.result.Blocks) > 0 && d.result.Transport != r.Control.Subject.Name() && d.canary == "" {
			places = append(places, place{d.result.Variant + strings.TrimPrefix(" "+d.result.Build(), " "), stat.Of(d.rounds()).Center})
		}
	}
	if len(places) < 2 {
		return ""
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.round, b.round) })
	text := func(p place) string { return fmt.Sprintf("%s %.3g ms", p.name, p.round*1e3) }
	line := text(places[0]) + ", " + text(places[1])
	if n := len(places); n > 2 {
		line += " … " + text(places[n-1])
	}
	return fmt.Sprintf("%s: %s (%d of %d blocks)", c.result.Model.Label(), line, len(c.result.Blocks), r.Plan.Blocks)
}

func (r *run) progress(what string) {
	if r.Progress == nil {
		return
	}
	p := r.pace.Progress
	p.What, p.Elapsed, p.Until = what, time.Since(r.started), r.pace.until
	p.Left = max(time.Second, p.Left-min(r.pace.cost, time.Since(r.pace.began)), r.Plan.Spread-p.Elapsed)
	if r.cycle == 0 {
		p.Left = 0 // most steps have no mean yet
	}
	r.Progress(p)
}

// label returns the name of c for progress reports, without workers and clients that all
// cells share.
func (r *run) label(c *cell) string {
	if !r.pace.alike {
		return c.String()
	}
	return strings.Replace(c.String(), fmt.Sprintf(" workers=%d clients=%d", c.Workers, c.Clients), "", 1)
}

// left returns the time that all remaining steps will need, including the current one, by the
// means of their earlier runs. Steps that have not run count nothing, except profiles, which
// need the time of a few blocks. With more, all planned blocks have ended, and the time is an
// upper bound.
func (r *run) left() (left time.Duration, more bool) {
	cycles := 0
	for _, s := range r.steps {
		if s.cell != nil {
			n := r.ahead(s.cell)
			cycles = max(cycles, len(s.cell.result.Blocks)+n)
			more = more || n > 0 && r.cycle >= r.Plan.Blocks
			for _, p := range r.profiling {
				if p.cell == s.cell && p.runs == 0 {
					n += fewestProfiled
				}
			}
			left += time.Duration(n) * s.mean()
		}
	}
	floors := r.floorsIn(cycles)
	for _, s := range r.steps {
		if s.cell == nil {
			left += time.Duration(max(0, floors-s.runs)) * s.mean()
		}
	}
	return left, more
}

// ahead returns the number of blocks that c will still have: the remaining planned ones
// or, after them, an upper bound.
func (r *run) ahead(c *cell) int {
	had := len(c.result.Blocks)
	switch {
	case c.result.Stopped != "":
		return 0
	case r.cycle < r.Plan.Blocks:
		return max(0, r.Plan.Blocks-had)
	case r.Plan.Rounds > 0:
		return max(0, r.cycle+1-had)
	}
	alike := r.alike(c)
	unspent := r.unspent(alike)
	spent := time.Duration(len(alike))*r.Plan.Time - unspent
	return max(int(max(0, unspent)*time.Duration(had)/spent), r.cycle+1-had)
}

// mean returns the mean duration of s so far; 0 if it has not run.
func (s *step) mean() time.Duration { return s.took / time.Duration(max(1, s.runs)) }
