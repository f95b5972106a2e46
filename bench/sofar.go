package bench

import (
	"cmp"
	"fmt"
	"time"

	"ipcbench/tensor"
)

// savingShare bounds what saving takes, of the run's time.
const savingShare = 0.02

// save saves what was measured so far. It is called between cycles, so that
// nothing is timed meanwhile.
func (r *run) save() {
	start := time.Now()
	if r.Save == nil || start.Before(r.nextSave) {
		return
	}
	r.progress("saving the result so far")
	_ = r.Save(r.sofar("the run was going on when this was saved")) // the end tries again, and says what is wrong
	r.nextSave = time.Now().Add(time.Duration(float64(time.Since(start)) / savingShare))
}

// sofar returns the result of what was run so far, marked with why it is partial
// unless that is empty. It shares memory with the run, whose next block changes
// it.
func (r *run) sofar(partial string) *Result {
	result := *r.result
	result.Partial = partial
	result.Elapsed = time.Since(r.started)
	for _, c := range r.cells {
		if len(c.result.Blocks) > 0 && c.canary == "" {
			result.Cells = append(result.Cells, c.sofar())
		}
	}
	result.Canary = r.canaries()
	for _, f := range r.floors {
		if len(f.Blocks) > 0 {
			result.Floors = append(result.Floors, *f)
		}
	}
	for _, ch := range r.chains {
		if len(ch.work) > 0 {
			direct := ch.cell // which burns nothing besides, and nests nothing
			direct.TrainMS, direct.Nested = 0, false
			result.Floors = append(result.Floors, *direct.named().Workload().floor(Floor{
				Name: "work", Unit: "s", Clients: ch.cell.Clients, Blocks: ch.work,
				Help: "the arithmetic of a round, trained and folded by direct calls",
			}))
		}
	}
	return &result
}

func (c *cell) sofar() Cell {
	result := c.result
	result.Stopped = cmp.Or(result.Stopped, "interrupted")
	return result
}

// What numbers of a result take in its file, in bytes: nanoseconds, and the
// samples of floors, with what separates them. Fewer as a rule.
const (
	numberBytes = 11
	sampleBytes = 22
	blockBytes  = 4 << 10 // of a block besides
)

// size returns about what a block of so many rounds takes in the file.
func (s Spec) size(rounds int) int64 {
	perRound := 1 + 4*int64(kept(rounds, s.Clients, s.Workers))
	return blockBytes + int64(rounds)*perRound*numberBytes
}

// full reports whether another block of every cell might make the result, or a
// part of it, too large to be read again.
func (r *run) full() bool {
	var sum, floors int64
	for _, c := range r.cells {
		var size, block int64
		for i := range c.result.Blocks {
			block = c.size(len(c.result.Blocks[i].Round))
			size += block
		}
		if size += block; size > largestCell {
			return true
		}
		sum += size
	}
	for _, f := range r.floors {
		for _, b := range f.Blocks {
			floors += int64(len(b)) * sampleBytes
		}
	}
	return floors > largestValue*9/10 || sum+floors > maxFile
}

// CheckSize reports that the fewest blocks of the cells would make a result too
// large to be read again.
func (o Options) CheckSize() error {
	var sum int64
	for _, s := range withControls(o.Cells, o.Control) {
		rounds := max(o.Plan.least()*o.Plan.Blocks, o.Plan.Rounds)
		size := int64(o.Plan.Blocks) * s.size((rounds+o.Plan.Blocks-1)/o.Plan.Blocks)
		if len(o.Against) > 0 {
			size *= 2
		}
		if sum += size; size > largestCell || sum > maxFile {
			return fmt.Errorf("--clients %d: with %d blocks of at least %d rounds of each cell, the result would be larger than the %s that are read again: choose fewer clients, rounds, blocks or cells",
				s.Clients, o.Plan.Blocks, rounds/o.Plan.Blocks, tensor.FormatBytes(maxFile))
		}
	}
	return nil
}
