package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// groupSection is the table of a group, without what its columns mean.
func groupSection(cells []*metrics.Cell) doc.Section {
	return doc.Section{Title: groupTitle(cells[0].Group()), Tables: []doc.Table{unexplained(groupTable(cells))}}
}

// unexplained is a table without what its columns mean.
func unexplained(t doc.Table) doc.Table {
	for i := range t.Columns {
		t.Columns[i].Help = ""
	}
	return t
}

// inOrder returns the cells of a verdict: ours, then peers, each the fastest first and what
// is not ranked after it, and the control last.
func inOrder(cells []*metrics.Cell, v metrics.Verdict) []*metrics.Cell {
	others := slices.DeleteFunc(slices.Clone(cells), func(c *metrics.Cell) bool { return slices.Contains(v.Ranked, c) })
	unproved := func(c *metrics.Cell) float64 {
		if c.Unproved == "" {
			return -1
		}
		return c.Of(v.By).Center
	}
	all := slices.Concat(v.Ranked, others)
	slices.SortStableFunc(all, func(a, b *metrics.Cell) int {
		return cmp.Or(cmp.Compare(oneIf(a.IsControl()), oneIf(b.IsControl())), cmp.Compare(oneIf(a.Peer != ""), oneIf(b.Peer != "")),
			cmp.Compare(unproved(a), unproved(b)))
	})
	return all
}

// controlNote says what the control is.
const controlNote = "the same work without leaving the process"

// groupTable is the table of a group, the fastest first, then peers and the control below
// rules. Those that may be the fastest stand out. Below it are remarks.
func groupTable(cells []*metrics.Cell) doc.Table {
	v, ok := metrics.Decide(cells)
	ranks, cpu := column("±"+v.By), column("cpu_per_gb=CPU")
	bandwidth := column("bandwidth")
	bandwidth.Name = ""       // its unit says what it is
	if cells[0].Train != "" { // whose CPU time is that of a training of the user's
		cpu = column("±communication%")
	}
	t := doc.Table{Columns: []doc.Column{{Name: "transport"}, ranks.Column,
		{Name: "× best", Unit: "1", Help: "the " + v.By + " as a multiple of the fastest one", Bar: true}, bandwidth.Column, cpu.Column}}
	if c := cells[0].Control; c != nil && cells[0].Link != (link.Rate{}) { // which is on none
		cells = append(slices.Clip(cells), c)
	}
	t.Notes = remarks(cells)
	peers := false
	for k, c := range inOrder(cells, v) {
		row := doc.Row{Cells: []doc.Cell{doc.Words(variant(c)), ranks.of(c)}}
		if c.IsControl() {
			row.Note, row.Rule, row.Tone = controlNote, k > 0, doc.Dim
			t.Rows = append(t.Rows, row)
			continue
		}
		if c.Peer != "" && !peers {
			peers, row.Rule, row.Heading = true, k > 0, "peers"
		}
		if c.Unproved != "" {
			row.Note = "not proved: " + c.Unproved
		}
		ratio, moved := doc.Cell{}, bandwidth.of(c)
		if ok && c.Of(v.By).Known() && c.Unproved == "" {
			ratio = doc.Number(c.Of(v.By).Center / v.Best().Of(v.By).Center)
		}
		if c.HandsOver() {
			moved = doc.Words("hand-off")
		}
		if ok && slices.Contains(v.Fastest(), c) {
			row.Tone = doc.Good
		}
		row.Cells = append(row.Cells, ratio, moved, cpu.of(c))
		t.Rows = append(t.Rows, row)
	}
	return t
}

// legend explains the intervals of tables, and rounds that are not usual ones.
func legend(r *metrics.Result) []doc.Paragraph {
	lines := doc.Say(confidence(r.Cells))
	if i := slices.IndexFunc(r.Cells, func(c *metrics.Cell) bool { return c.Train != "" }); i >= 0 {
		lines = append(lines, doc.Say("communication: share of a client's round trip that is not training by "+r.Cells[i].Train+". What that computes is not known; what was sent is proved, by hashes.")...)
	}
	if slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool { return c.Respawn }) {
		lines = append(lines, doc.Say("A round with fresh workers includes the time to start them and to end them.")...)
	}
	return lines
}

// cellTables are the tables of all groups, with what the marks say of each cell.
func cellTables(r *metrics.Result) doc.Section {
	s := doc.Section{Title: "Round trips", Tail: legend(r)}
	for _, cells := range r.Groups() {
		g := cells[0].Group()
		t := groupTable(cells)
		t.Caption = groupTitle(g) + ": " + effort(cells)
		t.Notes = yardstickText(metrics.YardstickOf(cells))
		for _, c := range cells {
			if texts := details(c, r.Plan); texts != nil {
				t.Notes = append(t.Notes, variant(c)+": "+strings.Join(texts, "; ")+".")
			}
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}

// details says what the marks of a cell mean for it.
func details(c *metrics.Cell, plan result.Plan) (all []string) {
	found := c.Marks()
	for _, text := range markTexts(c, found) {
		if text != "" {
			all = append(all, text)
		}
	}
	if x := found.OutOfTime; x > 0 {
		all = append(all, fmt.Sprintf("time ran out at ±%s, before ±%s was reached", doc.Percent(x), doc.Percent(plan.Precision)))
	}
	return all
}

// effort says how much was measured in the cells.
func effort(cells []*metrics.Cell) string {
	blocks, rounds := make([]int, len(cells)), make([]int, len(cells))
	for i, c := range cells {
		blocks[i], rounds[i] = len(c.Timed()), c.Rounds()
	}
	return between(slices.Min(blocks), slices.Max(blocks), "block") + " and " +
		between(slices.Min(rounds), slices.Max(rounds), "round") + " a cell"
}

// The kinds of marks: of what a reader must know about a cell's numbers.
const (
	astray = iota
	bimodal
	drifted
	scattered
	interrupted
	notProved
)

// markHelp says what each kind of mark is, as the beginning of a sentence.
var markHelp = [...]string{
	astray:      "Some tensors did not go the way that the transport is named for",
	bimodal:     "Rounds fall into two groups",
	drifted:     "Rounds became slower or faster",
	scattered:   "Over a tenth of the rounds lie far from the median",
	interrupted: "The measurement was interrupted",
	notProved:   "The data was not proved",
}

// markTexts returns what the marks m say of a cell: a text for each kind that it has.
func markTexts(c *metrics.Cell, m metrics.Marks) (texts [len(markHelp)]string) {
	if m.Astray {
		texts[astray] = "only " + doc.Percent(m.Attested) + " of the tensors went the way that the transport is named for"
		sep := ": "
		for _, reason := range slices.Sorted(maps.Keys(m.Reasons)) {
			texts[astray] += fmt.Sprintf("%s%s %d", sep, reason, m.Reasons[reason])
			sep = ", "
		}
	}
	if m.Modes != nil {
		a, b := m.Modes[0], m.Modes[1]
		texts[bimodal] = fmt.Sprintf("rounds fall into two groups: %s (%s) and %s (%s)",
			doc.Quantity("s", a.Center), doc.Percent(a.Share), doc.Quantity("s", b.Center), doc.Percent(b.Share))
	}
	switch {
	case m.Drift.Across != 0:
		texts[drifted] = "rounds changed by " + doc.Signed(m.Drift.Across) + " % from the first to the last block"
	case m.Drift.Within != 0:
		texts[drifted] = "rounds changed by " + doc.Signed(m.Drift.Within) + " % within a block"
	}
	if m.Outliers != 0 {
		texts[scattered] = fmt.Sprintf("%d of %s lie far from the median", m.Outliers, doc.Plural(c.Rounds(), "round"))
	}
	texts[interrupted] = unless(!m.Interrupted, "the measurement was interrupted")
	texts[notProved] = unless(c.Proved() || c.Unproved != "", "the data was not proved") // or its name says it
	return texts
}

// mostRemarks is how many sentences stand below a table of the first screen.
const mostRemarks = 3

// remarks are the marks of cells: one sentence for each kind, with the cells that have it.
func remarks(cells []*metrics.Cell) []string {
	var all []string
	for kind, help := range markHelp {
		marked := slices.DeleteFunc(slices.Clone(cells), func(c *metrics.Cell) bool { return markTexts(c, c.Marks())[kind] == "" })
		if len(marked) > 0 {
			all = append(all, help+": "+doc.List(each(marked, variant))+".")
		}
	}
	if len(all) > mostRemarks {
		all = append(all[:mostRemarks-1], "More about these cells: --view cells")
	}
	return all
}
