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
	pair                // a cell with a codec, without a rate if it was measured so, or else on any link; against none
	Pays  Pays          // empty if it is not known
	Saved float64       // bytes a round, both ways
	Added stat.Interval // seconds a round
	At    stat.Interval // bit/s; a bound, or all, is infinite where it may be that nothing is added
}

// pathsOf returns the cells of each transport in each work that was measured with codecs, on
// all links and without one: those over TCP, or all others. There, no link is in question, and
// nothing breaks even.
func pathsOf(r *metrics.Result, overTCP bool) [][]*metrics.Cell {
	cells := slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool { return c.OverTCP() != overTCP })
	all := alike(cells, (*metrics.Cell).Work, (*metrics.Cell).Uncoded)
	return slices.DeleteFunc(all, func(path []*metrics.Cell) bool { return !slices.ContainsFunc(path, (*metrics.Cell).Encoded) })
}

// workTitle says what the cells of a path do, on whatever link.
func workTitle(path []*metrics.Cell) string { return groupTitle(path[0].Work()) }

// on returns the cell of a codec on a link, or nil.
func on(path []*metrics.Cell, codec string, l link.Rate) *metrics.Cell {
	return find(path, func(c *metrics.Cell) bool { return c.Codec() == codec && c.Link == l })
}

// base returns the cell of a codec whose bytes cost least: on a link without a rate, or
// outside of any; nil if there is none.
func base(path []*metrics.Cell, codec string) *metrics.Cell {
	return cmp.Or(on(path, codec, link.Unshaped), on(path, codec, link.Rate{}))
}

// breakEvensOf returns those of all codecs of paths.
func breakEvensOf(paths ...[]*metrics.Cell) (all []*BreakEven) {
	for _, path := range paths {
		for _, cells := range metrics.GroupBy(path, (*metrics.Cell).Codec) {
			if c := cmp.Or(base(path, cells[0].Codec()), cells[0]); c.Encoded() {
				b := &BreakEven{pair: pair{c.Codec(), c, on(path, metrics.NoCodec, c.Link)}, Added: stat.None(), At: stat.None()}
				b.reckon()
				all = append(all, b)
			}
		}
	}
	return all
}

// reckon finds where the codec breaks even.
func (b *BreakEven) reckon() {
	if b.against == nil || b.cell.Link.Shaped() || !b.cell.Alone() || b.cell.Respawn {
		return
	}
	travels := func(c *metrics.Cell) float64 { return c.Of("wire_down").Center + c.Of("wire_up").Center } // bytes of tensors in a round
	b.Saved, b.Added = travels(b.against)-travels(b.cell), b.cell.More("round", b.against)
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

// breakEvens says below which rate of a network each codec pays.
func breakEvens(r *metrics.Result) doc.Section {
	s := doc.Section{Title: "Where a codec pays", Tail: doc.Say(noLink)}
	paths := pathsOf(r, true)
	all := breakEvensOf(paths...)
	for _, path := range slices.Concat(metrics.GroupBy(paths, workTitle)...) {
		s.Tables = append(s.Tables, pathTables(path)...)
	}
	for _, same := range metrics.GroupBy(slices.Concat(pathsOf(r, false)...), (*metrics.Cell).Group) {
		s.Tables = append(s.Tables, codecTables(groupTitle(same[0].Group())+", not over TCP", "transport", variant, same)...)
	}
	if len(s.Tables) == 0 {
		return doc.Section{}
	}
	if len(all) > 0 {
		s.Tail = breakEvenNotes(all)
	}
	s.Tables = append(s.Tables, breakEvenTable(all))
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
		row := append(axisCells(axes(), b.cell), doc.Words(string(b.Pays)), doc.Estimate(b.At))
		if b.against != nil {
			row = append(row, doc.Number(b.Saved), doc.Estimate(b.Added))
		}
		t.Add(row...)
	}
	return t
}

// noLink is said of a result in which codecs are measured, but not over TCP.
const noLink = "Nothing went over TCP, so there is no rate below which a codec pays: add --link unshaped --workers 1 --clients 1."

// breakEvenNotes say what the tables rest on.
func breakEvenNotes(all []*BreakEven) []doc.Paragraph {
	texts := []string{"A codec pays below bits saved a round ÷ seconds added to a round, both against no codec over the same transport, with one client on one worker over TCP without a rate."}
	for _, of := range []struct {
		holds func(b *BreakEven) bool
		text  string
	}{
		{func(b *BreakEven) bool { return b.Pays != "" && b.cell.Link == link.Rate{} },
			"Without a rate was measured outside of a link, where packets have another size than on one: run with --link unshaped."},
		{func(b *BreakEven) bool { return b.cell.Respawn }, "Workers that are started for every round have nothing to go from: all models were full versions."},
		{func(b *BreakEven) bool { return b.against == nil }, "Of a codec that was measured without none beside it, nothing is said: name none in --codec too."},
		{func(b *BreakEven) bool { return !b.cell.Alone() }, "Of several workers or clients, nothing is said: their rounds overlap on a link."},
	} {
		if slices.ContainsFunc(all, of.holds) {
			texts = append(texts, of.text)
		}
	}
	return doc.Say(texts...)
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

// pathTables say of the codecs of a path what they do, after what happens without one.
func pathTables(path []*metrics.Cell) []doc.Table {
	var cells []*metrics.Cell
	var notes []string
	if c := base(path, metrics.NoCodec); c != nil {
		cells = append(cells, c)
	}
	pays := map[*metrics.Cell]doc.Cell{}
	for _, b := range breakEvensOf(path) {
		cells, pays[b.cell] = append(cells, b.cell), payCell(b)
		if command := halfAndTwice(b); command != "" {
			notes = append(notes, b.name+" at half and at twice its break-even: "+command)
		}
	}
	below := field{doc.Column{Name: "pays below", Unit: "bit/s", Help: "the rate of a link at which a round takes as long with the codec as without"},
		func(c *metrics.Cell) doc.Cell { return pays[c] }}
	all := codecTables(plainVariant(path[0])+", "+workTitle(path), "codec", (*metrics.Cell).Codec, cells, below)
	all[0].Notes = notes
	return all
}

// codecTables say of cells, with a name of their own in rows, what their codecs save and take, and more; what travels, and how
// much of the data changed; and what is lost.
func codecTables(title, key string, of func(c *metrics.Cell) string, cells []*metrics.Cell, more ...field) (all []doc.Table) {
	keys := func(c *metrics.Cell) []doc.Cell { return []doc.Cell{doc.Words(of(c))} }
	price := columns("ratio_down%=down | ratio_up%=up | -phase.compress=compress | -phase.expand=expand | -round")
	price[0].Help, price[1].Help = "what travels of a model, as a share of it; without full versions", "the same of updates"
	for _, part := range []struct {
		caption string
		fields  []field
	}{
		{"", append(price, more...)},
		{": the data", columns(`wire_down | -wire_up | density_down% | -density_up% | !full_versions | !same_jobs | !plain_tensors | !unchanged_tensors`)},
		{": what is lost", columns(`error_down_max%=error down | error_down_rms%=RMS | -error_up_max%=error up | -error_up_rms%=RMS | error_bound%=bound`)},
	} {
		t := cellTable([]doc.Column{{Name: key}}, keys, cells, part.fields...)
		t.Caption = title + part.caption
		all = filled(all, t)
	}
	return all
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
		value := a.Of(b.cell)
		switch {
		case a.Name == "transport":
			value = strings.Replace(b.cell.Uncoded(), ":network=tcp", "", 1)
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

// payLines say of each path where its codecs pay, as far as that is known.
func payLines(paths [][]*metrics.Cell) (lines []string) {
	for _, path := range paths {
		var parts []string
		for _, b := range breakEvensOf(path) {
			switch {
			case b.Pays == Below && math.IsInf(b.At.High, 1):
				parts = append(parts, b.name+" pays at least below "+doc.Quantity("bit/s", b.At.Low))
			case b.Pays == Below:
				parts = append(parts, b.name+" pays below "+doc.Bounded("bit/s", b.At))
			case b.Pays == AnyLink:
				parts = append(parts, b.name+" pays on any link")
			case b.Pays == Never:
				parts = append(parts, b.name+" never pays")
			}
		}
		if parts != nil {
			lines = append(lines, "Over "+plainVariant(path[0])+" "+doc.List(parts)+".")
		}
	}
	return lines
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
		if plain := find(v.Ranked, func(c *metrics.Cell) bool { return !c.Encoded() }); plain != nil && plain != v.Best() {
			row = append(row, doc.Words(variant(plain)), doc.Number(plain.Of(v.By).Center/v.Best().Of(v.By).Center))
		}
		t.Add(row...)
	}
	return doc.Section{Title: workTitle(groups[0]), Tables: []doc.Table{t}}
}
