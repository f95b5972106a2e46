package bench

import (
	"context"
	"slices"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/internal/machine"
)

// An Outline describes a run before it starts, with an estimate of its duration.
type Outline struct {
	Cells   []OutlineCell
	Skipped []Skipped // cells that cannot run, with the reason
	Floors  []string  // names of floors, measured in the first cycles and later in every fourth
	Blocks  int       // minimum number, of all cells together
	Time    time.Duration
	Most    time.Duration // upper estimate, if every cell needs all its time to become precise
	Memory  int64         // bytes needed by the largest cell
	Limit   int64         // bytes that may be used; 0 if unknown
	Source  string        // source of the limit
}

// An OutlineCell is a cell of an [Outline].
type OutlineCell struct {
	Name   string
	Blocks int           // minimum number
	Block  time.Duration // estimated duration of one block
	Memory int64         // bytes, of server and workers together
	Hosts  string        // hosts with their number of processes, in a run with agents: h1:2,h2:2
}

// Constants of the estimates, from a virtual machine with two cores. The runs of results/ took 0.9
// to 2.2 times as long as estimated, and python, where most rows are slower than these, 3.3 times.
const (
	guessStart = 25 * time.Millisecond  // starting and ending a session
	guessJob   = 300 * time.Microsecond // a job, without its bytes and calls
	guessCall  = 100 * time.Microsecond // one call of a job, at both ends together
	guessTouch = 2e9                    // bytes of fresh memory per second
	guessMove  = 1.5e9                  // bytes per second from one process to another
	guessWork  = 4e9                    // bytes trained or folded per second
	guessFloor = 200 * time.Millisecond // measuring a floor once
)

// Describe returns the outline of a run, after the same checks as [Run]. It measures
// nothing.
func Describe(ctx context.Context, o Options) (*Outline, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	out := Outline{Skipped: r.result.Skipped}
	out.Limit, out.Source = machine.MemoryLimit()
	most := r.Plan.Blocks // per cell
	for _, c := range r.cells {
		block, timed := c.guess(r.Plan, len(r.here.cpus))
		cell := OutlineCell{Name: c.String(), Blocks: r.Plan.Blocks, Block: block, Memory: c.memory(), Hosts: r.here.hosts.describe(c.Spec)}
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

// guess estimates the duration of one block of s, and the part of it that is timed
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
	return open + 4*round + warm + timed + timed/proofEvery, timed // a cold and two proved rounds take as long as four
}

// memory returns a low estimate of the bytes that a session of s needs in all its processes,
// including the harness's own: two models, an update, and the average if updates have
// another layout.
func (s Spec) memory() int64 {
	held := 2*s.Model.Layout.Size() + s.up().Layout.Size() + memoryOfServer
	if !s.inside() {
		held += memoryOfWorker * s.processes()
	}
	if s.up() != s.Model {
		held += s.up().Layout.Size()
	}
	if s.Variant.Codec().Lossy() { // the server's own model, and the update as it must arrive, for proofs
		held += s.Model.Layout.Size() + 2*s.up().Layout.Size()
	}
	return s.Variant.Footprint(s.options()) + int64(held)
}
