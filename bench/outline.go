package bench

import (
	"context"
	"slices"
	"time"

	"ipcbench/machine"
)

// An Outline is what a run would do, with a guess at what it takes.
type Outline struct {
	Cells  []OutlineCell
	Floors []string // measured in each cycle that has a block of every cell, later in every fourth
	Blocks int      // of all cells together, at least
	Time   time.Duration
	Most   time.Duration // if no cell becomes precise before its time is up
	Memory int64         // of the largest cell
	Limit  int64         // that may be used; 0 if that is not known
	Source string        // what sets the limit
}

// An OutlineCell is a cell of an [Outline].
type OutlineCell struct {
	Name   string
	Blocks int           // at least
	Block  time.Duration // that one takes
	Memory int64         // of server and workers together
}

// What the guesses are made with: a virtual machine of two cores. They are
// within a factor of two or three elsewhere, which is all that a guess is for.
const (
	guessStart = 120 * time.Millisecond // starting and ending a session
	guessTurn  = 300 * time.Microsecond // a client's turn, without its bytes
	guessTouch = 1e9                    // bytes of fresh memory a second
	guessMove  = 1.5e9                  // bytes that go from one process to another a second
	guessWork  = 3e9                    // bytes that are trained or folded a second
	guessFloor = 400 * time.Millisecond // measuring a floor once
)

// Describe returns the outline of a run, after the checks that the run would
// make. Nothing is measured.
func Describe(ctx context.Context, o Options) (*Outline, error) {
	if err := o.Plan.Validate(); err != nil {
		return nil, err
	}
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	var out Outline
	out.Limit, out.Source = machine.MemoryLimit()
	cycles := r.Plan.Blocks // in which the floors are measured
	for _, c := range r.cells {
		most := r.mostCycles(c)
		cycles = max(cycles, r.Plan.Blocks+(most-r.Plan.Blocks)/floorEvery)
		cell := OutlineCell{Name: c.String(), Blocks: r.Plan.Blocks, Block: c.guess(r.Plan, len(r.here.cpus)), Memory: c.memory()}
		out.Cells = append(out.Cells, cell)
		out.Blocks += cell.Blocks
		out.Time += time.Duration(cell.Blocks) * cell.Block
		out.Most += time.Duration(most) * cell.Block
		out.Memory = max(out.Memory, cell.Memory)
	}
	for _, f := range r.floors {
		out.Floors = append(out.Floors, f.Name)
	}
	floors := time.Duration(len(r.floors)) * guessFloor
	for _, ch := range r.chains {
		out.Floors = append(out.Floors, "work")
		work := bytesTime(2*ch.model.Layout.Payload()*ch.clients, guessWork)
		floors += work * workRounds
		rounds := r.Plan.limits().rounds
		if rounds == 0 {
			rounds = min(max(fewest, int(r.Plan.limits().time/max(1, work))), mostRounds)
		}
		first := work * time.Duration(rounds) // the chain
		out.Time, out.Most = out.Time+first, out.Most+first
	}
	slices.Sort(out.Floors)
	out.Floors = slices.Compact(out.Floors)
	out.Time += time.Duration(r.Plan.Blocks) * floors
	out.Most += time.Duration(cycles) * floors
	if r.Plan.Budget > 0 {
		out.Time, out.Most = min(out.Time, r.Plan.Budget), min(out.Most, r.Plan.Budget)
	}
	return &out, nil
}

func bytesTime(n int, perSecond float64) time.Duration {
	return time.Duration(float64(n) / perSecond * float64(time.Second))
}

// mostCycles returns how many blocks c has if its time, which it shares with its
// peers, runs out.
func (r *run) mostCycles(c *cell) int {
	if r.Plan.Rounds > 0 {
		return r.Plan.Blocks
	}
	var budget, cycle time.Duration
	for _, d := range r.peers(c) {
		budget += r.Plan.Time
		cycle += max(leastCharge, d.guessTimed(r.Plan, len(r.here.cpus)))
	}
	return max(r.Plan.Blocks, int(budget/cycle)+1)
}

// guess returns about how long one block of s takes.
func (s Spec) guess(p Plan, cpus int) time.Duration {
	round, timed := s.guessRound(p, cpus), s.guessTimed(p, cpus)
	warm := max(p.limits().warm, time.Duration(p.Warmup)*round)
	return s.guessOpen() + 4*round + warm + timed + timed/proofEvery // four are the cold one and the proved ones
}

// guessTimed returns how much of a block is timed rounds.
func (s Spec) guessTimed(p Plan, cpus int) time.Duration {
	round, lim := s.guessRound(p, cpus), p.limits()
	if lim.rounds > 0 {
		return time.Duration(lim.rounds) * round
	}
	return min(max(fewest*round, lim.time), mostRounds*round)
}

func (s Spec) guessOpen() time.Duration {
	return guessStart + bytesTime(int(s.memory()), guessTouch)
}

func (s Spec) guessRound(p Plan, cpus int) time.Duration {
	atOnce := min(s.Workers, cpus)
	payload := 2 * s.Model.Layout.Payload() * s.Clients
	turns := time.Duration((s.Clients + atOnce - 1) / atOnce)
	round := bytesTime(payload, guessWork)/time.Duration(atOnce) + turns*(guessTurn+time.Duration(p.TrainMS)*time.Millisecond)
	if !s.inside() {
		round += bytesTime(payload, guessMove) / time.Duration(atOnce)
	}
	if s.respawns(p) {
		round += s.guessOpen()
	}
	return round
}

// memory returns what a session of s needs in all its processes, and the models
// that the driver holds besides.
func (s Spec) memory() int64 {
	return s.Variant.Transport.Footprint(s.options()) + 3*int64(s.Model.Layout.Size())
}
