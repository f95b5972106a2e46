package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/machine"
)

// CompareOptions say what is compared and how sure it must be.
type CompareOptions struct {
	Metrics  []string // sampled ones, by name; round alone if empty
	Alpha    float64  // the probability of any false claim; 0.05 if zero
	Separate bool     // let the gate judge runs that were not interleaved
}

// A Comparison holds a base and a head against each other, cell by cell.
type Comparison struct {
	Base        string    `json:"base"` // what it is: a commit, or a build of an interleaved run
	Head        string    `json:"head"`
	Environment []string  `json:"environment_differences"` // that may explain any other
	Interleaved bool      `json:"interleaved"`             // blocks of both took turns
	Rows        []Row     `json:"-"`                       // of cells that both have
	OnlyBase    []string  `json:"only_base"`               // cells that the head lacks
	OnlyHead    []string  `json:"only_head"`               // cells that the base lacks
	Findings    []Finding `json:"findings"`                // about either
	alpha       float64
	separate    bool
	canary      bool // one was measured, so that a gate can be tried
}

// A Row is one metric of a cell in both.
type Row struct {
	Transport   string        `json:"transport"` // the variant
	Model       string        `json:"model"`
	Up          string        `json:"up,omitempty"` // where updates are unlike the model
	Workers     int           `json:"workers"`
	Clients     int           `json:"clients"`
	Metric      string        `json:"metric"`
	Unit        string        `json:"unit"`
	Better      string        `json:"better,omitempty"`
	Base        stat.Interval `json:"base"`
	Head        stat.Interval `json:"head"`
	Ratio       stat.Interval `json:"ratio"`       // head over base
	P           float64       `json:"p_corrected"` // Mann-Whitney, corrected by Holm for the number of rows
	Significant bool          `json:"significant"` // P is at most alpha
	Detectable  float64       `json:"-"`           // the smallest ratio that these blocks would have shown; infinite if none
}

// Worse reports by which factor the head is worse: above 1 if it is.
func (r Row) Worse() float64 {
	if r.Better == higher {
		return 1 / r.Ratio.Center
	}
	return r.Ratio.Center
}

// label names model and update.
func (r Row) label() string { return bench.Model{Name: r.Model, Up: r.Up}.Label() }

// name says whose row it is.
func (r Row) name() string {
	n := fmt.Sprintf("%s, %s, %s, %s", r.Transport, r.label(), plural(r.Workers, "worker"), plural(r.Clients, "client"))
	if r.Metric != "round" {
		n += ", " + r.Metric
	}
	return n
}

// Compare holds head against base. Where head is nil, base is the result of an
// interleaved run, and its two builds are compared.
func Compare(base, head *bench.Result, o CompareOptions) (*Comparison, error) {
	c := &Comparison{alpha: cmp.Or(o.Alpha, 0.05), separate: o.Separate}
	var before, after []*cell
	if head == nil {
		v := newView(base)
		before, after = v.built("base"), v.built("head")
		if len(before) == 0 || len(after) == 0 {
			return nil, errors.New("this result holds one build only: name a second one to compare it with")
		}
		c.Base, c.Head, c.Interleaved = "base", "head", base.Plan.Interleaved
		if base.Against != nil {
			c.Base, c.Head = commit(*base.Against), commit(base.Environment)
			c.Environment = machine.Diff(*base.Against, base.Environment)
		}
		c.Findings, c.canary = v.findings(), base.Canary != nil
	} else {
		if base.Plan.Interleaved || head.Plan.Interleaved {
			return nil, errors.New("an interleaved result holds both builds: compare it alone")
		}
		v, w := newView(base), newView(head)
		before, after = v.cells, w.cells
		c.Base, c.Head = source(base), source(head)
		c.Environment = differences(base, head)
		c.Findings, c.canary = slices.Concat(v.findings(), w.findings()), base.Canary != nil || head.Canary != nil
	}
	if err := c.compare(before, after, o.Metrics); err != nil {
		return nil, err
	}
	return c, nil
}

// built returns the cells of one build.
func (v *view) built(build string) []*cell {
	return slices.DeleteFunc(slices.Clone(v.cells), func(c *cell) bool { return c.Build != build })
}

// source names what a result was made of.
func source(r *bench.Result) string {
	return commit(r.Environment) + " of " + r.Started.UTC().Format("2006-01-02 15:04")
}

func commit(e machine.Environment) string {
	name := e.Commit
	if len(name) > 12 {
		name = name[:12]
	}
	if e.Dirty {
		name += ", changed"
	}
	return name
}

// differences says what besides the build differs: the machine, and settings
// that change what a cell measures.
func differences(a, b *bench.Result) []string {
	all := machine.Diff(a.Environment, b.Environment)
	p, q := a.Plan, b.Plan
	for _, s := range []struct {
		what string
		x, y any
	}{
		{"seed", p.Seed, q.Seed}, {"training", fmt.Sprintf("%d ms", p.TrainMS), fmt.Sprintf("%d ms", q.TrainMS)},
		{"a fresh session for every round", p.Respawn, q.Respawn}, {"pinning", p.Pin, q.Pin}, {"warm-up", warmup(p), warmup(q)},
		{"rules by which a block is measured, their version", p.Protocol, q.Protocol}, {"verify", p.Verify, q.Verify},
	} {
		if s.x != s.y {
			all = append(all, fmt.Sprintf("%s: %v in the first, %v in the second", s.what, s.x, s.y))
		}
	}
	return all
}

// A difference is a setting in which paired cells differ although they have one
// name: defaults may have changed between two builds (guard 17).
type difference struct{ text, cell string }

func unlike(a, b *cell) (all []difference) {
	note := func(what string, x, y any) {
		if x != y {
			all = append(all, difference{fmt.Sprintf("%s: %v in the first, %v in the second", what, x, y), a.ID()})
		}
	}
	keys := maps.Clone(a.Settings)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, b.Settings)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		note("setting "+k, cmp.Or(a.Settings[k], "none"), cmp.Or(b.Settings[k], "none"))
	}
	note("depth", a.Depth, b.Depth)
	note("lanes per process", a.PerProcess, b.PerProcess)
	note("launcher", a.Launcher, b.Launcher)
	note("file system", cmp.Or(a.FileSystem, "none"), cmp.Or(b.FileSystem, "none"))
	return all
}

func (c *Comparison) compare(before, after []*cell, metrics []string) error {
	if len(metrics) == 0 {
		metrics = []string{"round"}
	}
	byID := map[string]*cell{}
	for _, h := range after {
		byID[h.ID()] = h
	}
	type pair struct{ base, head []float64 } // medians of blocks
	var pairs []pair
	var ps []float64
	var differ []difference
	for _, b := range before {
		h := byID[b.ID()]
		if h == nil {
			c.OnlyBase = append(c.OnlyBase, b.ID())
			continue
		}
		delete(byID, b.ID())
		if b.Model != h.Model {
			c.Environment = append(c.Environment, fmt.Sprintf("%s: %s in the first, %s in the second", b.ID(), b.group().title(), h.group().title()))
		}
		differ = append(differ, unlike(b, h)...)
		for _, name := range metrics {
			m, ok := b.view.metrics[name]
			if !ok || m.samples == nil {
				return fmt.Errorf("metric %q cannot be compared: want one that blocks measure, such as round or cpu_per_gb", name)
			}
			p := pair{b.medianOf(name), h.medianOf(name)}
			ratio := stat.Ratio(p.base, p.head)
			if !ratio.Known() {
				continue // a metric that one of them lacks, or a count of nothing
			}
			pairs, ps = append(pairs, p), append(ps, stat.Test(p.base, p.head))
			c.Rows = append(c.Rows, Row{
				Transport: b.Variant, Model: b.Model.Name, Up: b.Model.Up, Workers: b.Workers, Clients: b.Clients, Metric: name, Unit: m.Unit, Better: m.Better,
				Base: b.of(name), Head: h.of(name), Ratio: ratio,
			})
		}
	}
	for _, same := range grouped(differ, func(d difference) string { return d.text }) {
		var cells []string
		for _, d := range same {
			cells = append(cells, d.cell)
		}
		c.Environment = append(c.Environment, same[0].text+" ("+list(clip(cells, 3))+")")
	}
	for _, h := range after {
		if byID[h.ID()] != nil {
			c.OnlyHead = append(c.OnlyHead, h.ID())
		}
	}
	for i, p := range stat.Holm(ps) {
		r := &c.Rows[i]
		r.P, r.Significant = p, p <= c.alpha
		// The level is that which Holm's method asks of the first of all rows.
		r.Detectable = stat.Detectable(pairs[i].base, pairs[i].head, c.alpha/float64(len(ps)))
	}
	return nil
}

// worse and better return the significant rows of either kind, the largest
// change first.
func (c *Comparison) worse() []Row  { return c.significant(func(r Row) bool { return r.Worse() > 1 }) }
func (c *Comparison) better() []Row { return c.significant(func(r Row) bool { return r.Worse() <= 1 }) }

func (c *Comparison) significant(want func(r Row) bool) []Row {
	rows := slices.DeleteFunc(slices.Clone(c.Rows), func(r Row) bool { return !r.Significant || !want(r) })
	size := func(r Row) float64 { return math.Abs(math.Log(r.Ratio.Center)) }
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(size(b), size(a)) })
	return rows
}

// sentence is the verdict.
func (c *Comparison) sentence() string {
	n := len(c.Rows)
	if n == 0 {
		return "Nothing can be compared: the two have no cell in common."
	}
	worse, better := c.worse(), c.better()
	if len(worse)+len(better) == 0 {
		text := fmt.Sprintf("No difference shown in %s", plural(n, "comparison"))
		smallest := c.detectable()
		if math.IsInf(smallest, 1) {
			return text + ", and there are too few blocks to show one: " + c.needs() + "."
		}
		return text + fmt.Sprintf("; half of them would have shown a change of %s %%.", signed(smallest-1))
	}
	var parts []string
	if len(worse) > 0 {
		parts = append(parts, fmt.Sprintf("%d worse, by up to %s", len(worse), share(worse[0].Worse()-1)))
	}
	if len(better) > 0 {
		parts = append(parts, fmt.Sprintf("%d better, by up to %s", len(better), share(1-better[0].Worse())))
	}
	return fmt.Sprintf("Of %s: %s; no difference shown in %d.", plural(n, "comparison"), strings.Join(parts, "; "), n-len(worse)-len(better))
}

// needs says how many blocks it takes to show anything in so many rows.
func (c *Comparison) needs() string {
	return fmt.Sprintf("comparing %s takes %d blocks of each", plural(len(c.Rows), "cell"), stat.Needed(c.alpha/float64(len(c.Rows))))
}

// detectable returns the median of what the rows would have shown.
func (c *Comparison) detectable() float64 {
	var all []float64
	for _, r := range c.Rows {
		all = append(all, r.Detectable)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// clip cuts a list that nobody would read to its end.
func clip(items []string, most int) []string {
	if len(items) <= most {
		return items
	}
	return append(slices.Clone(items[:most]), fmt.Sprintf("%d more", len(items)-most))
}

// pText writes a probability.
func pText(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fixed(p, 3)
}
