package bench

import (
	"cmp"
	"time"

	"ipcbench/bench/result"
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
	all := *r.result
	all.Partial = result.Printable(oneLine(partial))
	all.Elapsed = time.Since(r.started)
	for _, c := range r.cells {
		if len(c.result.Blocks) > 0 && c.canary == "" {
			all.Cells = append(all.Cells, c.sofar())
		}
	}
	all.Canary = r.canaries()
	for _, f := range r.floors {
		if len(f.Blocks) > 0 {
			all.Floors = append(all.Floors, *f)
		}
	}
	for _, ch := range r.chains {
		if len(ch.work) > 0 {
			direct := ch.cell // which burns nothing besides, and nests nothing
			direct.Setup = direct.Only(result.Chains)
			all.Floors = append(all.Floors, *direct.Cell().Workload().Floor(Floor{
				Name: "work", Unit: "s", Clients: ch.cell.Clients, Blocks: ch.work,
				Help: "the arithmetic of a round, trained and folded by direct calls",
			}))
		}
	}
	return &all
}

func (c *cell) sofar() Cell {
	so := c.result
	so.Stopped = cmp.Or(so.Stopped, "interrupted")
	return so
}
