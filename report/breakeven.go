package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// Rate returns the rate of a cell's link in bit/s; ok is false if it has none, or has
// a delay besides.
func Rate(l link.Rate) (bits float64, ok bool) {
	return float64(l.Bits()), l.Bits() > 0 && l.Delay() == 0
}

// Pays is on which links a codec saves time.
type Pays string

// The answers.
const (
	Below   Pays = "below"    // on links below the break-even
	AnyLink Pays = "any link" // where bytes cost nothing, a round takes no longer
	Never   Pays = "never"    // nothing is saved, or it takes a link that nobody has
)

// leastRate is that of the slowest link that anybody trains over, in bit/s.
const leastRate = 1e6

// A BreakEven compares a codec with none, over the same transport and in the same
// work. At its rate, bytes that need not travel save as much time as the codec takes:
//
//	bits saved a round ÷ seconds added to a round
//
// Both are measured where bytes cost least: with one client on one worker, over TCP
// without a rate. There the way down, codecs, training and the way up follow upon each
// other, so that bytes of both ways add up. Nothing is assumed to overlap.
type BreakEven struct {
	Coded *metrics.Cell // without a rate, if it was measured so; else on any link
	Plain *metrics.Cell // the same without a codec, or nil
	Pays  Pays          // empty if it is not known
	Saved float64       // bytes a round, both ways
	Added stat.Interval // seconds a round
	At    stat.Interval // bit/s; a bound, or all, is infinite where it may be that nothing is added
}

// alike is what cells have in common that differ in one setting alone, and it may be in
// their link.
type alike struct {
	metrics.Group
	variant  string // but for that setting
	language string
}

// A Path is a transport over TCP in one work: its cells on all links, by codec, those
// without a codec first.
type Path [][]*metrics.Cell

// pathsOf returns those of all transports that were measured over TCP with a codec.
func pathsOf(r *metrics.Result) []Path {
	over := slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool { return !c.OverTCP() || !c.Of("round").Known() })
	var all []Path
	for _, cells := range metrics.GroupBy(over, func(c *metrics.Cell) alike { return alike{c.Work(), c.Uncoded(), c.Language} }) {
		plain := slices.DeleteFunc(slices.Clone(cells), (*metrics.Cell).Encoded)
		if coded := slices.DeleteFunc(cells, func(c *metrics.Cell) bool { return !c.Encoded() }); len(coded) > 0 {
			all = append(all, metrics.GroupBy(append(plain, coded...), (*metrics.Cell).Codec))
		}
	}
	return all
}

// localCells returns the cells with a codec, and the same without one, of what does not go
// over TCP: no link is in question there, and nothing breaks even.
func localCells(r *metrics.Result) []*metrics.Cell {
	over := slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool { return c.OverTCP() || !c.Of("round").Known() })
	var all []*metrics.Cell
	for _, cells := range metrics.GroupBy(over, func(c *metrics.Cell) alike { return alike{c.Work(), c.Uncoded(), c.Language} }) {
		if slices.ContainsFunc(cells, (*metrics.Cell).Encoded) {
			all = append(all, cells...)
		}
	}
	return all
}

// on returns the cell on a link, or nil.
func on(cells []*metrics.Cell, l link.Rate) *metrics.Cell {
	if i := slices.IndexFunc(cells, func(c *metrics.Cell) bool { return c.Link == l }); i >= 0 {
		return cells[i]
	}
	return nil
}

// Base returns the cell whose bytes cost least: on a link without a rate, or outside
// of any; nil if there is none.
func Base(cells []*metrics.Cell) *metrics.Cell {
	return cmp.Or(on(cells, link.Unshaped), on(cells, link.Rate{}))
}

// breakEvensOf returns those of all codecs of all paths.
func breakEvensOf(r *metrics.Result) []*BreakEven {
	var all []*BreakEven
	for _, p := range pathsOf(r) {
		all = append(all, p.BreakEvens()...)
	}
	return all
}

// BreakEvens returns those of all codecs of the path.
func (p Path) BreakEvens() []*BreakEven {
	var all []*BreakEven
	var plain []*metrics.Cell
	for _, cells := range p {
		if !cells[0].Encoded() {
			plain = cells
			continue
		}
		b := &BreakEven{Coded: cmp.Or(Base(cells), cells[0]), Added: stat.None(), At: stat.None()}
		b.Plain = on(plain, b.Coded.Link)
		b.reckon()
		all = append(all, b)
	}
	return all
}

// reckon finds where the codec breaks even.
func (b *BreakEven) reckon() {
	if b.Plain == nil || b.Coded.Link.Shaped() || !b.Coded.Alone() || b.Coded.Respawn {
		return
	}
	b.Saved, b.Added = travels(b.Plain)-travels(b.Coded), b.Coded.More("round", b.Plain)
	b.At = b.Added.Map(func(s float64) float64 {
		if s <= 0 {
			return math.Inf(1)
		}
		return 8 * b.Saved / s
	})
	switch {
	case math.IsNaN(b.Saved):
		b.At = stat.None()
	case b.Saved <= 0:
		b.Pays, b.At = Never, stat.None()
	case b.Added.High <= 0:
		b.Pays = AnyLink
	case b.At.High < leastRate:
		b.Pays = Never
	default:
		b.Pays = Below
	}
}

// travels returns how many bytes of tensors a round moves, both ways.
func travels(c *metrics.Cell) float64 {
	return c.Of("wire_down").Center + c.Of("wire_up").Center
}

// breakEvens says below which rate of a network each codec pays.
func breakEvens(r *metrics.Result) doc.Section {
	s := doc.Section{Title: "Where a codec pays"}
	paths, local := pathsOf(r), localCells(r)
	for _, same := range metrics.GroupBy(paths, func(p Path) string { return workTitle(p) }) {
		title := workTitle(same[0])
		for _, p := range same {
			name := plainVariant(p[0][0]) + ", " + title
			s.Tables = filled(s.Tables, payTable(p, name), wireTable(codecColumns, codecRow, byCodec(p), name), lossTable(codecColumns, codecRow, byCodec(p), name))
		}
	}
	for _, same := range metrics.GroupBy(local, func(c *metrics.Cell) metrics.Group { return c.Group() }) {
		title := groupTitle(same[0].Group()) + ", not over TCP"
		columns, row := []doc.Column{{Name: "transport"}}, func(c *metrics.Cell) []doc.Cell { return []doc.Cell{doc.Words(variant(c))} }
		price := cellTable(columns, row, same, priceFields()...)
		price.Caption = title
		s.Tables = filled(s.Tables, price, wireTable(columns, row, same, title), lossTable(columns, row, same, title))
	}
	if len(s.Tables) == 0 {
		return doc.Section{}
	}
	s.Tables = append(s.Tables, breakEvenTable(breakEvensOf(r)))
	if len(paths) > 0 {
		s.Tail = breakEvenNotes(breakEvensOf(r))
	} else {
		s.Tail = doc.Say(noLink)
	}
	return s
}

// breakEvenTable has a row for each codec over each transport, for programs. Saved and added
// are of a round.
func breakEvenTable(all []*BreakEven) doc.Table {
	t := keyed("break_even", "a codec over a transport, and the links on which it pays", axes(),
		doc.Column{Name: "pays", Help: "below, any link or never; absent if it is not known"},
		doc.Column{Name: "at", Unit: "bit/s", Help: "the rate of a link at which a round takes as long with the codec as without; what is null may be infinite"},
		doc.Column{Name: "saved", Unit: "B", Help: "bytes that a round does not move"}, doc.Column{Name: "added", Unit: "s", Help: "what a round takes more"})
	for _, b := range all {
		row := append(axisCells(axes(), b.Coded), doc.Words(string(b.Pays)), doc.Estimate(b.At))
		if b.Plain != nil {
			row = append(row, doc.Number(b.Saved), doc.Estimate(b.Added))
		}
		t.Add(row...)
	}
	return t
}

// noLink is said of a result in which codecs are measured, but not over TCP.
const noLink = "Nothing went over TCP, so there is no rate below which a codec pays: add --link unshaped --workers 1 --clients 1."

// workTitle says what the cells of a path do, on whatever link.
func workTitle(p Path) string { return groupTitle(onAnyLink(p[0])) }

// onAnyLink is the group of cells but for their link.
func onAnyLink(cells []*metrics.Cell) metrics.Group {
	g := cells[0].Group()
	g.Link, g.NoLink = link.Rate{}, false
	return g
}

// breakEvenNotes say what the tables rest on.
func breakEvenNotes(all []*BreakEven) []doc.Paragraph {
	texts := []string{"A codec pays below bits saved a round ÷ seconds added to a round, both against no codec over the same transport, with one client on one worker over TCP without a rate."}
	var outside, respawned, busy, unlike bool
	for _, b := range all {
		outside = outside || b.Pays != "" && b.Coded.Link == link.Rate{}
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
func pays(b *BreakEven) string {
	switch {
	case b.Pays == Below && math.IsInf(b.At.High, 1):
		return "pays at least below " + doc.Quantity("bit/s", b.At.Low)
	case b.Pays == Below:
		return "pays below " + doc.Bounded("bit/s", b.At)
	case b.Pays == AnyLink:
		return "pays on any link"
	case b.Pays == Never:
		return "never pays"
	}
	return ""
}

// payCell is where a codec pays in a column of rates.
func payCell(b *BreakEven) doc.Cell {
	switch {
	case b.Pays != Below:
		return doc.Words(string(b.Pays))
	case math.IsInf(b.At.High, 1):
		return doc.Words("at least " + doc.Quantity("bit/s", b.At.Low))
	}
	return doc.Estimate(b.At)
}

// priceFields are what a codec saves, and what it takes.
func priceFields() []field {
	fields := columns("ratio_down%=down | ratio_up%=up | -phase.compress=compress | -phase.expand=expand | -round")
	fields[0].Help, fields[1].Help = "what travels of a model, as a share of it; without full versions", "the same of updates"
	return fields
}

// payTable has a row for each codec: what it saves, what it takes, and where it pays.
func payTable(p Path, title string) doc.Table {
	fields := priceFields()
	t := doc.Table{Caption: title, Columns: []doc.Column{{Name: "codec"}}}
	for _, f := range fields {
		t.Columns = append(t.Columns, f.Column)
	}
	t.Columns = append(t.Columns, doc.Column{Name: "pays below", Unit: "bit/s", Help: "the rate of a link at which a round takes as long with the codec as without"})
	row := func(c *metrics.Cell, below doc.Cell) {
		cells := []doc.Cell{doc.Words(c.Codec())}
		for _, f := range fields {
			cells = append(cells, f.of(c))
		}
		t.Add(append(cells, below)...)
	}
	if c := Base(p[0]); c != nil && !c.Encoded() {
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
func halfAndTwice(b *BreakEven) string {
	rate := b.At.Center / 1e6
	if b.Pays != Below || !(b.At.Center >= checkedFrom && b.At.Center <= checkedTo) {
		return ""
	}
	command := "ipcbench run --quick"
	for _, a := range metrics.Axes() {
		value := a.Of(b.Coded)
		switch {
		case a.Name == "transport":
			value = strings.Replace(b.Coded.Uncoded(), ":network=tcp", "", 1)
		case a.Name == "codec":
			value = metrics.NoCodec + "," + value
		case a.Name == "link":
			value = fmt.Sprintf("%s,%.0fMbit,%.0fMbit", link.Unshaped.String(), rate/2, 2*rate)
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
func codecRow(c *metrics.Cell) []doc.Cell { return []doc.Cell{doc.Words(c.Codec())} }

var codecColumns = []doc.Column{{Name: "codec"}}

// byCodec are the cells of a path that say what each codec does, after that without one.
func byCodec(p Path) (cells []*metrics.Cell) {
	if c := Base(p[0]); c != nil && !c.Encoded() {
		cells = append(cells, c)
	}
	for _, b := range p.BreakEvens() {
		cells = append(cells, b.Coded)
	}
	return cells
}

// wireTable says what travels, and how much of the data changed; lossTable what was
// lost.
func wireTable(keys []doc.Column, row func(c *metrics.Cell) []doc.Cell, cells []*metrics.Cell, title string) doc.Table {
	return captioned(title+": the data", cellTable(keys, row, cells, columns(`wire_down | -wire_up | density_down% | -density_up% |
		!full_versions | !same_jobs | !plain_tensors | !unchanged_tensors`)...))
}

func lossTable(keys []doc.Column, row func(c *metrics.Cell) []doc.Cell, cells []*metrics.Cell, title string) doc.Table {
	return captioned(title+": what is lost", cellTable(keys, row, cells, columns(`error_down_max%=error down | error_down_rms%=RMS |
		-error_up_max%=error up | -error_up_rms%=RMS | error_bound%=bound`)...))
}

func captioned(title string, t doc.Table) doc.Table {
	t.Caption = title
	return t
}

// payLine says of all codecs of a path where they pay.
func payLine(p Path) string {
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
func linkSection(groups [][]*metrics.Cell) doc.Section {
	round := column("±-round")
	t := doc.Table{Columns: []doc.Column{{Name: "link"}, {Name: "best", Wrap: true}, round.Column, {Name: "without a codec"}, {Name: "× best", Unit: "1"}}}
	for _, cells := range groups {
		v, _ := metrics.Decide(cells)
		best := either(v.Fastest(), variant)
		if v.Unclear() || v.Unproved {
			best = variant(v.Best()) + ", not proved"
		}
		row := []doc.Cell{doc.Words(v.Group.Link.String()), doc.Words(best), round.of(v.Best())}
		if i := slices.IndexFunc(v.Ranked, func(c *metrics.Cell) bool { return !c.Encoded() }); i > 0 {
			row = append(row, doc.Words(variant(v.Ranked[i])), doc.Number(v.Ranked[i].Of(v.By).Center/v.Best().Of(v.By).Center))
		}
		t.Add(row...)
	}
	return doc.Section{Title: groupTitle(onAnyLink(groups[0])), Tables: []doc.Table{t}}
}
