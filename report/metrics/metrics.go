// Package metrics computes a cell's numbers, with units and intervals, and says by which of them cells are ranked.
// It has no sentences and no layout, which are in packages answer and table.
//
//   - [New] wraps a [result.Result]. Each statistic is computed once, when it is first
//     needed.
//   - [Metrics] lists all quantities that are computed for a cell. Each is one entry, and
//     its Help is its only definition.
//
// All statistics are computed by package stat. Nothing here changes the wrapped result. A
// [Result] is not safe for concurrent use.
package metrics

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
)

// The transports that others are compared with.
const (
	Control  = "inproc" // the same round inside one process
	Baseline = "pickle" // the default of process pools
)

// Values of the setting tls: no encryption, and certificates at both ends.
const (
	NoTLS     = "off"
	MutualTLS = "mutual"
)

// A Result is a measured result with the statistics computed from it.
type Result struct {
	*result.Result
	Cells []*Cell // in the order of the result

	metrics map[string]Metric // by name
	run     []*Cell           // all cells, also if Cells has fewer
	linked  bool              // some cells are on a link
	kept    map[string]any    // by the names given to Keep
}

// With returns a copy of r that has exactly these of its cells, in this order. Values stored by
// [Keep] are not copied.
func (r *Result) With(cells []*Cell) *Result {
	some := *r
	some.Cells, some.kept = cells, map[string]any{}
	return &some
}

// Keep returns the value stored in r under that name. If there is none, it calls of and
// stores the result.
func Keep[T any](r *Result, name string, of func() T) T {
	made, ok := r.kept[name].(T)
	if !ok {
		made = of()
		r.kept[name] = made
	}
	return made
}

// A Cell is one cell of a result.
type Cell struct {
	*result.Cell
	Control   *Cell // control of the same work: the cell itself if it is one, nil if there is none
	result    *Result
	timed     []result.Block
	medians   map[string][]float64
	intervals map[string]stat.Interval
	trends    func() ([]stat.Mode, stat.Trend) // computes them once
	counted   map[*result.Block]map[string]int64
}

// A Group identifies work: cells of equal groups did the same work, and are ranked together.
type Group struct {
	Program          string // the build, if there are several; empty for all others
	Model            result.Model
	Workers, Clients int

	result.Setup      // only its dimensions that separate groups (result.Ranks)
	NoLink       bool // the cells have no link, but other cells of the result have one
}

// Headings describes in words each difference between the group and the usual cell.
func (g Group) Headings() []string {
	all := g.Setup.Headings()
	if g.NoLink {
		all = append(all, "no link")
	}
	return all
}

// New returns a Result for r. It keeps a reference to r, and does not change it.
func New(r *result.Result) *Result {
	a := &Result{Result: r, metrics: named(), kept: map[string]any{}}
	a.linked = slices.ContainsFunc(r.Cells, func(c result.Cell) bool { return c.Link != link.Rate{} })
	controls := map[Group]*Cell{}
	for i := range r.Cells {
		c := &Cell{
			Cell: &r.Cells[i], result: a, timed: r.Cells[i].Timed(),
			medians: map[string][]float64{}, intervals: map[string]stat.Interval{}, counted: map[*result.Block]map[string]int64{},
		}
		c.trends = sync.OnceValues(c.findTrends)
		a.Cells = append(a.Cells, c)
		if c.IsControl() {
			controls[c.paired()] = c
		}
	}
	for _, c := range a.Cells {
		if c.Train == "" { // with a user's worker function, there is no control
			c.Control = controls[c.paired()]
		}
	}
	a.run = slices.Clone(a.Cells)
	return a
}

// Group returns the cell's group.
func (c *Cell) Group() Group {
	g := c.Work()
	g.Link = c.Link
	g.NoLink = c.result.linked && c.Link == link.Rate{}
	return g
}

// Work returns the cell's group, ignoring its link.
func (c *Cell) Work() Group {
	g := c.paired()
	g.Setup = c.Only(result.Ranks)
	g.Link = link.Rate{}
	return g
}

// paired returns the key that a cell shares with its control.
func (c *Cell) paired() Group {
	return Group{Program: c.Build(), Model: c.Model, Workers: c.Workers, Clients: c.Clients, Setup: c.Only(result.Binds)}
}

// Without returns the cell's variant without these settings. Each part of a variant's text after
// its name is a setting, because no value contains a colon.
func (c *Cell) Without(settings ...string) string {
	parts := slices.DeleteFunc(strings.Split(c.Variant, ":"), func(part string) bool {
		key, _, isSetting := strings.Cut(part, "=")
		return isSetting && slices.Contains(settings, key)
	})
	return strings.Join(parts, ":")
}

// OverTCP reports whether the cell's tensors are sent over TCP.
func (c *Cell) OverTCP() bool { return c.Link != link.Rate{} || c.Settings["network"] == "tcp" }

// TLS returns how the cell's connections are encrypted: off, on or mutual.
func (c *Cell) TLS() string { return cmp.Or(c.Settings["tls"], NoTLS) }

// Ciphers returns the cipher suites of the cell's connections.
func (c *Cell) Ciphers() []string {
	var all []string
	for _, b := range c.timed {
		if b.TLS != nil && b.TLS.Cipher != "" && !slices.Contains(all, b.TLS.Cipher) {
			all = append(all, b.TLS.Cipher)
		}
	}
	return all
}

// IsControl reports whether the cell is a control.
func (c *Cell) IsControl() bool { return c.Variant == Control && c.Link == link.Rate{} && !c.IsPeer() }

// Label returns the cell's variant, with the language of its workers if that is not Go.
func (c *Cell) Label() string {
	return InLanguage(c.Variant, c.Language)
}

// InLanguage returns the name followed by the language of workers, which is empty for Go.
func InLanguage(name, language string) string {
	if language == "" {
		return name
	}
	return name + " (" + language + ")"
}

// Lacks names the part of its project that a reference row lacks here; empty if none.
func (c *Cell) Lacks() string { return c.Versions()["lacks"] }

// Ranked reports whether the cell is ranked: it is neither a control, nor an unproved peer, nor a
// reference row that lacks a part of its project.
func (c *Cell) Ranked() bool { return !c.IsControl() && c.Unproved == "" && c.Lacks() == "" }

// Name returns the cell's identity, with its build if there are two.
func (c *Cell) Name() string {
	return strings.TrimSpace(c.ID() + " " + c.Build())
}

// Timed returns the blocks whose times count. The caller must not change them.
func (c *Cell) Timed() []result.Block { return c.timed }

// counts returns the counters of a block, summed over its processes. They are computed once.
func (c *Cell) counts(b *result.Block) map[string]int64 {
	if c.counted[b] == nil {
		c.counted[b] = b.Counts()
	}
	return c.counted[b]
}

// Rounds returns the number of timed rounds.
func (c *Cell) Rounds() int { return c.Of("round").N }

// GroupBy splits items by key, in the order in which keys first appear.
func GroupBy[T any, K comparable](items []T, key func(T) K) (all [][]T) {
	at := map[K]int{}
	for _, x := range items {
		k := key(x)
		if _, ok := at[k]; !ok {
			at[k], all = len(all), append(all, nil)
		}
		all[at[k]] = append(all[at[k]], x)
	}
	return all
}

// Groups splits the cells by group, in the order of the result. No group is empty.
func (r *Result) Groups() [][]*Cell { return GroupBy(r.Cells, (*Cell).Group) }

// Environment returns the environment that the cell ran in.
func (c *Cell) Environment() machine.Environment {
	if p := c.program(); p.Environment != nil {
		return *p.Environment
	}
	return c.result.Environment
}

// program returns the program that ran the cell; empty if it was the measuring process.
func (c *Cell) program() result.Program {
	if p := c.result.ProgramOf(c.Cell); p != nil {
		return *p
	}
	return result.Program{}
}

// Command returns the command of the peer that ran the cell; empty if none did.
func (c *Cell) Command() string { return c.program().Command }

// Versions returns the software versions that the cell's peer, or its workers, reported.
func (c *Cell) Versions() map[string]string {
	if c.IsPeer() {
		return c.program().Software
	}
	return c.Software
}

// Of returns the named metric of the cell. It is not Known if it cannot be computed for
// this cell. Of panics if there is no metric of that name.
func (c *Cell) Of(name string) stat.Interval {
	i, ok := c.intervals[name]
	if !ok {
		if compute, is := c.result.metric(name).source.(derived); is {
			i = compute(c)
		} else {
			i = stat.Of(c.Samples(name))
		}
		c.intervals[name] = i
	}
	return i
}

// Medians returns the median of a sampled metric in each block that has samples. The
// caller must not change it.
func (c *Cell) Medians(name string) []float64 {
	m, ok := c.medians[name]
	if !ok {
		m = stat.Medians(c.Samples(name))
		c.medians[name] = m
	}
	return m
}

// Samples returns the samples of a sampled metric in each block of [Cell.Timed].
func (c *Cell) Samples(name string) [][]float64 { return c.samples(name, c.timed) }

func (c *Cell) samples(name string, of []result.Block) [][]float64 {
	m := c.result.metric(name)
	all := make([][]float64, len(of))
	for i := range of {
		all[i] = m.source.samples(c, &of[i], m.Unit)
	}
	return all
}

// metric returns the metric of that name. It panics if there is none, because names are
// constants of the program.
func (r *Result) metric(name string) Metric {
	m, ok := r.metrics[name]
	if !ok {
		panic("metrics: no metric " + name)
	}
	return m
}

// SameRun reports whether one run measured both cells, and so took turns with them.
func (c *Cell) SameRun(other *Cell) bool { return c.result.Result == other.result.Result }

// Extended reports whether the cell has more blocks than its run planned. A plan with a precision
// leaves their number open.
func (c *Cell) Extended() bool {
	plan := c.result.Plan
	return plan.Precision == 0 && plan.Blocks > 0 && len(c.timed) > plan.Blocks
}

// RoundsPerBlock returns the smallest and the largest number of timed rounds in a block of some cells.
func RoundsPerBlock(cells ...*Cell) (least, most int) {
	least = math.MaxInt
	for _, c := range cells {
		for _, b := range c.timed {
			least, most = min(least, len(b.Round)), max(most, len(b.Round))
		}
	}
	return min(least, most), most // 0 without blocks
}
