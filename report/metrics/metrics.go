// Package metrics computes what is known of the cells of a result: numbers with units and
// intervals, and which cells of those that did the same work are the fastest. It holds no
// sentences and no layout; package report has those.
//
//   - [New] wraps a [result.Result]. Each statistic is computed once, when it is
//     asked for.
//   - [Metrics] is the table of all that is computed from a cell. A metric is
//     one entry in it, and its Help is the one definition of it.
//   - [Result.Verdicts] ranks the transports that did the same work.
//
// All statistics are those of package stat. Nothing here changes the result
// that it is given; a [Result] is not safe for concurrent use.
package metrics

import (
	"cmp"
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
	Control  = "inproc" // the same round without leaving the process
	Baseline = "pickle" // what a process pool does if nobody thinks about it
)

// The settings tls of what travels in the clear, and of what has certificates at both
// ends.
const (
	NoTLS     = "off"
	MutualTLS = "mutual"
)

// A Result is a measured result with what is computed from it.
type Result struct {
	*result.Result
	Cells []*Cell // in the order of the result

	metrics map[string]Metric // by name
	linked  bool              // some cells are on a link
	kept    map[string]any    // by name: see Keep
}

// With returns the result with these of its cells alone, or in another order.
func (r *Result) With(cells []*Cell) *Result {
	some := *r
	some.Cells, some.kept = cells, map[string]any{}
	return &some
}

// Keep returns what of makes of a result, by a name. It is made once.
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
	Control   *Cell // the control of the same work: the cell itself if it is one, nil if there is none
	result    *Result
	timed     []result.Block
	medians   map[string][]float64
	intervals map[string]stat.Interval
	marks     func() Marks // computes them once
	counted   map[*result.Block]map[string]int64
}

// A Group is what cells have in common that did the same work.
type Group struct {
	Build            string // base, head, or empty where there is one build only
	Model            result.Model
	Workers, Clients int

	result.Setup      // dimensions that rank
	NoLink       bool // the cells are on no link, and others of the result are
}

// Headings says in words what the group does differently from the usual cell.
func (g Group) Headings() []string {
	all := g.Setup.Headings()
	if g.NoLink {
		all = append(all, "no link")
	}
	return all
}

// New returns the analysis of r. It keeps r, and does not change it.
func New(r *result.Result) *Result {
	a := &Result{Result: r, metrics: named(), kept: map[string]any{}}
	a.linked = slices.ContainsFunc(r.Cells, func(c result.Cell) bool { return c.Link != link.Rate{} })
	controls := map[Group]*Cell{}
	for i := range r.Cells {
		c := &Cell{
			Cell: &r.Cells[i], result: a, timed: r.Cells[i].Timed(),
			medians: map[string][]float64{}, intervals: map[string]stat.Interval{}, counted: map[*result.Block]map[string]int64{},
		}
		c.marks = sync.OnceValue(c.findMarks)
		a.Cells = append(a.Cells, c)
		if c.IsControl() {
			controls[c.paired()] = c
		}
	}
	for _, c := range a.Cells {
		if c.Train == "" { // a control does not run a user's worker function
			c.Control = controls[c.paired()]
		}
	}
	return a
}

// Group returns the cell's group.
func (c *Cell) Group() Group {
	g := c.Work()
	g.Link = c.Link
	g.NoLink = c.result.linked && c.Link == link.Rate{}
	return g
}

// Work is what the cell does, on whatever link.
func (c *Cell) Work() Group {
	g := c.paired()
	g.Setup = c.Only(result.Ranks)
	g.Link = link.Rate{}
	return g
}

// paired is what the cell has in common with its control.
func (c *Cell) paired() Group {
	return Group{Build: c.Build, Model: c.Model, Workers: c.Workers, Clients: c.Clients, Setup: c.Only(result.Binds)}
}

// without is the cell's variant but for a setting.
func (c *Cell) without(setting string) string {
	return strings.Replace(c.Variant, ":"+setting+"="+c.Settings[setting], "", 1)
}

// OverTCP reports whether the cell's tensors go over TCP.
func (c *Cell) OverTCP() bool { return c.Link != link.Rate{} || c.Settings["network"] == "tcp" }

// TLS returns how the cell's connections are encrypted: off, on or mutual.
func (c *Cell) TLS() string { return cmp.Or(c.Settings["tls"], NoTLS) }

// InTheClear is the cell's variant but for its TLS.
func (c *Cell) InTheClear() string { return c.without("tls") }

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
func (c *Cell) IsControl() bool { return c.Variant == Control && c.Link == link.Rate{} && c.Peer == "" }

// Label is the cell's variant, with the language of its workers if that is not Go.
func (c *Cell) Label() string {
	return InLanguage(c.Variant, c.Language)
}

// InLanguage is a name with the language of workers behind it, if that is not Go.
func InLanguage(name, language string) string {
	if language == "" {
		return name
	}
	return name + " (" + language + ")"
}

// TakesPart reports whether the cell is one of those of which one is the fastest: no
// control, and no peer's that could not prove its rounds.
func (c *Cell) TakesPart() bool { return !c.IsControl() && c.Unproved == "" }

// Name is the cell's identity with its build.
func (c *Cell) Name() string {
	if c.Build == "" {
		return c.ID()
	}
	return c.ID() + " " + c.Build
}

// Timed returns the blocks whose times count. The caller must not change them.
func (c *Cell) Timed() []result.Block { return c.timed }

// counts returns the counters of a block, which are added up once.
func (c *Cell) counts(b *result.Block) map[string]int64 {
	if c.counted[b] == nil {
		c.counted[b] = b.Counts()
	}
	return c.counted[b]
}

// Rounds returns the number of timed rounds.
func (c *Cell) Rounds() int { return c.Of("round").N }

// GroupBy returns items by key, in the order in which keys are met first.
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

// Groups returns the cells by group, in the order of the result. No group is
// empty.
func (r *Result) Groups() [][]*Cell { return GroupBy(r.Cells, (*Cell).Group) }

// EnvironmentOf returns the environment that a build ran in.
func (r *Result) EnvironmentOf(build string) machine.Environment {
	if build == "base" && r.Against != nil {
		return *r.Against
	}
	return r.Environment
}

// Of returns the named metric of the cell. It is not Known where the cell has
// none. Of panics if there is no metric of that name.
func (c *Cell) Of(name string) stat.Interval {
	i, ok := c.intervals[name]
	if !ok {
		m := c.result.metric(name)
		i = m.source.of(c, m)
		c.intervals[name] = i
	}
	return i
}

// Medians returns the median of each block of a sampled metric, without the
// blocks that have no sample. The caller must not change it.
func (c *Cell) Medians(name string) []float64 {
	m, ok := c.medians[name]
	if !ok {
		m = stat.Medians(c.Samples(name))
		c.medians[name] = m
	}
	return m
}

// Samples returns the samples of a sampled metric by block, for all blocks of
// [Cell.Timed].
func (c *Cell) Samples(name string) [][]float64 { return c.samples(name, c.timed) }

func (c *Cell) samples(name string, of []result.Block) [][]float64 {
	m := c.result.metric(name)
	all := make([][]float64, len(of))
	for i := range of {
		all[i] = m.source.samples(c, &of[i], m.Unit)
	}
	return all
}

// metric returns the metric of a name that is written in the program.
func (r *Result) metric(name string) Metric {
	m, ok := r.metrics[name]
	if !ok {
		panic("metrics: no metric " + name)
	}
	return m
}

// More returns by how much a sampled metric of c is larger than that of other, in
// the metric's unit.
func (c *Cell) More(name string, other *Cell) stat.Interval {
	return stat.Shift(other.Medians(name), c.Medians(name))
}

// Ratio returns a sampled metric of c over that of other.
func (c *Cell) Ratio(name string, other *Cell) stat.Interval {
	return stat.Ratio(other.Medians(name), c.Medians(name))
}
