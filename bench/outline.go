package bench

import (
	"context"
	"slices"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/internal/machine"
)

// An Outline is what a run would do, with a guess at what it takes.
type Outline struct {
	Cells   []OutlineCell
	Skipped []Skipped // and why
	Floors  []string  // measured in the first cycles, later in every fourth
	Blocks  int       // of all cells together, at least
	Time    time.Duration
	Most    time.Duration // if no cell becomes precise before its time is up
	Memory  int64         // of the largest cell
	Limit   int64         // that may be used; 0 if that is not known
	Source  string        // what sets the limit
}

// An OutlineCell is a cell of an [Outline].
type OutlineCell struct {
	Name   string
	Blocks int           // at least
	Block  time.Duration // that one takes
	Memory int64         // of server and workers together
	Hosts  string        // on which its processes are, of a run with agents: h1:2,h2:2
}

// What the guesses are made with: a virtual machine of two cores. They are
// within a factor of two or three elsewhere, which is all that a guess is for.
const (
	guessStart = 40 * time.Millisecond  // starting and ending a session
	guessJob   = 300 * time.Microsecond // a job, without its bytes and its calls
	guessCall  = 100 * time.Microsecond // one of the calls of a job, at both ends together
	guessTouch = 3e9                    // bytes of fresh memory a second
	guessMove  = 2.5e9                  // bytes that go from one process to another a second
	guessWork  = 4e9                    // bytes that are trained or folded a second
	guessFloor = 200 * time.Millisecond // measuring a floor once
)

// Describe returns the outline of a run, after the checks that the run would
// make. Nothing is measured.
func Describe(ctx context.Context, o Options) (*Outline, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	out := Outline{Skipped: r.result.Skipped}
	out.Limit, out.Source = machine.MemoryLimit()
	most := r.Plan.Blocks // of a cell
	for _, c := range r.cells {
		block, timed := c.guess(r.Plan, len(r.here.cpus))
		cell := OutlineCell{Name: c.String(), Blocks: r.Plan.Blocks, Block: block, Memory: c.memory(), Hosts: r.here.hosts.lie(c.Spec)}
		blocks := cell.Blocks
		if r.Plan.Rounds == 0 && r.Plan.Precision > 0 {
			blocks = max(blocks, int(r.Plan.Time/max(timed, leastCharge)))
		}
		most = max(most, blocks)
		out.Cells = append(out.Cells, cell)
		out.Blocks += cell.Blocks
		out.Time += time.Duration(cell.Blocks) * block
		out.Most += time.Duration(blocks) * block
		out.Memory = max(out.Memory, cell.Memory)
	}
	for _, f := range r.floors {
		out.Floors = append(out.Floors, f.Name)
	}
	for _, ch := range r.chains {
		if !ch.coded() {
			out.Floors = append(out.Floors, "work")
		}
	}
	floors := time.Duration(len(out.Floors)-len(r.floors)) * guessFloor
	for _, f := range r.floors {
		floors += r.guessFloor(f)
	}
	out.Time += time.Duration(floorsIn(r.Plan.Blocks)) * floors
	out.Most += time.Duration(floorsIn(most)) * floors
	slices.Sort(out.Floors)
	out.Floors = slices.Compact(out.Floors)
	return &out, nil
}

// guess returns about how long one block of s takes, and how much of that its timed
// rounds.
func (s Spec) guess(p Plan, cpus int) (block, timed time.Duration) {
	p = s.planned(p)
	take := func(bytes int64, perSecond float64) time.Duration {
		return time.Duration(float64(bytes) / perSecond * float64(time.Second))
	}
	open := guessStart + take(s.memory(), guessTouch)
	atOnce := min(s.Workers, cpus)
	payload := s.moved().Payload() * int64(s.Clients) / int64(atOnce)
	job := guessJob + time.Duration(s.TrainMS)*time.Millisecond
	if needs, err := s.Variant.Needs(s.options()); err == nil {
		job += time.Duration(needs.Calls) * guessCall
	}
	round := take(payload, guessWork) + time.Duration((s.Clients+atOnce-1)/atOnce)*job
	round += s.overLink()
	if !s.inside() {
		round += take(payload, guessMove)
	}
	if s.respawns() {
		round += open
	}
	p = ofBlock(p)
	timed = min(max(time.Duration(p.Least)*round, p.Time), exchange.MostTimed*round)
	if p.Rounds > 0 {
		timed = time.Duration(p.Rounds) * round
	}
	warm := max(p.WarmTime-2*round, time.Duration(p.Warmup)*round)
	return open + 4*round + warm + timed + timed/proofEvery, timed // one cold round and two proved ones take as long as four
}

// memory returns what a session of s needs in all its processes, and what the
// driver holds besides: two models, an update, and the average if that is no model.
func (s Spec) memory() int64 {
	held := 2*s.Model.Layout.Size() + s.up().Layout.Size()
	if s.up() != s.Model {
		held += s.up().Layout.Size()
	}
	if s.Variant.Codec().Lossy() { // the server's own model, and an update that is made for the proof
		held += s.Model.Layout.Size() + 2*s.up().Layout.Size()
	}
	return s.Variant.Footprint(s.options()) + int64(held)
}
