package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// Rate returns the rate of a link in bit/s. ok is false if the link has no rate, or has a
// delay as well.
func Rate(l link.Rate) (bits float64, ok bool) {
	return float64(l.Bits()), l.Bits() > 0 && l.Delay() == 0
}

// Pays is the kind of links on which a codec saves time. It is empty if that is unknown.
type Pays string

// The values of Pays.
const (
	Below   Pays = "below"    // on links below the break-even
	AnyLink Pays = "any link" // a round takes no longer even if bytes cost nothing
	Never   Pays = "never"    // no bytes are saved, or only on links below leastRate do they save time
)

// leastRate is the rate of the slowest link that training is expected to use, in bit/s.
const leastRate = 1e6

// A BreakEven compares a codec with none, over the same transport and with the same work. It
// is the link rate at which sending the saved bytes would take as long as the codec:
//
//	bits saved per round ÷ seconds added per round
//
// Both are measured where bytes cost least: with one client on one worker, over TCP without a
// rate. There, downlink, codecs, training and uplink follow each other without overlap, so
// bytes of both directions add up.
type BreakEven struct {
	pair                // a cell with a codec, without a rate if possible, against the cell without a codec
	Pays  Pays          // empty if unknown
	Saved float64       // bytes per round, both directions
	Added stat.Interval // seconds per round
	At    stat.Interval // bit/s; infinite if the codec may add no time
}

// PathsOf returns the cells of each transport and work that was measured with codecs, on all
// links and on none. It returns cells over TCP, or all others. The others are on no link and
// have no break-even.
func PathsOf(r *metrics.Result, overTCP bool) [][]*metrics.Cell {
	cells := Only(r.Cells, func(c *metrics.Cell) bool { return c.OverTCP() == overTCP && !c.Link.Impaired() })
	all := alike(cells, (*metrics.Cell).Work, (*metrics.Cell).Uncoded)
	return Only(all, func(path []*metrics.Cell) bool { return slices.ContainsFunc(path, (*metrics.Cell).Encoded) })
}

// carrier names the transport of a path, and the language of its workers.
func carrier(path []*metrics.Cell) string {
	return metrics.InLanguage(plainVariant(path[0]), path[0].Language)
}

// workTitle names the work of a path, without its link.
func workTitle(path []*metrics.Cell) string { return GroupTitle(path[0].Work()) }

// on returns the cell of a codec on a link, or nil.
func on(path []*metrics.Cell, codec string, l link.Rate) *metrics.Cell {
	return Find(path, func(c *metrics.Cell) bool { return c.Codec() == codec && c.Link == l })
}

// cheapest returns the cell of a codec whose bytes cost least: on a link without a rate, or else
// on no link. It is nil if there is neither.
func cheapest(path []*metrics.Cell, codec string) *metrics.Cell {
	return cmp.Or(on(path, codec, link.Unshaped), on(path, codec, link.Rate{}))
}

// BreakEvensOf returns the break-evens of all codecs of paths, including unknown ones.
func BreakEvensOf(paths ...[]*metrics.Cell) (all []*BreakEven) {
	for _, path := range paths {
		for _, cells := range metrics.GroupBy(path, (*metrics.Cell).Codec) {
			if c := cmp.Or(cheapest(path, cells[0].Codec()), cells[0]); c.Encoded() {
				b := &BreakEven{pair: pair{c.Codec(), c, on(path, metrics.NoCodec, c.Link)}, Added: stat.None(), At: stat.None()}
				b.compute()
				all = append(all, b)
			}
		}
	}
	return all
}

// compute finds the break-even. It stays unknown if no cell without a codec was measured, or
// on a link with a rate. It also needs one worker and one client, and workers that stay.
func (b *BreakEven) compute() {
	if b.Against == nil || b.Cell.Link.Shaped() || !b.Cell.Alone() || b.Cell.Respawn {
		return
	}
	travels := func(c *metrics.Cell) float64 { return c.Of("wire_down").Center + c.Of("wire_up").Center } // wire bytes per round
	x := b.of("round")
	b.Saved, b.Added = travels(b.Against)-travels(b.Cell), x.More
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
	case x.Forbids != nil: // such as too few blocks
	case b.Added.High <= 0:
		b.Pays = AnyLink
	case b.At.High < leastRate:
		b.Pays = Never
	default:
		b.Pays = Below
	}
}

// unsure reports whether there are too few blocks to say where the codec pays.
func (b *BreakEven) unsure() bool { return b.Pays == "" && b.At.Known() }

// BreakEvens is the view break-even: the link rate below which each codec pays, and tables of
// codecs.
func BreakEvens(r *metrics.Result) doc.Section {
	paths := PathsOf(r, true)
	s := doc.Section{Title: "Where a codec pays", Tail: doc.Say(NoLink), Lead: doc.Strong.Say(impairedLines(r)...)}
	if s.Lead != nil { // it was measured over TCP
		s.Tail = nil
	}
	all := BreakEvensOf(paths...)
	for _, path := range slices.Concat(metrics.GroupBy(paths, workTitle)...) {
		s.Tables = append(s.Tables, pathTables(path)...)
	}
	for _, same := range metrics.GroupBy(slices.Concat(PathsOf(r, false)...), (*metrics.Cell).Group) {
		s.Tables = append(s.Tables, codecTables(GroupTitle(same[0].Group())+", not over TCP", "transport", Variant, same)...)
	}
	switch {
	case len(all) > 0:
		s.Tail = breakEvenNotes(all)
	case len(s.Tables) == 0:
		s.Tail = nil
	}
	s.Tables = append(s.Tables, breakEvenTable(all))
	return s
}

// breakEvenTable has a row for each codec over each transport, for programs. Its columns saved
// and added are per round.
func breakEvenTable(all []*BreakEven) doc.Table {
	t := Keyed("break_even", "a codec with a transport, and the link rates at which it saves time", Axes(),
		[]doc.Column{{Name: "pays", Help: "where the codec saves time: below the rate in at, on any link, or never; absent if unknown"},
			{Name: "at", Unit: "bit/s", Help: "the link rate at which a round takes as long with the codec as without; a value that is null may be infinite"},
			{Name: "saved", Unit: "B", Help: "bytes that the codec saves per round"},
			{Name: "added", Unit: "s", Help: "time that the codec adds to a round"}})
	for _, b := range all {
		row := doc.Cells(AxisCells(Axes(), b.Cell), string(b.Pays), b.At)
		if b.Against != nil {
			row = doc.Cells(row, b.Saved, b.Added)
		}
		t.Add(row)
	}
	return t
}

// NoLink is the hint for a result in which codecs were measured, but not over TCP.
const NoLink = "Break-evens need TCP, and nothing was measured over it: add --link unshaped --workers 1 --clients 1."

// breakEvenNotes explains how break-evens are computed, and why some are missing.
func breakEvenNotes(all []*BreakEven) []doc.Paragraph {
	texts := []string{"A codec pays on links below this rate: bits saved per round ÷ seconds added per round. Both are relative to no codec over the same transport, with one client on one worker, over TCP without a rate limit."}
	for _, of := range []struct {
		holds func(b *BreakEven) bool
		text  string
	}{
		{func(b *BreakEven) bool { return b.unsure() }, fmt.Sprintf("Too few blocks: with fewer than %d, it is not known where a codec pays.", stat.Blocks)},
		{func(b *BreakEven) bool { return b.Pays != "" && b.Cell.Link == link.Rate{} },
			"The rounds without a rate limit were measured outside of a link, where packets have another size: add --link unshaped."},
		{func(b *BreakEven) bool { return b.Cell.Respawn }, "Workers that are started for every round have no base, so all models were full versions."},
		{func(b *BreakEven) bool { return b.Against == nil }, "A codec has a break-even only if codec none was measured with it: add none to --codec."},
		{func(b *BreakEven) bool { return !b.Cell.Alone() }, "A break-even needs one worker and one client, because transfers of several overlap on a link."},
	} {
		if slices.ContainsFunc(all, of.holds) {
			texts = append(texts, of.text)
		}
	}
	return doc.Say(texts...)
}

// payCell returns where a codec pays, for a column of link rates.
func payCell(b *BreakEven) any {
	switch {
	case b.unsure():
		return "too few blocks"
	case b.Pays != Below:
		return string(b.Pays)
	case math.IsInf(b.At.High, 1):
		return "at least " + doc.Quantity("bit/s", b.At.Low)
	}
	return b.At
}

// pathTables returns the tables of the codecs of a path. The first row is the cell without a
// codec.
func pathTables(path []*metrics.Cell) []doc.Table {
	var cells []*metrics.Cell
	var notes []string
	if c := cheapest(path, metrics.NoCodec); c != nil {
		cells = append(cells, c)
	}
	pays := map[*metrics.Cell]any{}
	for _, b := range BreakEvensOf(path) {
		cells, pays[b.Cell] = append(cells, b.Cell), payCell(b)
		if command := halfAndTwice(b); command != "" {
			notes = append(notes, "To measure "+b.Name+" at half and at twice its break-even: "+command)
		}
	}
	below := field{doc.Column{Name: "pays below", Unit: "bit/s", Help: "the link rate at which a round takes as long with the codec as without"},
		func(c *metrics.Cell) any { return pays[c] }}
	all := codecTables(carrier(path)+", "+workTitle(path), "codec", (*metrics.Cell).Codec, cells, below)
	all[0].Notes = notes
	return all
}

// codecTables returns up to three tables with a row for each cell, with its name. They show
// ratios and times, with the fields more; wire bytes and density; and losses.
func codecTables(title, key string, name func(c *metrics.Cell) string, cells []*metrics.Cell,
	more ...field) (all []doc.Table) {
	price := columns("ratio_down%=down | ratio_up%=up | -phase.compress=compress | -phase.expand=expand | -round")
	price[0].Help, price[1].Help = "wire bytes ÷ payload of models, without full versions", "wire bytes ÷ payload of updates"
	for _, part := range []struct {
		caption string
		fields  []field
	}{
		{"", append(price, more...)},
		{": the data", columns(`wire_down | -wire_up | density_down% | -density_up% | !full_versions | !same_jobs | !plain_tensors | !unchanged_tensors`)},
		{": losses", columns(`error_down_max%=error down | error_down_rms%=RMS | -error_up_max%=error up | -error_up_rms%=RMS | error_bound%=bound`)},
	} {
		t := cellTable([]field{words(key, name)}, cells, part.fields...)
		t.Caption = title + part.caption
		all = append(all, t)
	}
	return all
}

// A break-even can be checked between these rates, in bit/s. Slower links take too long to
// measure; on faster links, computing and sending overlap.
const checkedFrom, checkedTo = 50e6, 2.5e9

// halfAndTwice returns the command that measures a codec, and none, at half and at twice its
// break-even. It should be faster at half of it and slower at twice. The command is empty if
// the break-even is out of range.
func halfAndTwice(b *BreakEven) string {
	rate := b.At.Center / 1e6
	if b.Pays != Below || !(b.At.Center >= checkedFrom && b.At.Center <= checkedTo) {
		return ""
	}
	command := "ipcbench run --quick"
	for _, a := range metrics.Axes() {
		value := a.Of(b.Cell)
		switch {
		case a.Name == "transport":
			value = b.Cell.Without("network", "codec")
		case a.Name == "codec":
			value = metrics.NoCodec + "," + value
		case a.Name == "link":
			value = fmt.Sprintf("%s,%.0fMbit,%.0fMbit", link.Unshaped.String(), rate/2, 2*rate)
		case value == a.Usual || a.Name == "program":
			continue
		case value == "on": // --nested is a boolean flag
			value = "true"
		}
		command += " --" + a.Name + "=" + Quoted(value)
	}
	return command
}

// PayLines returns a sentence for each path: where its codecs pay, if that is known.
func PayLines(paths [][]*metrics.Cell) (lines []string) {
	for _, path := range paths {
		var parts []string
		for _, b := range BreakEvensOf(path) {
			switch {
			case b.unsure():
				parts = append(parts, b.Name+" has too few blocks to say where it pays")
			case b.Pays == Below && math.IsInf(b.At.High, 1):
				parts = append(parts, b.Name+" pays below at least "+doc.Quantity("bit/s", b.At.Low))
			case b.Pays == Below:
				parts = append(parts, b.Name+" pays below "+doc.Bounded("bit/s", b.At))
			case b.Pays == AnyLink:
				parts = append(parts, b.Name+" pays on any link")
			case b.Pays == Never:
				parts = append(parts, b.Name+" never pays")
			}
		}
		if parts != nil {
			lines = append(lines, "Over "+carrier(path)+", "+doc.List(parts)+".")
		}
	}
	return lines
}

// impairedLines returns a sentence for each transport on each link with a delay or loss: whether
// its codecs are faster there than none. Such links have no break-even, because a delay does not
// depend on the rate.
func impairedLines(r *metrics.Result) (lines []string) {
	cells := Only(r.Cells, func(c *metrics.Cell) bool { return c.Link.Impaired() })
	for _, same := range alike(cells, (*metrics.Cell).Group, (*metrics.Cell).Uncoded) {
		plain := on(same, metrics.NoCodec, same[0].Link)
		coded := Only(same, (*metrics.Cell).Encoded)
		if plain == nil || len(coded) == 0 {
			continue
		}
		pairs := doc.Each(coded, func(c *metrics.Cell) pair { return pair{c.Codec(), c, plain} })
		var parts []string
		for i, j := range judged("of these codecs", pairs) {
			parts = append(parts, "with "+pairs[i].Name+" it "+j.Says())
		}
		lines = append(lines, GroupTitle(plain.Group())+", over "+carrier(same)+", a round relative to no codec: "+doc.List(parts)+".")
	}
	return lines
}

// LinkSection returns a table of work that was measured on several links, which replaces a
// table per link on a screen. Each row has the best cell on one link, with and without a
// codec.
func LinkSection(groups [][]*metrics.Cell) doc.Section {
	round := Column("±-round")
	t := doc.Table{Columns: []doc.Column{{Name: "link"}, {Name: "best", Wrap: true}, round.Column, {Name: "without a codec"}, {Name: "× best", Unit: "1"}}}
	for _, cells := range groups {
		v, _ := contrast.Decide(cells)
		best := FewNames(v.Fastest(), Variant)
		if v.Unclear() || v.Unshown {
			best = Variant(v.Best()) + ", too few blocks"
		}
		row := doc.Cells(v.Group.Link.String(), best, round.of(v.Best()))
		if plain := Find(v.Ranked, func(c *metrics.Cell) bool { return !c.Encoded() }); plain != nil && plain != v.Best() {
			row = doc.Cells(row, Variant(plain), plain.Of(v.By).Center/v.Best().Of(v.By).Center)
		}
		t.Add(row)
	}
	return doc.Section{Title: workTitle(groups[0]), Tables: []doc.Table{t}}
}
