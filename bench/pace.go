package bench

import (
	"fmt"
	"strings"
	"time"
)

// Progress reports how far a run has got.
type Progress struct {
	What       string // the current cell, floor or other activity
	Done, Plan int    // blocks that have ended, and blocks planned so far
	Elapsed    time.Duration
	Prepared   time.Duration // part of Elapsed before the first block or floor
	Left       time.Duration // estimated time until the report
	More       bool          // all planned blocks have ended, and cells that are not precise get more; Left is then an upper bound
}

// pace holds a run's estimates for progress reports.
type pace struct {
	prepared   time.Duration // time before the first step
	began      time.Time     // start of the current step
	cost       time.Duration // estimated duration of the current step
	rest       time.Duration // estimated duration of all other steps
	done, plan int
	more       bool
	alike      bool          // all cells have the same workers and clients
	apart      time.Duration // total time spent on reference chains
}

// begin updates the estimates when a step begins, so that progress reports between rounds
// are cheap.
func (p *pace) begin(r *run, s *step) {
	if p.began.IsZero() {
		p.prepared = time.Since(r.started)
	}
	p.began, p.done, p.plan = time.Now(), 0, 0
	left, more := r.left()
	p.cost, p.more = s.cost(r.scale()), more
	p.rest = left - p.cost
	for _, c := range r.cells {
		had := len(c.result.Blocks)
		p.done += had
		if c.result.Stopped == "" {
			had = max(had, r.Plan.Blocks, r.cycle+1)
		}
		p.plan += had
	}
}

func (r *run) progress(what string) {
	if r.Progress == nil {
		return
	}
	p := &r.pace
	r.Progress(Progress{
		What: what, Done: p.done, Plan: p.plan, Elapsed: time.Since(r.started), Prepared: p.prepared,
		Left: max(time.Second, p.rest+max(0, p.cost-time.Since(p.began))), More: p.more,
	})
}

// label returns the name of c for progress reports, without workers and clients that all
// cells share.
func (r *run) label(c *cell) string {
	if !r.pace.alike {
		return c.String()
	}
	return strings.Replace(c.String(), fmt.Sprintf(" workers=%d clients=%d", c.Workers, c.Clients), "", 1)
}

// left estimates the duration of all remaining steps, including the current one, and of
// the work after them. With more, all planned blocks have ended, and the estimate is an
// upper bound.
func (r *run) left() (left time.Duration, more bool) {
	scale, cycles := r.scale(), 0
	for _, s := range r.steps {
		if s.cell != nil {
			n := r.ahead(s.cell)
			left += time.Duration(n) * s.cost(scale)
			cycles = max(cycles, len(s.cell.result.Blocks)+n)
			more = more || n > 0 && r.cycle >= r.Plan.Blocks
		}
	}
	floors := floorsIn(cycles)
	for _, s := range r.steps {
		if s.cell == nil {
			left += time.Duration(max(0, floors-s.runs)) * s.cost(scale)
		}
	}
	for _, s := range r.profiling {
		left += time.Duration(1-s.runs) * s.cost(scale)
	}
	return left + finishing, more
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
	peers := r.peers(c)
	unspent := r.unspent(peers)
	spent := time.Duration(len(peers))*r.Plan.Time - unspent
	return max(int(max(0, unspent)*time.Duration(had)/spent), r.cycle+1-had)
}

// cost returns the mean duration of s so far or, if it has not run, its estimate times
// scale.
func (s *step) cost(scale float64) time.Duration {
	if s.runs > 0 {
		return s.took / time.Duration(s.runs)
	}
	return time.Duration(float64(s.guess) * scale)
}

// scale returns the ratio of time taken to time estimated, over all steps that have run;
// 1 before the first.
func (r *run) scale() float64 {
	var took, guess time.Duration
	for _, s := range r.steps {
		took += s.took
		guess += s.guess * time.Duration(s.runs)
	}
	if guess == 0 {
		return 1
	}
	return float64(took) / float64(guess)
}
