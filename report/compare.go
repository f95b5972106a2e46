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
	"ipcbench/report/answer"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// CompareOptions choose the metrics of a comparison and the certainty of its verdicts.
type CompareOptions struct {
	Metrics  []string // names of metrics measured per block; empty means round
	Alpha    float64  // probability of any false claim; zero means 0.05
	Separate bool     // let the gate judge runs that were not interleaved
}

// A Comparison compares a base with a head, cell by cell. Its JSON keys are the first keys of
// the format json.
type Comparison struct {
	Base        Source  `json:"base"`
	Head        Source  `json:"head"`
	Interleaved bool    `json:"interleaved"` // blocks of both builds took turns
	Alpha       float64 `json:"alpha"`       // probability of any false claim
	Verdict     struct {
		Worse    int    `json:"worse"` // number of rows
		Better   int    `json:"better"`
		NotShown int    `json:"none_shown"`
		Text     string `json:"text"` // the verdict in words
	} `json:"verdict"`
	Decision *Gate    `json:"gate,omitempty"` // decision of the gate; nil without one
	OnlyBase []string `json:"only_base"`      // cells that the head lacks
	OnlyHead []string `json:"only_head"`      // cells that the base lacks

	Differences []Difference     `json:"-"` // other than the build; they may explain any change
	Rows        []Row            `json:"-"` // metrics of cells that both have
	Findings    []answer.Finding `json:"-"` // about base or head

	unproved []string // cells whose data, or whose base's data, was not proved
	without  []string // cells and metrics that have no ratio: one of the two lacks it, or counts 0
	partial  string   // why a run ended early; empty if none did
	separate bool
	canaries []*result.Result // the results with a canary, which tests the gate
	untried  *result.Untried  // why a canary was not measured; nil if it was or was not asked for
	rules    [2]int           // versions of the rules for blocks, of base and head
}

// A Source identifies the base or the head of a comparison.
type Source struct {
	Commit  string    `json:"commit,omitempty"` // first 12 digits
	Dirty   bool      `json:"dirty,omitempty"`  // has changes that are not in the commit
	Build   string    `json:"build,omitempty"`  // base or head, if an interleaved run lacks its commits
	Started time.Time `json:"started,omitzero"` // zero for an interleaved run
}

// A Difference is a property in which two results differ: of the environment, of the plan, or
// of the settings of some cells. Without Cells, it is about the whole results.
type Difference struct {
	machine.Difference
	Cells []string
}

// A Row compares one metric of one cell.
type Row struct {
	contrast.Judged // of the head's cell against the base's, in the family of all rows
	Base, Head      stat.Interval
	Detectable      float64 // smallest ratio that these blocks would have shown; infinite if none
}

// worseBy reports whether the head is shown to be worse by more than a share.
func (r Row) worseBy(share float64) bool {
	ratio := r.Ratio.Center
	if r.Metric.Better == metrics.Higher {
		ratio = 1 / ratio
	}
	return r.Shown && ratio > 1+share
}

// verdict returns "worse", "better" or "none shown".
func (r Row) verdict() string {
	switch {
	case !r.Shown:
		return "none shown"
	case r.worseBy(0):
		return "worse"
	}
	return "better"
}

// Compare compares head with base. If head is nil, base must be the result of an interleaved
// run, and its two builds are compared. It returns an error if the results cannot be compared,
// or not by one of the metrics.
func Compare(base, head *result.Result, o CompareOptions) (*Comparison, error) {
	c := &Comparison{Alpha: cmp.Or(o.Alpha, 0.05), separate: o.Separate, OnlyBase: []string{}, OnlyHead: []string{}}
	before, after, err := halves(base, head)
	if err != nil {
		return nil, err
	}
	c.Base, c.Head, c.Interleaved = before.Source, after.Source, head == nil
	c.rules = [2]int{before.run.Plan.Rules, after.run.Plan.Rules}
	c.environments(before.environment, after.environment, "")
	if !c.Interleaved {
		c.runs(base, head)
	}
	for _, r := range slices.Compact([]*metrics.Result{before.run, after.run}) {
		c.Findings = append(c.Findings, answer.Findings(r)...)
		c.untried, c.partial = cmp.Or(c.untried, r.Untried), cmp.Or(c.partial, r.Partial)
		if r.Canary != nil {
			c.canaries = append(c.canaries, r.Result)
		}
	}
	names := o.Metrics
	if len(names) == 0 {
		names = []string{"round"}
	}
	for i, name := range names {
		switch m, ok := metrics.MetricNamed(name); {
		case !ok || !m.Sampled():
			return nil, fmt.Errorf("metric %q cannot be compared: "+
				"it must be one that is measured per block, such as round or cpu_per_gb", name)
		case m.Better == "":
			return nil, fmt.Errorf("metric %q cannot be compared: neither a lower nor a higher number is better", name)
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("metric %q is named twice", name)
		}
	}
	c.pair(before.cells, after.cells, names)
	family := doc.Each(c.Rows, func(r Row) contrast.Contrast { return r.Contrast })
	for i, j := range contrast.Judge("of this comparison", c.Alpha, family) {
		c.Rows[i].Judged, c.Rows[i].Detectable = j, j.WouldShow()
	}
	v := &c.Verdict
	v.Worse, v.Better = len(c.Worse()), len(c.Better())
	v.NotShown = len(c.Rows) - v.Worse - v.Better
	v.Text = comparisonSentence(c)
	return c, nil
}

// A half is the base or the head of a comparison, before its cells are paired: a result, or a part
// of the programs of a result.
type half struct {
	Source
	run         *metrics.Result
	environment machine.Environment
	cells       []*metrics.Cell
}

// halves returns both halves. If head is nil, they are the baseline of base and all other programs.
func halves(base, head *result.Result) (before, after half, err error) {
	first := metrics.New(base)
	baseline := base.Plan.Baseline
	if head != nil {
		if baseline == result.Base || head.Plan.Baseline == result.Base {
			return before, after, errors.New("an interleaved result holds both builds: compare it without a second result")
		}
		second := metrics.New(head)
		return half{source(base.Environment, base.Started), first, base.Environment, first.Cells},
			half{source(head.Environment, head.Started), second, head.Environment, second.Cells}, nil
	}
	before = half{run: first, environment: base.Environment}
	after = before
	for _, c := range first.Cells {
		switch {
		case c.Program == "":
		case baseline == cmp.Or(c.Build(), c.Variant): // rows of one program may differ in a setting
			before.cells = append(before.cells, c)
		default:
			after.cells = append(after.cells, c)
		}
	}
	if baseline == "" || baseline == result.Base && (before.cells == nil || after.cells == nil) {
		return before, after, errors.New("this result holds one build only: name a second result to compare it with")
	}
	before.Build, after.Build = programs(before.cells), programs(after.cells)
	if other := base.ProgramOf(&result.Cell{Program: baseline}); other != nil && other.Environment != nil {
		before.environment = *other.Environment
		before.Source, after.Source = source(before.environment, time.Time{}), source(after.environment, time.Time{})
	}
	return before, after, nil
}

// programs names the builds and the peers of the cells.
func programs(cells []*metrics.Cell) string {
	var names []string
	for _, c := range cells {
		if name := cmp.Or(c.Build(), c.Variant+" ("+c.Command()+")"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return doc.List(names)
}

func source(e machine.Environment, started time.Time) Source {
	return Source{Commit: e.Commit[:min(len(e.Commit), 12)], Dirty: e.Dirty, Started: started}
}

// A fact is a property that may differ between two plans, hosts or cells.
type fact struct {
	what string
	is   any // a map is one fact per key
}

// differ notes the differences between two lists of the same facts. They are about the named
// cells, or about the whole results.
func (c *Comparison) differ(base, head []fact, cells ...string) {
	for i, f := range base {
		x, isMap := f.is.(map[string]string)
		if !isMap {
			c.note(f.what, fmt.Sprint(f.is), fmt.Sprint(head[i].is), cells...)
			continue
		}
		y, _ := head[i].is.(map[string]string)
		both := map[string]string{}
		maps.Copy(both, x)
		maps.Copy(both, y)
		for _, k := range slices.Sorted(maps.Keys(both)) {
			c.note(f.what+" "+k, x[k], y[k], cells...)
		}
	}
}

// note adds a difference. If the same difference is known of other cells, it adds the cells to
// it.
func (c *Comparison) note(what, base, head string, cells ...string) {
	if base == head {
		return
	}
	d := machine.Difference{What: what, Base: cmp.Or(base, "none"), Head: cmp.Or(head, "none")}
	i := slices.IndexFunc(c.Differences, func(known Difference) bool {
		return known.Difference == d && known.Cells != nil
	})
	if i < 0 {
		c.Differences = append(c.Differences, Difference{d, cells})
	} else {
		c.Differences[i].Cells = slices.Concat(c.Differences[i].Cells, cells)
	}
}

// environments notes the differences between two environments. where is appended to their names.
func (c *Comparison) environments(base, head machine.Environment, where string) {
	for _, d := range machine.Diff(base, head) {
		c.note(d.What+where, d.Base, d.Head)
	}
}

// runs notes the differences between two runs outside their cells. Hosts are matched by name.
// The server's host is skipped, because its environment is compared already.
func (c *Comparison) runs(base, head *result.Result) {
	name := func(h result.Host) string { return h.Name }
	c.note("hosts", strings.Join(doc.Each(base.Hosts, name), " "), strings.Join(doc.Each(head.Hosts, name), " "))
	for _, x := range base.Hosts {
		for _, y := range head.Hosts {
			if x.Name == y.Name && !x.Server {
				c.note("machine of "+x.Name, cmp.Or(x.SameMachine, "its own"), cmp.Or(y.SameMachine, "its own"))
				c.environments(x.Environment, y.Environment, " of "+x.Name)
			}
		}
	}
	c.differ(planFacts(base.Plan), planFacts(head.Plan))
}

// planFacts returns the settings of a plan that affect measurements.
func planFacts(p result.Plan) []fact {
	return []fact{{"seed", p.Seed}, {"pinning", p.Pin}, {"processors of the server", p.ServerCPUs},
		{"warm-up rounds", p.Warmup}, {"warm-up updates", p.Settle}, {"warm-up time", p.WarmTime},
		{"version of the rules for measuring blocks", p.Rules}, {"verify", p.Verify}}
}

// facts returns the facts of a cell that its name omits: defaults may have changed between two
// builds (guard 17).
func (c *Comparison) facts(cell *metrics.Cell) []fact {
	m := cell.Model
	return []fact{{"tensors", m.Tensors}, {"bytes", m.Bytes}, {"tensors of an update", cell.UpTensors},
		{"bytes of an update", cell.UpBytes},
		{"setting", cell.Settings}, {"hosts", cell.Hosts}, {"place", cell.Place}, {"depth", cell.Depth},
		{"lanes per process", cell.PerProcess}, {"launcher", cell.Launcher}, {"not proved", cmp.Or(cell.Unproved, "no")},
		{"software", cell.Versions()}, {"file system", cell.FileSystem},
		{"peer", table.Unless(c.Interleaved, cell.Command())}}
}

// pair adds a row for each of these metrics of each cell that both have. It notes the differences
// between the two cells, the cells that only one has, and the unproved ones.
func (c *Comparison) pair(before, after []*metrics.Cell, names []string) {
	key := func(cell *metrics.Cell) any {
		if c.Interleaved && cell.IsPeer() { // cells of several peers may be compared with one
			return cell.Group()
		}
		return cell.ID()
	}
	bases := map[any]*metrics.Cell{}
	for _, b := range before {
		bases[key(b)] = b
	}
	alone := maps.Clone(bases)
	for _, h := range after {
		delete(alone, key(h))
	}
	for _, b := range before {
		if alone[key(b)] != nil {
			c.OnlyBase = append(c.OnlyBase, b.ID())
		}
	}
	for _, h := range after {
		b := bases[key(h)]
		if b == nil {
			c.OnlyHead = append(c.OnlyHead, h.ID())
			continue
		}
		c.differ(c.facts(b), c.facts(h), b.ID())
		if b.Unproved+h.Unproved != "" {
			c.unproved = append(c.unproved, h.ID())
			continue
		}
		for _, name := range names {
			// Without a ratio, one of the cells lacks the metric, or counts zero.
			x := contrast.New(name, h, b)
			if c.separate {
				x = x.Apart()
			}
			if !x.Ratio.Known() {
				c.without = append(c.without, h.ID()+", "+name)
				continue
			}
			c.Rows = append(c.Rows, Row{contrast.Judged{Contrast: x}, b.Of(name), h.Of(name), math.Inf(1)})
		}
	}
}

// Worse returns the rows that are significantly worse in the head, the largest
// change first.
func (c *Comparison) Worse() []Row { return c.shown("worse") }

// Better returns the rows that are significantly better in the head, the largest
// change first.
func (c *Comparison) Better() []Row { return c.shown("better") }

func (c *Comparison) shown(verdict string) []Row {
	rows := table.Only(c.Rows, func(r Row) bool { return r.verdict() == verdict })
	size := func(r Row) float64 { return math.Abs(math.Log(r.Ratio.Center)) }
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(size(b), size(a)) })
	return rows
}
