package analysis

import (
	"fmt"
	"slices"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/predict"
)

// A family is what cells have in common whose costs one fit adds up: everything but the
// model, its size, the numbers of workers and clients, and the rate of the link.
type family struct {
	variant, language               string
	change, values, scenario, train string
	trainMS, depth, perProcess      int
	nested, respawn, unlike         bool
	linked, remote                  bool
	crowded                         bool // lanes wait for processors
}

// familyOf returns that of c on the machine of r.
func familyOf(c *bench.Cell, r *Result) family {
	f := family{
		variant: c.Variant, language: c.Language, change: c.Change, values: c.Values, scenario: c.Scenario, train: c.Train,
		trainMS: c.TrainMS, depth: c.Depth, perProcess: c.PerProcess, nested: c.Nested, respawn: c.Respawn, unlike: c.Model.Up != "", linked: c.Link != "", remote: c.Launcher == agents, crowded: c.Workers > r.processors(),
	}
	if c.Variant == Control { // whose lanes are all in one process
		f.perProcess = 0
	}
	return f
}

// differs returns the name of the first setting in which two families of one variant
// differ, as users write it.
func (f family) differs(g family) string {
	for _, of := range []struct {
		name string
		is   bool
	}{
		{"link", f.linked != g.linked}, {"language", f.language != g.language}, {"train", f.train != g.train}, {"train-ms", f.trainMS != g.trainMS},
		{"scenario", f.scenario != g.scenario}, {"change", f.change != g.change}, {"values", f.values != g.values}, {"up", f.unlike != g.unlike},
		{"respawn", f.respawn != g.respawn}, {"nested", f.nested != g.nested}, {"depth", f.depth != g.depth}, {"lanes-per-process", f.perProcess != g.perProcess},
		{"agents", f.remote != g.remote}, {"load of processors", f.crowded != g.crowded},
	} {
		if of.is {
			return of.name
		}
	}
	return ""
}

// unfit returns why the cell is left out of fits, or nothing.
func (c *Cell) unfit() string {
	m := c.Marks()
	_, rated := Rate(c.Link)
	switch {
	case c.Build == "base":
		return "another build"
	case c.Unproved != "" || !c.Proved():
		return "not proved"
	case m.Interrupted:
		return "interrupted"
	case len(c.timed) == 0:
		return "profiled alone"
	case m.Astray:
		return "went another way"
	case m.Modes != nil:
		return "two groups of rounds"
	case m.Drift != stat.Trend{}:
		return "drifts"
	case !c.cost().Known():
		return "no control"
	case c.cost().Confidence == 0:
		return "one block"
	case c.shaped() && !rated:
		return "delay"
	}
	return ""
}

// cost is what fits add up: of a control its round, of others their overhead.
func (c *Cell) cost() stat.Interval {
	if c.IsControl() {
		return c.Of("round")
	}
	return c.Of("overhead")
}

// point is the cell as fits take it.
func (c *Cell) point() predict.Point {
	cost := c.cost()
	return predict.Point{
		Shape: fmt.Sprint(c.Model.Tensors, c.Model.Bytes, c.Model.UpTensors, c.Model.UpBytes), Work: workOf(c.Cell, c.result), Value: cost.Center, Half: cost.Half(), Round: c.Of("round").Center,
	}
}

func (r *Result) processors() int { return max(1, r.Environment.Processors()) }

// CacheThatCounts returns how much of a last-level cache makes a difference to cells over
// a link: none if that has at most 1 Gbit/s, which are 8 ns a byte, where memory takes
// some 0.4.
func CacheThatCounts(cache int64, link string) int64 {
	if bits, ok := Rate(link); ok && bits <= 1e9 {
		return 0
	}
	return cache
}

// workOf is what a round of c does on the machine of r.
func workOf(c *bench.Cell, r *Result) predict.Work {
	w := predict.Work{
		Clients: c.Clients, Lanes: c.Workers, Processors: r.processors(), Tensors: float64(2 * c.Model.Tensors),
		Bytes: float64(c.Model.Payload()), Up: float64(c.Model.Payload() - c.Model.Bytes), Resident: float64(c.Resident()),
		Cache: float64(CacheThatCounts(r.Environment.LLC, c.Link)),
	}
	if c.Model.Up != "" {
		w.Tensors = float64(c.Model.Tensors + c.Model.UpTensors)
	}
	if bits, ok := Rate(c.Link); ok {
		w.Link = bits / 8
	}
	return w
}

// A LeftOut says how many cells were left out of fits, and why.
type LeftOut struct {
	Why     string // what is wrong with them, or the setting in which they differ
	Setting bool   // it is a setting
	Cells   int
}

// counts adds up why cells are left out.
type counts []LeftOut

func (n *counts) add(l LeftOut) {
	i := slices.IndexFunc(*n, func(o LeftOut) bool { return o.Why == l.Why })
	if i < 0 {
		*n = append(*n, l)
		return
	}
	(*n)[i].Cells += l.Cells
}

// A Family is cells of one transport with the same settings, and the fit of their costs.
type Family struct {
	First   *Cell   // of all that it may be made of
	Cells   []*Cell // those that the fit is made of
	Fit     *predict.Fit
	Why     error // that there is no fit
	LeftOut []LeftOut
}

// Families returns those of the result, without controls, that have cells of more than
// one shape. They have all cells, also those that [Result.Narrow] leaves out.
func (r *Result) Families() []Family {
	var all []Family
	ours := slices.DeleteFunc(slices.Clone(r.all), func(c *Cell) bool { return c.Transport == Control || c.Peer != "" })
	for _, cells := range GroupBy(ours, func(c *Cell) family { return familyOf(c.Cell, r) }) {
		if slices.ContainsFunc(cells, func(c *Cell) bool { return c.Model != cells[0].Model }) {
			all = append(all, fitted(cells))
		}
	}
	return all
}

// fitted returns the family of cells that are of one.
func fitted(cells []*Cell) Family {
	var f Family
	if len(cells) > 0 {
		f.First = cells[0]
	}
	var n counts
	var points []predict.Point
	for _, c := range cells {
		if why := c.unfit(); why != "" {
			n.add(LeftOut{Why: why, Cells: 1})
			continue
		}
		f.Cells, points = append(f.Cells, c), append(points, c.point())
	}
	f.LeftOut = n
	f.Fit, f.Why = predict.New(points)
	return f
}

// A Foretold is a measured cell beside what all cells of other shapes predict for it.
type Foretold struct {
	Cell *Cell
	predict.Held
}

// Foretold returns all cells of the family; none if it has no fit.
func (f Family) Foretold() []Foretold {
	if f.Fit == nil {
		return nil
	}
	all := make([]Foretold, len(f.Cells))
	for i, h := range f.Fit.HeldOut() {
		all[i] = Foretold{f.Cells[i], h}
	}
	return all
}
