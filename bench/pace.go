package bench

import (
	"fmt"
	"strings"
	"time"
)

// A Progress says how far a run is.
type Progress struct {
	What       string // the cell, the floor or what else is in hand
	Done, Plan int    // blocks that have ended, and that are planned so far
	Elapsed    time.Duration
	Prepared   time.Duration // of Elapsed: before the first block or floor began
	Left       time.Duration // about, until the report is there
	More       bool          // the planned blocks have ended: some cells get more, to become precise, for as long as Left at most
}

// pace is what a run expects of itself.
type pace struct {
	prepared   time.Duration // before the first step
	began      time.Time     // the step in hand
	cost       time.Duration // that the step in hand may take
	rest       time.Duration // that all others may take
	done, plan int           // blocks
	more       bool
	alike      bool          // all cells have the same workers and clients
	apart      time.Duration // what reference chains have taken
}

// begin looks ahead when a step begins: progress that is shown between rounds
// costs little.
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

// label names c in progress.
func (r *run) label(c *cell) string {
	if !r.pace.alike {
		return c.String()
	}
	return strings.Replace(c.String(), fmt.Sprintf(" workers=%d clients=%d", c.Workers, c.Clients), "", 1)
}

// left returns about how long the steps to come take, the one in hand among them,
// and what follows. Once the planned blocks have ended, that is a bound.
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

// ahead returns how many blocks c is still to have: those that are planned or,
// after them, the most that it may get.
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

// cost returns what s takes, by what it has taken, or else by its guess, scaled by
// how far off the guesses of others were.
func (s *step) cost(scale float64) time.Duration {
	if s.runs > 0 {
		return s.took / time.Duration(s.runs)
	}
	return time.Duration(float64(s.guess) * scale)
}

// scale returns what the steps so far have taken, over what was guessed.
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
