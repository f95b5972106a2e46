package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// GroupSection returns the table of a group below its title, without explanations.
func GroupSection(g metrics.Group, t doc.Table) doc.Section {
	return doc.Section{Title: GroupTitle(g), Tables: []doc.Table{unexplained(t)}}
}

// unexplained returns t without the explanations of its columns.
func unexplained(t doc.Table) doc.Table {
	t.Columns = slices.Clone(t.Columns)
	for i := range t.Columns {
		t.Columns[i].Help = ""
	}
	return t
}

// InOrder returns the cells in the order of a table: transports of ipcbench, then peers, then
// the control. In each part, the fastest is first, and unproved cells are last.
func InOrder(cells []*metrics.Cell, v contrast.Verdict) []*metrics.Cell {
	others := Only(cells, func(c *metrics.Cell) bool { return !slices.Contains(v.Ranked, c) })
	part := func(c *metrics.Cell) float64 { return OneIf(c.IsPeer()) + 2*OneIf(c.IsControl()) }
	unproved := func(c *metrics.Cell) float64 {
		if c.Unproved == "" {
			return -1
		}
		return c.Of(v.By).Center
	}
	all := slices.Concat(v.Ranked, others)
	slices.SortStableFunc(all, func(a, b *metrics.Cell) int {
		return cmp.Or(cmp.Compare(part(a), part(b)), cmp.Compare(unproved(a), unproved(b)))
	})
	return all
}

const controlNote = "the same round inside one process"

// GroupTable returns the table of a group: the fastest transport first, then peers and the
// control below rules. Transports that may be the fastest are highlighted. Its notes are
// remarks about the cells.
func GroupTable(cells []*metrics.Cell) doc.Table {
	v, ok := contrast.Decide(cells)
	ranks, bandwidth, cpu, start := Column("±"+v.By), Column("±bandwidth"), transportCPU(v.Ranked),
		Column("spawn=start")
	bandwidth.Name = ""       // the unit is enough
	if cells[0].Train != "" { // CPU time would include the user's training
		cpu = Column("±communication%")
	}
	if cells[0].Budgeted() {
		bandwidth, cpu = Column("peak_rss_server=memory of the server"), Column("±cpu_server=CPU of the server")
	}
	ratio := field{doc.Column{Name: "× best", Unit: "1", Help: "the column before it as a multiple of the fastest one",
		Bar: true}, func(c *metrics.Cell) any {
		if ok && c.Of(v.By).Known() && c.Unproved == "" && !c.IsControl() {
			return c.Of(v.By).Center / v.Best().Of(v.By).Center
		}
		return nil
	}}
	moved := field{bandwidth.Column, func(c *metrics.Cell) any {
		if c.HandsOver() && !c.Budgeted() {
			return "hand-off"
		}
		return bandwidth.of(c)
	}}
	fields := []field{words("transport", Variant), ranks, ratio, start, moved, cpu}
	if !startsDiffer(v.Ranked) {
		fields = slices.Delete(fields, 3, 4)
	}
	t := doc.Table{Columns: headers(fields)}
	if c := cells[0].Control; c != nil && cells[0].Link != (link.Rate{}) { // the control is on no link: show it in every link's table
		cells = append(slices.Clip(cells), c)
	}
	t.Notes = remarks(cells)
	if i := slices.IndexFunc(cells, func(c *metrics.Cell) bool { return c.PerProcess > 1 && !c.IsControl() }); i >= 0 {
		t.Notes = append(t.Notes, "The workers are"+InProcesses(cells[i])+".")
	}
	peers := false
	for k, c := range InOrder(cells, v) {
		row := doc.Row{Cells: cellsOf(fields, c)}
		if c.IsControl() {
			row.Heading, row.Rule, row.Tone = controlNote, k > 0, doc.Dim
		}
		if c.IsPeer() && !peers {
			peers, row.Rule, row.Heading = true, k > 0, "peers"
		}
		if c.Unproved != "" {
			row.Note = "not proved: " + c.Unproved
		}
		if c.Lacks() != "" {
			row.Note = "without " + c.Lacks() + ", which its project needs: not ranked"
		}
		if ok && slices.Contains(v.Fastest(), c) {
			row.Tone = doc.Good
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// transportCPU is the column of the CPU time of transports without training, or with it if some ranked
// cell cannot be compared with its control.
func transportCPU(ranked []*metrics.Cell) field {
	whole, less := Column("cpu_per_gb=total CPU"), Column("cpu_transport=CPU")
	if slices.ContainsFunc(ranked, func(c *metrics.Cell) bool { return !c.Of("cpu_transport").Known() }) {
		return whole
	}
	less.Help += ". The row of " + metrics.Control + " has its own; ≈ 0: its interval includes 0"
	return field{less.Column, func(c *metrics.Cell) any {
		switch i := c.Of("cpu_transport"); {
		case c.IsControl():
			return whole.of(c)
		case i.Confidence > 0 && !i.Excludes(0):
			return "≈ 0"
		}
		return less.of(c)
	}}
}

// startsDiffer reports whether a transport makes so much before the first round that starting
// its workers takes longer than with another one, by more than a round.
func startsDiffer(ranked []*metrics.Cell) bool {
	least := math.Inf(1)
	for _, c := range ranked {
		least = min(least, c.Of("spawn").High)
	}
	return slices.ContainsFunc(ranked, func(c *metrics.Cell) bool { return c.Of("spawn").Low-least > c.Of("round").Center })
}

// Legend explains the intervals of tables, and rounds with a user's own training or with fresh
// workers.
func Legend(r *metrics.Result) []doc.Paragraph {
	var lines []doc.Paragraph
	if len(r.Cells) > 0 {
		lines = doc.Say(confidence(r.Cells))
	}
	if i := slices.IndexFunc(r.Cells, func(c *metrics.Cell) bool { return c.Train != "" }); i >= 0 {
		lines = append(lines, doc.Say("communication: share of a client's round trip that is not training by "+r.Cells[i].Train+". Hashes prove what was sent, not what the training computed.")...)
	}
	if slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool { return c.Respawn }) {
		lines = append(lines, doc.Say("A round with fresh workers includes starting and ending them.")...)
	}
	return lines
}

// CellTables is the view cells: the tables of all groups, with the marks of each cell in
// words.
func CellTables(r *metrics.Result) doc.Section {
	s := doc.Section{Title: "Round trips", Tail: Legend(r)}
	for _, cells := range r.Groups() {
		g := cells[0].Group()
		t := GroupTable(cells)
		t.Caption = GroupTitle(g) + ": " + effort(cells)
		t.Notes = YardstickText(metrics.YardstickOf(cells))
		var late []string
		for _, c := range cells {
			if texts := markTexts(c); texts != nil {
				t.Notes = append(t.Notes, Variant(c)+": "+strings.Join(texts, "; ")+".")
			}
			if x := c.OutOfTime(); x > 0 {
				late = append(late, Variant(c)+" (±"+doc.Percent(x)+")")
			}
		}
		if late != nil {
			t.Notes = append(t.Notes, "Time ran out before ±"+doc.Percent(r.Plan.Precision)+" was reached: "+doc.List(late)+".")
		}
		s.Tables = append(s.Tables, t)
	}
	if slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool { return c.Rounds() < stat.LeastForModes }) {
		s.Tail = append(s.Tail, doc.Say(fmt.Sprintf("Cells with fewer than %d rounds are not tested for two groups of rounds.", stat.LeastForModes))...)
	}
	return s
}

func markTexts(c *metrics.Cell) []string {
	return doc.Each(contrast.Marks(c), func(m contrast.Mark) string { return m.Text })
}

// details returns the marks of a cell in words, and the precision reached if time ran out.
func details(c *metrics.Cell, plan result.Plan) []string {
	all := markTexts(c)
	if x := c.OutOfTime(); x > 0 {
		all = append(all, fmt.Sprintf("time ran out at ±%s, before ±%s was reached", doc.Percent(x), doc.Percent(plan.Precision)))
	}
	return all
}

// effort returns the numbers of blocks per cell and of rounds per block, as ranges.
func effort(cells []*metrics.Cell) string {
	blocks := doc.Each(cells, func(c *metrics.Cell) int { return len(c.Timed()) })
	least, most := metrics.RoundsPerBlock(cells...)
	return Between(slices.Min(blocks), slices.Max(blocks), "block") + " of " + Between(least, most, "round") + " per cell"
}

// remarks returns a paragraph with a sentence for each kind of mark, with the names of the cells that have it.
func remarks(cells []*metrics.Cell) []string {
	var all []string
	for kind, help := range contrast.KindHelp {
		if kind == contrast.Interrupted { // a finding says so of the whole run
			continue
		}
		marked := Only(cells, func(c *metrics.Cell) bool {
			return slices.ContainsFunc(contrast.Marks(c), func(m contrast.Mark) bool { return m.Kind == kind })
		})
		if len(marked) > 0 {
			all = append(all, help+": "+doc.List(doc.Each(marked, Variant))+".")
		}
	}
	if all == nil {
		return nil
	}
	return []string{strings.Join(all, " ")}
}
