package report

import (
	"slices"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/machine"
)

// view is a result with what is computed from it. Each statistic is computed
// once.
type view struct {
	*bench.Result
	cells   []*cell
	metrics map[string]Metric
}

// cell is one cell of a result.
type cell struct {
	*bench.Cell
	view      *view
	timed     []bench.Block
	control   *cell // with the same work; itself if it is the control, nil if there is none
	medians   map[string][]float64
	intervals map[string]stat.Interval
}

func newView(r *bench.Result) *view {
	v := &view{Result: r, metrics: map[string]Metric{}}
	for _, m := range Metrics() {
		v.metrics[m.Name] = m
	}
	controls := map[group]*cell{}
	for i := range r.Cells {
		c := &cell{
			Cell: &r.Cells[i], view: v, timed: r.Cells[i].Timed(),
			medians: map[string][]float64{}, intervals: map[string]stat.Interval{},
		}
		v.cells = append(v.cells, c)
		if c.Variant == control {
			controls[c.group()] = c
		}
	}
	for _, c := range v.cells {
		c.control = controls[c.group()]
	}
	return v
}

// group is what the cells of one table have in common: the same work.
type group struct {
	build            string
	model            bench.Model
	workers, clients int
}

func (c *cell) group() group {
	return group{c.Build, c.Model, c.Workers, c.Clients}
}

// grouped returns items by key, in the order in which keys are met first.
func grouped[T any, K comparable](items []T, key func(T) K) [][]T {
	var all [][]T
	at := map[K]int{}
	for _, x := range items {
		k := key(x)
		i, ok := at[k]
		if !ok {
			i = len(all)
			at[k], all = i, append(all, nil)
		}
		all[i] = append(all[i], x)
	}
	return all
}

// groups returns the cells by group, in the order of the result.
func (v *view) groups() [][]*cell { return grouped(v.cells, (*cell).group) }

// builds returns the builds of the cells, in their order: one without a name, or
// base and head.
func (v *view) builds() []string {
	var all []string
	for _, cells := range grouped(v.cells, func(c *cell) string { return c.Build }) {
		all = append(all, cells[0].Build)
	}
	return all
}

// environmentOf returns what a build saw.
func (v *view) environmentOf(build string) machine.Environment {
	if build == "base" && v.Against != nil {
		return *v.Against
	}
	return v.Environment
}

// fullCommit names what a build was made of, for other programs.
func fullCommit(e machine.Environment) string {
	if e.Dirty {
		return e.Commit + "+dirty"
	}
	return e.Commit
}

// find returns the cell of a variant among cells, or nil.
func find(cells []*cell, variant string) *cell {
	if i := slices.IndexFunc(cells, func(c *cell) bool { return c.Variant == variant }); i >= 0 {
		return cells[i]
	}
	return nil
}

// A series is the samples of one block.
type series func(c *cell, b *bench.Block) []float64

// blocks returns the samples of all blocks that count.
func (c *cell) blocks(s series) [][]float64 { return c.samples(s, c.timed) }

func (c *cell) samples(s series, of []bench.Block) [][]float64 {
	all := make([][]float64, len(of))
	for i := range of {
		all[i] = s(c, &of[i])
	}
	return all
}

// rounds returns the number of timed rounds.
func (c *cell) rounds() int {
	n := 0
	for _, b := range c.timed {
		n += len(b.Round)
	}
	return n
}

// of returns the named metric.
func (c *cell) of(name string) stat.Interval {
	i, ok := c.intervals[name]
	if !ok {
		i = c.view.metric(name).of(c)
		c.intervals[name] = i
	}
	return i
}

// medianOf returns the medians of the blocks of a sampled metric.
func (c *cell) medianOf(name string) []float64 {
	m, ok := c.medians[name]
	if !ok {
		m = stat.Medians(c.blocks(c.view.metric(name).samples))
		c.medians[name] = m
	}
	return m
}

// pooled returns the samples of all blocks of a sampled metric.
func (c *cell) pooled(name string) []float64 {
	return stat.Pool(c.blocks(c.view.metric(name).samples))
}

// metric returns the metric of a name that is written in this package.
func (v *view) metric(name string) Metric {
	m, ok := v.metrics[name]
	if !ok {
		panic("report: no metric " + name)
	}
	return m
}

// seconds returns a series of durations.
func seconds(of func(b *bench.Block) []int64) series {
	return func(_ *cell, b *bench.Block) []float64 {
		ns := of(b)
		s := make([]float64, len(ns))
		for i, n := range ns {
			s[i] = float64(n) / float64(time.Second)
		}
		return s
	}
}

// each returns a series with one sample a block, or none where f does not know.
func each(f func(c *cell, b *bench.Block) (float64, bool)) series {
	return func(c *cell, b *bench.Block) []float64 {
		if x, ok := f(c, b); ok {
			return []float64{x}
		}
		return nil
	}
}

// processes returns the server and all workers of a block.
func processes(b *bench.Block) []*bench.Process {
	all := make([]*bench.Process, 0, 1+len(b.Processes))
	all = append(all, &b.Server)
	for i := range b.Processes {
		all = append(all, &b.Processes[i])
	}
	return all
}

// sum returns a series of what all processes of a block spent, over what per
// returns for it.
func sum(of func(p *bench.Process) (float64, bool), per func(c *cell, b *bench.Block) float64) series {
	return each(func(c *cell, b *bench.Block) (float64, bool) {
		total := 0.0
		for _, p := range processes(b) {
			x, ok := of(p)
			if !ok {
				return 0, false
			}
			total += x
		}
		d := per(c, b)
		return total / d, d > 0
	})
}

func perRound(_ *cell, b *bench.Block) float64 { return float64(len(b.Round)) }

// perGB is the payload that a block delivered in its timed rounds.
func perGB(c *cell, b *bench.Block) float64 {
	return float64(c.Payload()) * float64(len(b.Round)) / 1e9
}

func whole(*cell, *bench.Block) float64 { return 1 }
