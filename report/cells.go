package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
)

// cellTables are the main tables: one for each model, number of workers and
// number of clients, so that a table holds what can be compared.
func cellTables(v *analysis.Result) section {
	s := section{title: "Round trips"}
	if text := partialText(v.Partial); text != "" {
		s.lead = append(s.lead, text)
	}
	sure, boundSure := 1.0, 1.0
	for _, cells := range v.Groups() {
		s.tables = append(s.tables, cellTable(cells))
		for _, c := range cells {
			sure = min(sure, c.Of("round").Confidence)
			if i := c.Of("floor_ratio"); i.Known() {
				boundSure = min(boundSure, i.Confidence)
			}
		}
	}
	bounded := slices.ContainsFunc(v.Cells, func(c *analysis.Cell) bool { return c.Of("floor_ratio").Known() })
	s.tail = []string{
		"round: the whole round trip of all clients, from publishing the model to the new one, the average of all updates. " +
			"overhead: round less that of " + analysis.Control + ", which does the same work without leaving the process: it ranks transports. " +
			"transfer: one client's round trip without its training. down: until the worker has the model; up: from there until the server has the update, training included. " +
			"bandwidth: payload both ways over overhead, of 1 client on 1 worker, and of what moves bytes. " +
			"peak RSS: summed over processes, so that shared pages count in each that maps them; the PSS under costs counts them once.",
		confidence(sure) + " " + none + ": there is none, or the samples do not show that it is not zero.",
	}
	if bounded {
		floors := "of its floor: against what this machine could do meanwhile"
		if boundSure > 0 {
			floors += ", with at least " + share(boundSure) + " confidence"
		}
		s.tail = slices.Insert(s.tail, 1, floors+". "+analysis.FloorStream+": the share of a socket's bandwidth that was reached, "+
			"by overhead with 1 client on 1 worker, by one client's transfer otherwise; 1× is the limit. "+
			analysis.FloorFutex+", "+analysis.FloorCall+": one client's transfer as a multiple of two wake-ups, or of two empty calls; "+
			"page faults and cold caches inside training are not in it. "+
			analysis.FloorWork+": the round of "+analysis.Control+" as a multiple of the same arithmetic called directly.")
	}
	if text := noteLegend(s.tables); text != "" {
		s.tail = append(s.tail, text)
	}
	if v.Plan.Respawn {
		s.lead = append(s.lead, "Every round but the control's started its own workers and ended them: round and overhead hold that too.")
	}
	return s
}

// noteTexts explain notes, by how they begin.
var noteTexts = []struct{ begin, text string }{
	{timeRanOut, "the cell's time was used up before its interval was as narrow as asked for; the numbers hold, with the interval that they show."},
	{drifts, "rounds became slower (+) or faster (-) by that, so that not all of them are of one state of the machine."},
	{twoModes, "rounds fall into two groups, each with its share; the median lies in the larger one or between them."},
	{outliers, "rounds whose modified z-score is above 3.5, more than a tenth of them; the median does not follow them."},
}

// noteLegend explains the notes that occur in tables.
func noteLegend(tables []table) string {
	var texts []string
	for _, n := range noteTexts {
		if slices.ContainsFunc(tables, func(t table) bool {
			return t.endnote && slices.ContainsFunc(t.rows, func(r []string) bool { return strings.Contains(r[len(r)-1], n.begin) })
		}) {
			texts = append(texts, n.begin+": "+n.text)
		}
	}
	return strings.Join(texts, " ")
}

// confidence explains the intervals of medians, the least sure of which is sure.
func confidence(sure float64) string {
	switch {
	case sure >= stat.Confidence:
		return "±: 95 % confidence interval of the median, without assuming a distribution; its unit is a block, a session of fresh processes."
	case sure > 0:
		return fmt.Sprintf("±: interval of the median with %s confidence only: there are too few blocks, sessions of fresh processes. 95 %% takes 6 of them.", share(sure))
	}
	return "A cell with one block, a session of fresh processes, has no ±: nothing is known of the next one. 95 % confidence takes 6 of them."
}

// How notes begin.
const (
	twoModes   = "two modes"
	drifts     = "drifts"
	timeRanOut = "time ran out"
	outliers   = "outlier"
)

func cellTable(cells []*analysis.Cell) table {
	var rounds, widths []float64
	for _, c := range cells {
		rounds = append(rounds, c.Of("round").Center)
		widths = append(widths, c.Of("transfer").Center)
	}
	u := timeScale(append(rounds, widths...)...)
	in := ", " + u.name
	t := table{
		caption: groupTitle(cells[0].Group()) + ": " + effort(cells),
		header:  []string{"transport", "round" + in, "overhead" + in, "transfer" + in, "down" + in, "up" + in, "GB/s", "of its floor", "CPU s/GB", "peak RSS, MB", "proved", "note"},
		words:   1, endnote: true,
	}
	for _, c := range cells {
		proved := "no"
		if c.Proved() {
			proved = "yes"
		}
		t.add(c.Variant, u.show(c.Of("round")), u.show(c.Of("overhead")), u.show(c.Of("transfer")), u.show(c.Of("down")), u.show(c.Of("up")),
			gigabytes.show(c.Of("bandwidth")), boundText(c), plain.value(c.Of("cpu_per_gb")), megabytes.value(c.Of("peak_rss")), proved, note(c))
	}
	t.trim()
	return t
}

func boundText(c *analysis.Cell) string {
	name, i := c.Bound()
	if !i.Known() {
		return none
	}
	return times(i) + " " + name
}

// note says what a reader of the cell's numbers must know, or nothing.
func note(c *analysis.Cell) string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	marks := c.Marks()
	if marks.Astray {
		text, sep := "only "+share(marks.Attested)+" went the way of its name", ": "
		for _, reason := range slices.Sorted(maps.Keys(marks.Reasons)) {
			text += fmt.Sprintf("%s%s %d", sep, reason, marks.Reasons[reason])
			sep = ", "
		}
		add("%s", text)
	}
	if m := marks.Modes; m != nil {
		add(twoModes+": %s (%s) and %s (%s)", duration(m[0].Center), share(m[0].Share), duration(m[1].Center), share(m[1].Share))
	}
	switch d := marks.Drift; {
	case d.Across != 0:
		add(drifts+": %s %% from the first to the last block", signed(d.Across))
	case d.Within != 0:
		add(drifts+": %s %% within a block", signed(d.Within))
	}
	if x := marks.OutOfTime; x > 0 {
		add(timeRanOut+" at ±%s", share(math.Ceil(x*1000)/1000))
	}
	if n := marks.Outliers; n > 0 {
		add("%s among %d rounds", plural(n, outliers), c.Rounds())
	}
	if marks.Interrupted {
		add("interrupted")
	}
	return strings.Join(notes, "; ")
}

// floorTable lists the limits of the machine.
func floorTable(v *analysis.Result) section {
	if len(v.Floors) == 0 {
		return section{}
	}
	t := table{header: []string{"floor", "of", "median", "what"}, words: 2, endnote: true}
	for _, f := range v.Floors {
		i := stat.Of(f.Blocks)
		u := scale{"GB/s", 1e9}
		if f.Unit == "s" {
			u = timeScale(i.Center)
		}
		of := "this machine"
		if f.Model != "" {
			of = bench.Model{Name: f.Model, Up: f.Up}.Label()
		}
		if f.Clients > 0 {
			of += ", " + plural(f.Clients, "client")
		}
		if f.Gap > 0 {
			of += ", after " + duration(float64(f.Gap)/1e9) + " of work"
		}
		if f.Transport != "" {
			of = f.Transport
		}
		if f.Variant != "" {
			of += ", " + f.Variant
		}
		t.add(f.Name, of, u.show(i)+" "+u.name, f.Help)
	}
	return section{title: "Floors", lead: []string{"What this machine could do while the cells ran, without any transport."}, tables: []table{t}}
}
