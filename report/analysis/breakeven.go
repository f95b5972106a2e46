package analysis

import (
	"cmp"
	"math"
	"slices"

	"ipcbench/bench/stat"
	"ipcbench/internal/link"
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
	Coded *Cell         // without a rate, if it was measured so; else on any link
	Plain *Cell         // the same without a codec, or nil
	Pays  Pays          // empty if it is not known
	Saved float64       // bytes a round, both ways
	Added stat.Interval // seconds a round
	At    stat.Interval // bit/s; a bound, or all, is infinite where it may be that nothing is added
}

// OverTCP reports whether the cell's tensors go over TCP.
func (c *Cell) OverTCP() bool { return c.Link != link.Rate{} || c.Settings["network"] == "tcp" }

// A Path is a transport over TCP in one work: its cells on all links, by codec, those
// without a codec first.
type Path [][]*Cell

// Paths returns those of all transports that were measured over TCP with a codec.
func (r *Result) Paths() []Path {
	over := slices.DeleteFunc(slices.Clone(r.Cells), func(c *Cell) bool { return !c.OverTCP() || !c.Of("round").Known() })
	var all []Path
	for _, cells := range GroupBy(over, func(c *Cell) alike { return alike{c.work(), c.Uncoded(), c.Language} }) {
		plain := slices.DeleteFunc(slices.Clone(cells), (*Cell).Encoded)
		if coded := slices.DeleteFunc(cells, func(c *Cell) bool { return !c.Encoded() }); len(coded) > 0 {
			all = append(all, GroupBy(append(plain, coded...), (*Cell).Codec))
		}
	}
	return all
}

// Local returns the cells with a codec, and the same without one, of what does not go
// over TCP: no link is in question there, and nothing breaks even.
func (r *Result) Local() []*Cell {
	over := slices.DeleteFunc(slices.Clone(r.Cells), func(c *Cell) bool { return c.OverTCP() || !c.Of("round").Known() })
	var all []*Cell
	for _, cells := range GroupBy(over, func(c *Cell) alike { return alike{c.work(), c.Uncoded(), c.Language} }) {
		if slices.ContainsFunc(cells, (*Cell).Encoded) {
			all = append(all, cells...)
		}
	}
	return all
}

// on returns the cell on a link, or nil.
func on(cells []*Cell, l link.Rate) *Cell {
	if i := slices.IndexFunc(cells, func(c *Cell) bool { return c.Link == l }); i >= 0 {
		return cells[i]
	}
	return nil
}

// Base returns the cell whose bytes cost least: on a link without a rate, or outside
// of any; nil if there is none.
func Base(cells []*Cell) *Cell { return cmp.Or(on(cells, link.Unshaped), on(cells, link.Rate{})) }

// BreakEvens returns those of all codecs of all paths.
func (r *Result) BreakEvens() []*BreakEven {
	var all []*BreakEven
	for _, p := range r.Paths() {
		all = append(all, p.BreakEvens()...)
	}
	return all
}

// BreakEvens returns those of all codecs of the path.
func (p Path) BreakEvens() []*BreakEven {
	var all []*BreakEven
	var plain []*Cell
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
	if b.Plain == nil || b.Coded.shaped() || !b.Coded.Alone() || b.Coded.Respawn {
		return
	}
	b.Saved, b.Added = b.Plain.travels()-b.Coded.travels(), b.Coded.More("round", b.Plain)
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
func (c *Cell) travels() float64 {
	return c.Of("wire_down").Center + c.Of("wire_up").Center
}
