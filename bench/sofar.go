package bench

import (
	"cmp"
	"time"

	"ipcbench/bench/result"
)

// savingShare is the largest share of the run's time that saving may use.
const savingShare = 0.02

// save calls Save with the result so far, if it is time to. It is called between cycles,
// when nothing is timed.
func (r *run) save() {
	start := time.Now()
	if r.Save == nil || start.Before(r.nextSave) {
		return
	}
	r.progress("saving the result so far")
	// Run's caller saves again at the end, and reports an error then.
	_ = r.Save(r.sofar("saved during the run, which did not finish"))
	r.nextSave = time.Now().Add(time.Duration(float64(time.Since(start)) / savingShare))
}

// sofar returns the result so far; partial, if not empty, is the reason why it is
// incomplete. It shares memory with the run, so it is valid until the next block.
func (r *run) sofar(partial string) *result.Result {
	all := *r.result
	all.Partial = result.Printable(oneLine(partial))
	all.Elapsed = time.Since(r.started)
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
			direct := ch.Spec // direct calls burn no extra time and nest no values
			direct.Setup = direct.Only(result.Chains)
			all.Floors = append(all.Floors, *direct.Cell().Workload().Floor(result.Floor{
				Name: "work", Unit: "s", Clients: ch.Spec.Clients, Blocks: ch.Work,
				Help: "the arithmetic of a round, training and averaging by direct calls",
			}))
		}
	}
	return &all
}

func (c *cell) sofar() result.Cell {
	copied := c.result
	copied.Stopped = cmp.Or(copied.Stopped, "interrupted")
	return copied
}
