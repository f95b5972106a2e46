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

// mostBrief is how many sweeps a screen has words for, besides the one of which it has the table.
const mostBrief = 2

// mostPays is for how many transports a screen says where codecs pay, and what TLS costs.
const mostPays = 3

// screen is what a terminal shows of a result: for each group of cells the verdict
// and a table, the largest model last, next to the prompt. A sweep takes the place of
// its groups, the one with the most steps as a table. again is the command that shows
// the result once more.
func screen(r *metrics.Result, again string) doc.Document {
	d := doc.Document{Lead: errorLines(r)}
	swept, drawn := sweptOf(r)
	linked := false
	for _, links := range metrics.GroupBy(bySize(r, 1), onAnyLink) {
		if drawn(links[0][0].Group()) {
			continue
		}
		if decided := slices.DeleteFunc(slices.Clone(links), func(cells []*metrics.Cell) bool { _, ok := metrics.Decide(cells); return !ok }); len(decided) > 1 {
			d.Sections, linked = append(d.Sections, linkSection(decided)), true
			continue
		} else if len(decided) > 0 {
			links = decided
		}
		cells := links[0]
		s := groupSection(cells)
		if v, ok := metrics.Decide(cells); ok {
			s.Lead = doc.Say(verdictSentence(v))
		}
		d.Sections = append(d.Sections, s)
	}
	tables := len(d.Sections)
	if left := len(swept) - 1 - mostBrief; left > 0 {
		d.Sections = append(d.Sections, doc.Section{Lead: doc.Say(doc.Plural(left, "more sweep") + ": --view crossover")})
	}
	for i := min(len(swept)-1, mostBrief); i >= 0; i-- {
		s := doc.Section{Title: sweepTitle(swept[i]), Lead: envelopeLines(swept[i])}
		if i == 0 {
			s = sweepTable(swept[i])
		}
		d.Sections = append(d.Sections, s)
	}
	end := doc.Section{}
	if tables > 0 || len(swept) == 0 {
		end.Tail = legend(r)
	}
	var where []string
	for _, p := range pathsOf(r) {
		if text := payLine(p); text != "" {
			where = append(where, text)
		}
	}
	if left := len(where) - mostPays; left > 0 {
		where = append(where[:mostPays], doc.Plural(left, "more transport")+" with codecs: --view break-even")
	}
	codecs := len(pathsOf(r)) > 0
	if !codecs && len(localCells(r)) > 0 {
		where, codecs = append(where, noLink), true
	}
	encrypted := tlsLines(r, mostPays)
	if len(encrypted) == 0 {
		encrypted = inTheClear(r, tunnelsOf(r))
	}
	end.Tail = append(end.Tail, doc.Say(slices.Concat(fleetLines(r), where, encrypted)...)...)
	end.Tail = append(end.Tail, doubts(r, again)...)
	end.Tail = append(end.Tail, doc.Say(summaries(r.Verdicts())...)...)
	views := "phases,costs"
	if linked || len(swept) > 0 {
		views = "cells," + views
	}
	if len(swept) > 0 {
		views = "crossover," + views
	}
	if len(encrypted) > 0 {
		views = "tls," + views
	}
	if fleetOf(r) != nil {
		views = "hosts," + views
	}
	if len(gainsOf(r)) > 0 {
		views = "gain," + views
	}
	if codecs {
		views = "break-even," + views
	}
	if slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool { return len(c.Profiles) > 0 }) {
		views = "profiles," + views
	}
	end.Tail = append(end.Tail, doc.Paragraph{Text: "More: " + again + " --view " + views + " (or all)", Tone: doc.Dim})
	d.Sections = append(d.Sections, end)
	return d
}

// mostRemarks is how many sentences stand below a table of the first screen.
const mostRemarks = 3

// remarks are the marks of cells: one sentence for each kind, with the cells that have it.
func remarks(cells []*metrics.Cell) []string {
	var all []string
	for _, m := range marks {
		var names []string
		for _, c := range cells {
			if m.on(c, c.Marks()) != "" {
				names = append(names, variant(c))
			}
		}
		if names != nil {
			all = append(all, m.help+": "+doc.List(names)+".")
		}
	}
	if len(all) > mostRemarks {
		all = append(all[:mostRemarks-1], "More about these cells: --view cells")
	}
	return all
}

// groupSection is the table of a group, without what its columns mean.
func groupSection(cells []*metrics.Cell) doc.Section {
	t := groupTable(cells)
	for i := range t.Columns {
		t.Columns[i].Help = ""
	}
	return doc.Section{Title: groupTitle(cells[0].Group()), Tables: []doc.Table{t}}
}

// doubts are what was left out, who could have read or taken part, whether hosts are
// any, and how many other warnings there are: they are too long for a screen.
func doubts(r *metrics.Result, again string) []doc.Paragraph {
	lines := findingLines(r, func(f Finding) bool { return f.Severity == Skipped }, doc.Plain)
	if len(lines) > 2 {
		lines = append(lines[:2], doc.Paragraph{Text: doc.Plural(len(lines)-2, "more line") + " of cells that were skipped: --view findings"})
	}
	open := func(f Finding) bool {
		return f.Rule == Unencrypted || f.Rule == Unproven || f.Rule == OneMachine
	}
	lines = append(lines, findingLines(r, open, doc.Bad)...)
	said := func(f Finding) bool { // by the verdict, of all rows in Python at once
		return f.Rule == OtherTraining && !f.Measured.Remote()
	}
	warnings := findingLines(r, func(f Finding) bool { return f.Severity == Warning && !open(f) && !said(f) }, doc.Plain)
	switch len(warnings) {
	case 0:
	case 1:
		lines = append(lines, warnings...)
	default:
		lines = append(lines, doc.Say(fmt.Sprintf("%d warnings: %s --view findings", len(warnings), again))...)
	}
	return lines
}

// mostOpen is how many comparisons a pull request shows unfolded.
const mostOpen = 4

// request is what a pull request shows of a result: sweeps, the verdict, what puts it
// in doubt, and the tables, the largest model first. All else is folded.
func request(r *metrics.Result) doc.Document {
	d := doc.Document{Lead: errorLines(r)}
	swept, drawn := sweptOf(r)
	for i, of := range swept[:min(len(swept), mostSweeps)] {
		d.Sections = append(d.Sections, doc.Section{Title: sweepTitle(of), Lead: envelopeLines(of), Folded: i >= mostOpen})
	}
	v := view(r, "verdict")
	if !slices.ContainsFunc(r.Groups(), func(cells []*metrics.Cell) bool { return !drawn(cells[0].Group()) }) {
		v.Tables = nil // the sweeps say it
	}
	v.Lead = append(v.Lead, doc.Say(fleetLines(r)...)...)
	v.Lead = append(v.Lead, otherLines(r, 20)...)
	d.Sections = append(d.Sections, v)
	d.Sections = append(d.Sections, view(r, "break-even"), view(r, "tls"), view(r, "gain"))
	for i, cells := range bySize(r, -1) {
		s := groupSection(cells)
		s.Folded = i >= mostOpen || drawn(cells[0].Group())
		d.Sections = append(d.Sections, s)
	}
	d.Sections = append(d.Sections, doc.Section{Tail: legend(r)})
	for _, s := range sections(r, []string{"hosts", "floors", "phases", "costs", "profiles", "copies", "crossover", "workers", "calls", "environment", "spans"}) {
		s.Folded = true
		d.Sections = append(d.Sections, s)
	}
	return d
}

// bySize returns the groups of a result: the smallest model first, or last if order
// is -1.
func bySize(r *metrics.Result, order int) [][]*metrics.Cell {
	groups := r.Groups()
	slices.SortStableFunc(groups, func(a, b []*metrics.Cell) int {
		return order * cmp.Compare(a[0].Model.Payload(), b[0].Model.Payload())
	})
	return groups
}

// machineLine says on what a result was measured.
func machineLine(r *metrics.Result) string {
	e := r.Environment
	return fmt.Sprintf("%s, %s, kernel %s, %s", e.CPU, doc.Plural(e.CPUs, "processor"), e.Kernel, e.Go)
}

// A mark is something that a reader must know about a cell's numbers.
type mark struct {
	help string                                        // the beginning of a sentence
	on   func(c *metrics.Cell, m metrics.Marks) string // what holds of a cell, or nothing
}

// marks are all of them.
var marks = []mark{
	{"Some tensors did not go the way that the transport is named for", func(_ *metrics.Cell, m metrics.Marks) string {
		if !m.Astray {
			return ""
		}
		text, sep := "only "+doc.Percent(m.Attested)+" of the tensors went the way that the transport is named for", ": "
		for _, reason := range slices.Sorted(maps.Keys(m.Reasons)) {
			text += fmt.Sprintf("%s%s %d", sep, reason, m.Reasons[reason])
			sep = ", "
		}
		return text
	}},
	{"Rounds fall into two groups", func(_ *metrics.Cell, m metrics.Marks) string {
		if m.Modes == nil {
			return ""
		}
		a, b := m.Modes[0], m.Modes[1]
		return fmt.Sprintf("rounds fall into two groups: %s (%s) and %s (%s)",
			doc.Quantity("s", a.Center), doc.Percent(a.Share), doc.Quantity("s", b.Center), doc.Percent(b.Share))
	}},
	{"Rounds became slower or faster", func(_ *metrics.Cell, m metrics.Marks) string {
		switch {
		case m.Drift.Across != 0:
			return "rounds changed by " + doc.Signed(m.Drift.Across) + " % from the first to the last block"
		case m.Drift.Within != 0:
			return "rounds changed by " + doc.Signed(m.Drift.Within) + " % within a block"
		}
		return ""
	}},
	{"Over a tenth of the rounds lie far from the median", func(c *metrics.Cell, m metrics.Marks) string {
		if m.Outliers == 0 {
			return ""
		}
		return fmt.Sprintf("%d of %s lie far from the median", m.Outliers, doc.Plural(c.Rounds(), "round"))
	}},
	{"The measurement was interrupted", func(_ *metrics.Cell, m metrics.Marks) string {
		if !m.Interrupted {
			return ""
		}
		return "the measurement was interrupted"
	}},
	{"The data was not proved", func(c *metrics.Cell, _ metrics.Marks) string {
		if c.Proved() || c.Unproved != "" { // which its name says
			return ""
		}
		return "the data was not proved"
	}},
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
		t.Notes = nil
		if why := yardstickText(metrics.YardstickOf(cells)); why != "" {
			t.Notes = []string{why}
		}
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
	for _, m := range marks {
		if text := m.on(c, found); text != "" {
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
