package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
	"ipcbench/report/metrics"
)

// CompareOptions say what is compared and how sure it must be.
type CompareOptions struct {
	Metrics  []string // sampled ones, by name; round alone if empty
	Alpha    float64  // the probability of any false claim; 0.05 if zero
	Separate bool     // let the gate judge runs that were not interleaved
}

// A Comparison compares a base with a head, cell by cell.
type Comparison struct {
	Base, Head  Source
	Differences []Difference // besides the build: they may explain any change
	Interleaved bool         // blocks of both took turns
	Rows        []Row        // of cells that both have
	OnlyBase    []string     // cells that the head lacks
	OnlyHead    []string     // cells that the base lacks
	Findings    []Finding    // about either
	Alpha       float64      // the probability of any false claim
	separate    bool
	canary      bool   // one was measured, so that a gate can be tried
	rules       [2]int // versions of the rules for blocks, of both
}

// A Source is what was measured.
type Source struct {
	Commit  string    `json:"commit,omitempty"` // the first 12 digits
	Dirty   bool      `json:"dirty,omitempty"`  // with changes that are not in the commit
	Build   string    `json:"build,omitempty"`  // instead of the commit: base or head, of an interleaved run that does not know its commits
	Started time.Time `json:"started,omitzero"` // of a separate run
}

// A Difference is one between two results: of the environment, of the plan, or of
// the settings of the cells that are named.
type Difference struct {
	machine.Difference
	Cells []string
}

// A Row is one metric of a cell in both.
type Row struct {
	Cell        *metrics.Cell // that of the head
	Metric      metrics.Metric
	Base, Head  stat.Interval
	Ratio       stat.Interval // head over base
	P           float64       // Mann-Whitney, corrected by Holm for the number of rows
	Significant bool          // P is at most alpha
	Detectable  float64       // the smallest ratio that these blocks would have shown; infinite if none
}

// Same reports whether both rows are of the same cell and metric.
func (r Row) Same(other Row) bool { return r.Cell == other.Cell && r.Metric.Name == other.Metric.Name }

// Worse reports by which factor the head is worse: above 1 if it is.
func (r Row) Worse() float64 {
	if r.Metric.Better == metrics.Higher {
		return 1 / r.Ratio.Center
	}
	return r.Ratio.Center
}

// Compare compares head with base. Where head is nil, base is the result of an
// interleaved run, and its two builds are compared.
func Compare(base, head *result.Result, o CompareOptions) (*Comparison, error) {
	c := &Comparison{Alpha: cmp.Or(o.Alpha, 0.05), separate: o.Separate}
	var before, after []*metrics.Cell
	if head == nil {
		r := metrics.New(base)
		before, after = cellsOf(r, "base"), cellsOf(r, "head")
		if len(before) == 0 || len(after) == 0 {
			return nil, errors.New("this result holds one build only: name a second one to compare it with")
		}
		c.Base, c.Head, c.Interleaved = Source{Build: "base"}, Source{Build: "head"}, base.Plan.Interleaved
		if base.Against != nil {
			c.Base, c.Head = source(*base.Against), source(base.Environment)
			c.note(machine.Diff(*base.Against, base.Environment)...)
		}
		c.Findings, c.canary = Findings(r), base.Canary != nil
	} else {
		if base.Plan.Interleaved || head.Plan.Interleaved {
			return nil, errors.New("an interleaved result holds both builds: compare it alone")
		}
		r, s := metrics.New(base), metrics.New(head)
		before, after = r.Cells, s.Cells
		c.Base, c.Head = source(base.Environment), source(head.Environment)
		c.Base.Started, c.Head.Started = base.Started, head.Started
		c.note(machine.Diff(base.Environment, head.Environment)...)
		c.note(hostsDiff(base.Hosts, head.Hosts)...)
		c.note(planDiff(base.Plan, head.Plan)...)
		c.rules = [2]int{base.Plan.Rules, head.Plan.Rules}
		c.Findings, c.canary = slices.Concat(Findings(r), Findings(s)), base.Canary != nil || head.Canary != nil
	}
	if err := c.compare(before, after, o.Metrics); err != nil {
		return nil, err
	}
	return c, nil
}

// cellsOf returns the cells of one build.
func cellsOf(r *metrics.Result, build string) []*metrics.Cell {
	return slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool { return c.Build != build })
}

func source(e machine.Environment) Source {
	return Source{Commit: e.Commit[:min(len(e.Commit), 12)], Dirty: e.Dirty}
}

// note adds differences that are of the whole results.
func (c *Comparison) note(all ...machine.Difference) {
	for _, d := range all {
		c.Differences = append(c.Differences, Difference{Difference: d})
	}
}

// differing collects in what two things differ.
type differing []machine.Difference

func (d *differing) add(what string, x, y any) {
	if x != y {
		*d = append(*d, machine.Difference{What: what, Base: fmt.Sprint(x), Head: fmt.Sprint(y)})
	}
}

// addAll adds the entries in which two maps differ.
func (d *differing) addAll(what string, x, y map[string]string) {
	all := map[string]string{}
	maps.Copy(all, x)
	maps.Copy(all, y)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		d.add(what+k, cmp.Or(x[k], "none"), cmp.Or(y[k], "none"))
	}
}

// hostsDiff returns in what the hosts of agents differ: those of one name are held
// against each other. The server's stands in the environment.
func hostsDiff(a, b []result.Host) []machine.Difference {
	var d differing
	names := func(hosts []result.Host) string {
		var all []string
		for _, h := range hosts {
			all = append(all, h.Name)
		}
		return cmp.Or(strings.Join(all, " "), "none")
	}
	d.add("hosts", names(a), names(b))
	for _, x := range a {
		i := slices.IndexFunc(b, func(y result.Host) bool { return y.Name == x.Name })
		if i < 0 || x.Server {
			continue
		}
		d.add("machine of "+x.Name, cmp.Or(x.SameMachine, "its own"), cmp.Or(b[i].SameMachine, "its own"))
		for _, of := range machine.Diff(x.Environment, b[i].Environment) {
			of.What += " of " + x.Name
			d = append(d, of)
		}
	}
	return d
}

// planDiff returns the settings in which two plans differ and that change what a
// cell measures.
func planDiff(p, q result.Plan) []machine.Difference {
	var d differing
	d.add("seed", p.Seed, q.Seed)
	d.add("pinning", p.Pin, q.Pin)
	d.add("warm-up rounds", p.Warmup, q.Warmup)
	d.add("warm-up time", p.WarmTime, q.WarmTime)
	d.add("rules by which a block is measured, their version", p.Rules, q.Rules)
	d.add("verify", p.Verify, q.Verify)
	return d
}

// cellDiff returns the models and settings in which two cells of one name differ: defaults
// may have changed between two builds (guard 17).
func cellDiff(a, b *metrics.Cell) []machine.Difference {
	var d differing
	d.add("tensors", a.Model.Tensors, b.Model.Tensors)
	d.add("bytes", a.Model.Bytes, b.Model.Bytes)
	d.add("tensors of an update", a.Model.UpTensors, b.Model.UpTensors)
	d.add("bytes of an update", a.Model.UpBytes, b.Model.UpBytes)
	d.addAll("setting ", a.Settings, b.Settings)
	d.add("hosts", cmp.Or(a.Hosts, "none"), cmp.Or(b.Hosts, "none"))
	d.add("place", cmp.Or(a.Place, "none"), cmp.Or(b.Place, "none"))
	d.add("depth", a.Depth, b.Depth)
	d.add("lanes per process", a.PerProcess, b.PerProcess)
	d.add("launcher", a.Launcher, b.Launcher)
	d.add("peer", cmp.Or(a.Peer, "none"), cmp.Or(b.Peer, "none"))
	d.add("not proved", cmp.Or(a.Unproved, "no"), cmp.Or(b.Unproved, "no"))
	d.addAll("software ", a.Software, b.Software)
	d.add("file system", cmp.Or(a.FileSystem, "none"), cmp.Or(b.FileSystem, "none"))
	return d
}

// sampledMetrics returns the metrics of these names: round alone if there is
// none.
func sampledMetrics(names []string) ([]metrics.Metric, error) {
	if len(names) == 0 {
		names = []string{"round"}
	}
	made := make([]metrics.Metric, len(names))
	for i, name := range names {
		m, ok := metrics.MetricNamed(name)
		if !ok || !m.Sampled() {
			return nil, fmt.Errorf("metric %q cannot be compared: want one that blocks measure, such as round or cpu_per_gb", name)
		}
		made[i] = m
	}
	return made, nil
}

func (c *Comparison) compare(before, after []*metrics.Cell, names []string) error {
	wanted, err := sampledMetrics(names)
	if err != nil {
		return err
	}
	byID := map[string]*metrics.Cell{}
	for _, h := range after {
		byID[h.ID()] = h
	}
	var pairs [][2][]float64 // medians of blocks
	var ps []float64
	var differences []Difference
	for _, b := range before {
		h := byID[b.ID()]
		if h == nil {
			c.OnlyBase = append(c.OnlyBase, b.ID())
			continue
		}
		delete(byID, b.ID())
		for _, d := range cellDiff(b, h) {
			differences = append(differences, Difference{d, []string{b.ID()}})
		}
		for _, m := range wanted {
			if ratio := h.Ratio(m.Name, b); ratio.Known() && b.Unproved == "" && h.Unproved == "" { // else one of them lacks it or its proof, or it is a count of nothing
				p := [2][]float64{b.Medians(m.Name), h.Medians(m.Name)}
				pairs, ps = append(pairs, p), append(ps, stat.Test(p[0], p[1]))
				c.Rows = append(c.Rows, Row{Cell: h, Metric: m, Base: b.Of(m.Name), Head: h.Of(m.Name), Ratio: ratio})
			}
		}
	}
	for _, same := range metrics.GroupBy(differences, func(d Difference) machine.Difference { return d.Difference }) {
		d := same[0]
		for _, other := range same[1:] {
			d.Cells = append(d.Cells, other.Cells...)
		}
		c.Differences = append(c.Differences, d)
	}
	for _, h := range after {
		if byID[h.ID()] != nil {
			c.OnlyHead = append(c.OnlyHead, h.ID())
		}
	}
	for i, p := range stat.Holm(ps) {
		r := &c.Rows[i]
		r.P, r.Significant = p, p <= c.Alpha
		// The level is that which Holm's method asks of the first of all rows.
		r.Detectable = stat.Detectable(pairs[i][0], pairs[i][1], c.Alpha/float64(len(ps)))
	}
	return nil
}

// Worse returns the rows that are significantly worse in the head, the largest
// change first.
func (c *Comparison) Worse() []Row { return c.significant(func(r Row) bool { return r.Worse() > 1 }) }

// Better returns the rows that are significantly better in the head, the largest
// change first.
func (c *Comparison) Better() []Row { return c.significant(func(r Row) bool { return r.Worse() <= 1 }) }

func (c *Comparison) significant(want func(r Row) bool) []Row {
	rows := slices.DeleteFunc(slices.Clone(c.Rows), func(r Row) bool { return !r.Significant || !want(r) })
	size := func(r Row) float64 { return math.Abs(math.Log(r.Ratio.Center)) }
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(size(b), size(a)) })
	return rows
}

// NeededBlocks returns how many blocks of each it takes to show any change in so
// many rows.
func (c *Comparison) NeededBlocks() int { return stat.Needed(c.Alpha / float64(len(c.Rows))) }

// Detectable returns the median of the ratios that the rows would have shown:
// infinite if half of them would have shown none. There must be a row.
func (c *Comparison) Detectable() float64 {
	var all []float64
	for _, r := range c.Rows {
		all = append(all, r.Detectable)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
