package report

import (
	"cmp"
	"fmt"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// swaps are transports that projects use, as reference rows have them, and those of ours
// that could take their places, the workers still being in Python.
var swaps = []struct {
	project, from string
	to            []string
}{
	{"BlazeFL", "py-torch-queue", []string{"shm-slab"}},
	{"OpenFL, Flower", "py-grpc", []string{"grpc-stream"}},
	{"AReaL", "py-http-json", []string{"http", "http-shm"}},
}

// A Gain is what a project would gain by another transport.
type Gain struct {
	Project  string
	From, To *metrics.Cell // of one group; both are proved
}

// Times returns how many times as long a metric is as it would be.
func (g Gain) Times(metric string) stat.Interval { return g.From.Ratio(metric, g.To) }

// gainsOf returns those of all projects in all groups.
func gainsOf(r *metrics.Result) []Gain {
	var all []Gain
	groups := r.Groups()
	for _, s := range swaps {
		for _, cells := range groups {
			from := slices.IndexFunc(cells, func(c *metrics.Cell) bool { return c.Peer != "" && c.Variant == s.from && c.Unproved == "" })
			if from < 0 {
				continue
			}
			for _, name := range s.to {
				for _, c := range cells {
					if g := (Gain{s.project, cells[from], c}); c.Language == result.InPython && c.Variant == name && g.Times("transfer").Known() {
						all = append(all, g)
					}
				}
			}
		}
	}
	return all
}

// gains says what projects would gain by another transport: a sentence for each of the
// largest model, and a table for all.
func gains(r *metrics.Result) doc.Section {
	all := gainsOf(r)
	if len(all) == 0 {
		return doc.Section{}
	}
	s := doc.Section{Title: "What they would gain", Tail: doc.Say(
		"The workers are in Python on both sides. In a row py-*, the server is too; in ours, it is in Go.",
		"A transfer has no training in it: what fresh memory adds to that, by page faults, is in the round trip alone. What a server does to publish a model is in neither.")}
	groups := metrics.GroupBy(all, func(g Gain) metrics.Group { return g.From.Group() })
	largest := slices.MaxFunc(groups, func(a, b []Gain) int {
		return cmp.Compare(a[0].From.Model.Payload(), b[0].From.Model.Payload())
	})
	for _, of := range metrics.GroupBy(largest, func(g Gain) string { return g.Project }) {
		s.Lead = append(s.Lead, doc.Paragraph{Text: gainSentence(of), Tone: doc.Strong})
	}
	for _, of := range groups {
		s.Tables = append(s.Tables, gainTable(of))
	}
	return s
}

// gainSentence says what one project would gain in one group by each of some transports.
func gainSentence(all []Gain) string {
	text := all[0].Project + ": "
	took := func(c *metrics.Cell) string { return doc.Quantity("s", c.Of("transfer").Center) }
	for i, g := range all {
		times := g.Times("transfer")
		if i == 0 {
			text += g.To.Variant + " in the place of " + g.From.Variant
		} else {
			text += "; " + g.To.Variant
		}
		fast := doc.Bounded("1", times) + " times as fast"
		switch {
		case !times.Sure():
			text += fmt.Sprintf(" seems to be %s, but %s cannot prove it (run with --blocks %d)", fast, doc.Plural(times.Blocks, "block"), stat.Blocks)
		case !times.Excludes(1):
			text += " is not shown to be faster or slower, " + fast
		default:
			text += " is " + fast
		}
		if i == 0 {
			text += ": a client's transfer takes " + took(g.To) + " rather than " + took(g.From)
		} else {
			text += ": " + took(g.To)
		}
	}
	return text + "."
}

// gainTable has a row for each gain of a group.
func gainTable(all []Gain) doc.Table {
	of, transfer := groupAxes(), column("transfer")
	t := doc.Table{Key: "gain", Help: "what a project would gain by another transport", Caption: groupTitle(all[0].From.Group()), Keys: 2 + len(of) + 1, Columns: slices.Concat([]doc.Column{
		{Name: "now"}, {Name: "instead", Help: "with workers in Python"}}, axisColumns(of), []doc.Column{{Name: "project", For: doc.Programs},
		{Name: "transfer now", Unit: "s", Help: transfer.Help, Middle: true}, {Name: "transfer then", Unit: "s", Middle: true},
		{Name: "× as fast", Key: "transfer_ratio", Unit: "1", Help: "the transfer now ÷ the transfer then"},
		{Name: "round trip, × as fast", Key: "rtt_ratio", Unit: "1", Help: "the same of a client's round trip, training included"},
	})}
	for _, g := range all {
		t.Add(slices.Concat([]doc.Cell{doc.Words(variant(g.From)), doc.Words(g.To.Variant)}, axisCells(of, g.To), []doc.Cell{doc.Words(g.Project), transfer.of(g.From), transfer.of(g.To),
			doc.Estimate(g.Times("transfer")), doc.Estimate(g.Times("rtt"))})...)
	}
	return t
}
