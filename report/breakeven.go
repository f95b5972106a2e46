package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// rates are the links, in bit/s, for which rounds are foretold where none was
// measured.
var rates = []float64{100e6, 1e9, 10e9}

// breakEvens says below which rate of a network each codec pays.
func breakEvens(r *analysis.Result) doc.Section {
	s := doc.Section{Title: "Where a codec pays"}
	paths, local := r.Paths(), r.Local()
	for _, same := range analysis.GroupBy(paths, func(p analysis.Path) string { return workTitle(p) }) {
		title := workTitle(same[0])
		s.Lead = append(s.Lead, bestLines(r, same, title, len(paths) > len(same))...)
		for _, p := range same {
			name := plainVariant(p[0][0]) + ", " + title
			s.Tables = filled(s.Tables, payTable(p, name), wireTable(codecColumns, codecRow, byCodec(p), name), lossTable(codecColumns, codecRow, byCodec(p), name))
		}
		s.Tables = filled(s.Tables, rateTable(r, same, title))
	}
	for _, same := range analysis.GroupBy(local, func(c *analysis.Cell) analysis.Group { return c.Group() }) {
		title := groupTitle(same[0].Group()) + ", not over TCP"
		columns, row := []doc.Column{{Name: "transport"}}, func(c *analysis.Cell) []doc.Cell { return []doc.Cell{doc.Words(variant(c))} }
		price := cellTable(columns, row, same, priceFields()...)
		price.Caption = title
		s.Tables = filled(s.Tables, price, wireTable(columns, row, same, title), lossTable(columns, row, same, title))
	}
	if len(s.Tables) == 0 {
		return doc.Section{}
	}
	s.Plots = payPlots(paths)
	if len(paths) > 0 {
		s.Tail = breakEvenNotes(r.BreakEvens())
	} else {
		s.Tail = doc.Say(noLink)
	}
	return s
}

// noLink is said of a result in which codecs are measured, but not over TCP.
const noLink = "Nothing went over TCP, so there is no rate below which a codec pays: add --link unshaped --workers 1 --clients 1."

// workTitle says what the cells of a path do, on whatever link.
func workTitle(p analysis.Path) string { return groupTitle(onAnyLink(p[0])) }

// onAnyLink is the group of cells but for their link.
func onAnyLink(cells []*analysis.Cell) analysis.Group {
	g := cells[0].Group()
	g.Link = ""
	return g
}

// breakEvenNotes say what the tables rest on.
func breakEvenNotes(all []*analysis.BreakEven) []doc.Paragraph {
	texts := []string{"A codec pays below bits saved a round ÷ seconds added to a round, both against no codec over the same transport, with one client on one worker over TCP without a rate."}
	var outside, respawned, busy, unlike bool
	for _, b := range all {
		outside = outside || b.Pays != "" && b.Coded.Link == ""
		respawned = respawned || b.Coded.Respawn
		busy = busy || !b.Coded.Alone()
		unlike = unlike || b.Plain == nil
	}
	for _, of := range []struct {
		on   bool
		text string
	}{
		{outside, "Without a rate was measured outside of a link, where packets have another size than on one: run with --link unshaped."},
		{respawned, "Workers that are started for every round have nothing to go from: all models were full versions."},
		{unlike, "Of a codec that was measured without none beside it, nothing is said: name none in --codec too."},
		{busy, "Of several workers or clients, nothing is said: their rounds overlap on a link."},
	} {
		if of.on {
			texts = append(texts, of.text)
		}
	}
	return doc.Say(texts...)
}

// pays says where a codec pays; empty if that is not known.
func pays(b *analysis.BreakEven) string {
	switch {
	case b.Pays == analysis.Below && math.IsInf(b.At.High, 1):
		return "pays at least below " + doc.Quantity("bit/s", b.At.Low)
	case b.Pays == analysis.Below:
		return "pays below " + doc.Bounded("bit/s", b.At)
	case b.Pays == analysis.AnyLink:
		return "pays on any link"
	case b.Pays == analysis.Never:
		return "never pays"
	}
	return ""
}

// payCell is where a codec pays in a column of rates.
func payCell(b *analysis.BreakEven) doc.Cell {
	switch {
	case b.Pays != analysis.Below:
		return doc.Words(string(b.Pays))
	case math.IsInf(b.At.High, 1):
		return doc.Words("at least " + doc.Quantity("bit/s", b.At.Low))
	}
	return doc.Estimate(b.At)
}

// bare leaves out what a column means, where another one says it.
func bare(f field) field {
	f.Help = ""
	return f
}

// priceFields are what a codec saves, and what it takes.
func priceFields() []field {
	fields := []field{median("ratio_down", "down").in("%"), median("ratio_up", "up").in("%"), bare(median("phase.compress", "compress")), bare(median("phase.expand", "expand")), bare(median("round", ""))}
	fields[0].Help, fields[1].Help = "what travels of a model, as a share of it; without full versions", "the same of updates"
	return fields
}

// payTable has a row for each codec: what it saves, what it takes, and where it pays.
func payTable(p analysis.Path, title string) doc.Table {
	fields := priceFields()
	t := doc.Table{Caption: title, Columns: []doc.Column{{Name: "codec"}}}
	for _, f := range fields {
		t.Columns = append(t.Columns, f.Column)
	}
	t.Columns = append(t.Columns, doc.Column{Name: "pays below", Unit: "bit/s", Help: "the rate of a link at which a round takes as long with the codec as without"})
	row := func(c *analysis.Cell, below doc.Cell) {
		cells := []doc.Cell{doc.Words(c.Codec())}
		for _, f := range fields {
			cells = append(cells, f.of(c))
		}
		t.Add(append(cells, below)...)
	}
	if c := analysis.Base(p[0]); c != nil && !c.Encoded() {
		row(c, doc.Cell{})
	}
	for _, b := range p.BreakEvens() {
		row(b.Coded, payCell(b))
		if command := halfAndTwice(b); command != "" {
			t.Notes = append(t.Notes, b.Coded.Codec()+" at half and at twice its break-even: "+command)
		}
	}
	return t
}

// The rates between which a break-even can be checked, in bit/s: slower links take too
// long to measure, and on faster ones, computing and sending overlap.
const checkedFrom, checkedTo = 50e6, 2.5e9

// halfAndTwice is the command that measures a codec, and none, at half its break-even,
// where it should be faster, and at twice that, where it should be slower; empty if the
// break-even is out of range.
func halfAndTwice(b *analysis.BreakEven) string {
	rate := b.At.Center / 1e6
	if b.Pays != analysis.Below || !(b.At.Center >= checkedFrom && b.At.Center <= checkedTo) {
		return ""
	}
	command := "ipcbench run --quick"
	for _, a := range analysis.Axes() {
		value := a.Of(b.Coded)
		switch {
		case a.Name == "transport":
			value = strings.Replace(b.Coded.Uncoded(), ":network=tcp", "", 1)
		case a.Name == "codec":
			value = analysis.NoCodec + "," + value
		case a.Name == "link":
			value = fmt.Sprintf("%s,%.0fMbit,%.0fMbit", analysis.Unshaped, rate/2, 2*rate)
		case value == a.Usual || a.Name == "build":
			continue
		case value == "on": // nested
			value = "true"
		}
		command += " --" + a.Name + "=" + quoted(value)
	}
	return command
}

// codecRow is the key of a row in a table of one transport.
func codecRow(c *analysis.Cell) []doc.Cell { return []doc.Cell{doc.Words(c.Codec())} }

var codecColumns = []doc.Column{{Name: "codec"}}

// byCodec are the cells of a path that say what each codec does, after that without one.
func byCodec(p analysis.Path) (cells []*analysis.Cell) {
	if c := analysis.Base(p[0]); c != nil && !c.Encoded() {
		cells = append(cells, c)
	}
	for _, b := range p.BreakEvens() {
		cells = append(cells, b.Coded)
	}
	return cells
}

// wireTable says what travels, and how much of the data changed; lossTable what was
// lost.
func wireTable(keys []doc.Column, row func(c *analysis.Cell) []doc.Cell, cells []*analysis.Cell, title string) doc.Table {
	return captioned(title+": the data", cellTable(keys, row, cells, median("wire_down", ""), bare(median("wire_up", "")), median("density_down", "").in("%"), bare(median("density_up", "")).in("%"),
		nonZero(median("full_versions", "")), nonZero(median("same_jobs", "")), nonZero(median("plain_tensors", "")), nonZero(median("unchanged_tensors", ""))))
}

func lossTable(keys []doc.Column, row func(c *analysis.Cell) []doc.Cell, cells []*analysis.Cell, title string) doc.Table {
	return captioned(title+": what is lost", cellTable(keys, row, cells, median("error_down_max", "error down").in("%"), median("error_down_rms", "RMS").in("%"),
		bare(median("error_up_max", "error up")).in("%"), bare(median("error_up_rms", "RMS")).in("%"), median("error_bound", "bound").in("%")))
}

func captioned(title string, t doc.Table) doc.Table {
	t.Caption = title
	return t
}

// foretold is the sign of a round that was not measured.
const foretold = "*"

// rateTable has the round of each codec at each rate: measured, or predicted.
func rateTable(r *analysis.Result, paths []analysis.Path, title string) doc.Table {
	t := doc.Table{Caption: title + ": a round by link", Columns: []doc.Column{{Name: "transport"}}}
	all := ratesOf(r)
	for _, rate := range all {
		t.Columns = append(t.Columns, doc.Column{Name: rateText(rate), Unit: "s"})
	}
	predicted := false
	for _, p := range paths {
		for _, cells := range p {
			row := []doc.Cell{doc.Words(variant(cells[0]))}
			for _, rate := range all {
				e := analysis.EstimateAt(cells, rate)
				cell := center(e.Round)
				if e.Predicted && e.Round.Known() {
					cell.Text, predicted = foretold, true
				}
				row = append(row, cell)
			}
			t.Add(row...)
		}
	}
	if predicted {
		t.Notes = []string{foretold + ": not measured but predicted: the round without a rate, and the time that its bits take to pass at this one."}
	}
	return t
}

// ratesOf returns the rates of the links of a result and the usual ones, in order.
func ratesOf(r *analysis.Result) []float64 {
	all := slices.Clone(rates)
	for _, c := range r.Cells {
		if rate, ok := analysis.Rate(c.Link); ok {
			all = append(all, rate)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// bestLines say for each rate what to use.
func bestLines(r *analysis.Result, paths []analysis.Path, title string, titled bool) []doc.Paragraph {
	var lines []doc.Paragraph
	for _, rate := range ratesOf(r) {
		var best analysis.Estimate
		for _, p := range paths {
			for _, cells := range p {
				e := analysis.EstimateAt(cells, rate)
				if e.Round.Known() && (best.Cell == nil || e.Round.Center < best.Round.Center) {
					best = e
				}
			}
		}
		if best.Cell == nil {
			continue
		}
		text := fmt.Sprintf("At %s %s is fastest, %s a round", rateText(rate), variant(best.Cell), doc.Quantity("s", best.Round.Center))
		if best.Predicted {
			text += ", by prediction"
		}
		lines = append(lines, doc.Paragraph{Text: text + ".", Tone: doc.Strong})
	}
	if titled && len(lines) > 0 {
		lines = append([]doc.Paragraph{{Text: title + ":"}}, lines...)
	}
	return lines
}

// payLine says of all codecs of a path where they pay.
func payLine(p analysis.Path) string {
	var parts []string
	for _, b := range p.BreakEvens() {
		if text := pays(b); text != "" {
			parts = append(parts, b.Coded.Codec()+" "+text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Over " + plainVariant(p[0][0]) + " " + doc.List(parts) + "."
}

// linkSection is what a screen shows of work that was measured on several links: a row
// for each, with what is best there and what is best without a codec. It takes the
// place of a table for each link.
func linkSection(groups [][]*analysis.Cell) doc.Section {
	round := interval("round", "")
	round.Help = ""
	t := doc.Table{Columns: []doc.Column{{Name: "link"}, {Name: "best", Wrap: true}, round.Column, {Name: "without a codec"}, {Name: "× best", Unit: "1"}}}
	for _, cells := range groups {
		v, _ := analysis.Decide(cells)
		best := either(v.Fastest(), variant)
		if v.Unclear() || v.Unproved {
			best = variant(v.Best()) + ", not proved"
		}
		row := []doc.Cell{doc.Words(linkText(v.Group.Link)), doc.Words(best), round.of(v.Best())}
		if i := slices.IndexFunc(v.Ranked, func(c *analysis.Cell) bool { return !c.Encoded() }); i > 0 {
			row = append(row, doc.Words(variant(v.Ranked[i])), doc.Number(v.Ranked[i].Of(v.By).Center/v.Best().Of(v.By).Center))
		}
		t.Add(row...)
	}
	return doc.Section{Title: groupTitle(onAnyLink(groups[0])), Tables: []doc.Table{t}}
}

// The rates between which pictures show rounds, and how many of each power of ten.
const (
	leastDrawn, mostDrawn = 10e6, 10e9
	drawnOfTen            = 8
)

// payPlots draw the predicted round of each codec against the rate: where its line
// crosses that without a codec, it breaks even.
func payPlots(paths []analysis.Path) []doc.Plot {
	var all []doc.Plot
	for _, path := range paths {
		p := doc.Plot{
			Caption: "Rounds by link, " + plainVariant(path[0][0]) + ", " + workTitle(path), Kind: doc.Curves,
			At: doc.Axis{Name: "rate of the link", Unit: "bit/s", Log: true}, Value: doc.Axis{Name: "round", Unit: "s", Log: true},
		}
		for _, cells := range path {
			base := analysis.Base(cells)
			if base == nil {
				continue
			}
			of := doc.Series{Name: cells[0].Codec(), Dim: !base.Encoded()}
			steps := int(math.Round(drawnOfTen * math.Log10(mostDrawn/leastDrawn)))
			for i := range steps + 1 {
				rate := leastDrawn * math.Pow(10, float64(i)/drawnOfTen)
				if round := base.Predicted(rate); round.Known() {
					of.Points = append(of.Points, doc.Point{At: rate, Value: stat.Interval{Center: round.Center}})
				}
			}
			p.Series = append(p.Series, of)
		}
		for _, b := range path.BreakEvens() {
			if b.Pays == analysis.Below && b.At.Center >= leastDrawn && b.At.Center <= mostDrawn {
				p.Marks = append(p.Marks, doc.Mark{At: b.At.Center, Value: b.Coded.Predicted(b.At.Center).Center, Text: b.Coded.Codec() + " " + pays(b)})
			}
		}
		p.Notes = []string{"Lines are predicted: the round without a rate, and the time that its bits take to pass."}
		all = drawn(all, p)
	}
	return all
}
