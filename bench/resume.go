package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/machine"
)

// resume takes over the whole cycles of an interrupted run with the same plan, cells, programs, build and machine. What
// another cycle had begun is measured again. The next cycle is the one that would have followed, in the same order.
func (r *run) resume(old *result.Result) error {
	if old == nil {
		return nil
	}
	if err := r.differs(old); err != nil {
		return &Unlike{err}
	}
	before := map[*cell]*result.Cell{}
	for _, c := range r.cells {
		before[c] = c.in(old)
	}
	r.cycle = cyclesOf(before)
	for c, was := range before {
		if was != nil {
			c.takeOver(was, r.cycle)
			r.done += len(c.result.Blocks)
		}
	}
	for _, f := range old.Floors {
		r.takeOverFloor(f)
	}
	for _, s := range old.Skipped {
		if s.Floor != "" {
			r.result.Skipped = append(r.result.Skipped, s)
		}
	}
	r.result.Started, r.started, r.result.Pauses = old.Started, old.Started, old.Pauses
	ended := old.Elapsed
	for _, p := range old.Pauses {
		ended += p.Time
	}
	gap := result.Pause{At: ended, Time: max(0, time.Since(old.Started)-ended), Resumed: true}
	r.paused, r.result.Pauses = ended-old.Elapsed+gap.Time, append(r.result.Pauses, gap)
	if next := r.slot() * time.Duration(r.cycle); time.Since(old.Started) < next+r.slot() {
		r.began.boot -= time.Since(old.Started)
	} else { // the time of the next cycle is over, so all that follow are later
		r.began.boot -= next
	}
	return nil
}

// Unlike is the error of a run that cannot go on with the result that it should resume.
type Unlike struct{ error }

// Error names the flag.
func (e *Unlike) Error() string { return "--resume: " + e.error.Error() }

// differs returns an error for the first difference that keeps a run from going on with another.
func (r *run) differs(old *result.Result) error {
	if old.Partial == "" {
		return fmt.Errorf("the run is complete")
	}
	plans := [2]map[string]any{}
	for i, p := range []result.Plan{old.Plan, r.Plan} {
		text, _ := json.Marshal(p) // a plan has no value that cannot be written
		_ = json.Unmarshal(text, &plans[i])
	}
	for i := range plans {
		for name := range plans[1-i] {
			if _, ok := plans[i][name]; !ok {
				plans[i][name] = "none"
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(plans[0])) {
		if was, is := fmt.Sprint(plans[0][name]), fmt.Sprint(plans[1][name]); was != is {
			return fmt.Errorf("the file's plan has %s %s, and this run %s: give the same flags", name, was, is)
		}
	}
	names := func(of *result.Result, cells []string) string {
		for _, p := range of.Programs {
			cells = append(cells, p.Name+" "+p.Command)
		}
		return strings.Join(cells, "; ")
	}
	here, there := r.result.Environment, old.Environment
	for _, d := range machine.Diff(there, here) {
		return fmt.Errorf("another machine: %s", d)
	}
	if a, b := fmt.Sprint(there.Commit, there.Dirty), fmt.Sprint(here.Commit, here.Dirty); a != b {
		return fmt.Errorf("another build: %s in the file, %s here", a, b)
	}
	if a, b := names(old, nil), names(r.result, nil); a != b {
		return fmt.Errorf("other programs: %q in the file, %q here", a, b)
	}
	began := false // with a second cycle
	for _, o := range old.Cells {
		began = began || len(o.Blocks) > 1
		if !slices.ContainsFunc(r.cells, func(c *cell) bool { return c.result.ID() == o.ID() && c.result.Program == o.Program }) {
			return fmt.Errorf("the file has the cell %s, and this run has not: give the same flags", o.ID())
		}
	}
	for _, c := range r.cells {
		if began && c.in(old) == nil {
			return fmt.Errorf("the file lacks the cell %s: give the same flags", c)
		}
	}
	return nil
}

// in returns the result of c in an older run; nil if that had no block of c.
func (c *cell) in(old *result.Result) *result.Cell {
	if c.canary != "" {
		if old.Canary == nil {
			return nil
		}
		return map[canaryKind]*result.Cell{canarySame: &old.Canary.Same, canarySlow: &old.Canary.Slow}[c.canary]
	}
	for i := range old.Cells {
		if o := &old.Cells[i]; o.ID() == c.result.ID() && o.Program == c.result.Program && o.Hosts == c.result.Hosts {
			return o
		}
	}
	return nil
}

// cyclesOf returns the number of cycles in which each cell that was not done had a block.
func cyclesOf(cells map[*cell]*result.Cell) int {
	most, least := 0, -1
	for _, was := range cells {
		switch {
		case was == nil:
			return 0
		case was.Stopped == interrupted && (least < 0 || len(was.Timed()) < least):
			least = len(was.Timed())
		}
		most = max(most, len(was.Timed()))
	}
	if least < 0 {
		return most
	}
	return least
}

// takeOver continues with the blocks of c before that cycle.
func (c *cell) takeOver(was *result.Cell, cycle int) {
	blocks := was.Timed()
	c.result.Blocks = blocks[:min(len(blocks), cycle)]
	c.result.Coding, c.result.Software, c.result.Unproved = was.Coding, was.Software, was.Unproved
	if was.Stopped != interrupted {
		c.result.Stopped = was.Stopped
	}
	for i := range c.result.Blocks {
		c.spent += charge(&c.result.Blocks[i])
	}
}

// takeOverFloor continues with the samples of a floor.
func (r *run) takeOverFloor(f result.Floor) {
	for _, ch := range r.chains {
		if w := workFloor(ch); f.Name == w.Name && sameFloor(f, *w) {
			ch.Work = f.Blocks
			return
		}
	}
	i := slices.IndexFunc(r.floors, func(g *result.Floor) bool { return sameFloor(*g, f) })
	if i < 0 {
		i = len(r.floors)
		r.floors = append(r.floors, nil)
	}
	r.floors[i] = &f
	r.tried[condition{&f, f.Condition}] = f.Blocks
}

// sameFloor reports whether two floors limit the same.
func sameFloor(a, b result.Floor) bool {
	return a.Name == b.Name && a.Model == b.Model && a.Up == b.Up && a.Setup == b.Setup && a.Clients == b.Clients &&
		a.Variant == b.Variant && a.Host == b.Host && a.Bytes == b.Bytes
}

// workFloor returns the floor of direct calls.
func workFloor(ch *session.Chain) *result.Floor {
	direct := ch.Spec // direct calls burn no extra time and nest no values
	direct.Setup = direct.Only(result.Chains)
	return direct.Cell().Workload().Floor(result.Floor{
		Name: "work", Unit: "s", Clients: ch.Spec.Clients, Blocks: ch.Work,
		Help: "the arithmetic of a round, training and averaging by direct calls",
	})
}
