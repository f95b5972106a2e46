package bench

import (
	"cmp"
	"time"

	"ipcbench/bench/result"
)

// save calls Save with the result so far. It is called between cycles, when nothing is timed.
func (r *run) save() {
	if r.Save == nil {
		return
	}
	r.progress("saving the result so far")
	// Run's caller saves again at the end, and reports an error then.
	_ = r.Save(r.sofar("saved during the run, which did not finish"))
}

// sofar returns the result so far; partial, if not empty, is the reason why it is
// incomplete. It shares memory with the run, so it is valid until the next block.
func (r *run) sofar(partial string) *result.Result {
	all := *r.result
	all.Partial = result.Printable(oneLine(partial))
	all.Elapsed = time.Since(r.started) - r.paused
	for _, c := range r.cells {
		if len(c.result.Blocks) > 0 && c.canary == "" {
			all.Cells = append(all.Cells, c.sofar())
		}
	}
	all.Canary = r.canaries()
	if why := r.untried(); r.Options.Canary > 0 && why != "" {
		all.Untried = &result.Untried{Slowdown: r.Options.Canary, Why: why}
	}
	for _, f := range r.floors {
		if len(f.Blocks) > 0 {
			all.Floors = append(all.Floors, *f)
		}
	}
	for _, ch := range r.chains {
		if len(ch.Work) > 0 {
			all.Floors = append(all.Floors, *workFloor(ch))
		}
	}
	return &all
}

// interrupted is why a cell ended that needed more blocks.
const interrupted = "interrupted"

func (c *cell) sofar() result.Cell {
	copied := c.result
	copied.Stopped = cmp.Or(copied.Stopped, interrupted)
	return copied
}
