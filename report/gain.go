package report

import (
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// swaps are transports that projects use, as reference rows have them, and those of ours
// that could take their places, the workers still being in Python.
var swaps = []struct{ project, from, to string }{
	{"BlazeFL", "py-torch-queue", "shm-slab"},
	{"OpenFL, Flower", "py-grpc", "grpc-stream"},
	{"AReaL", "py-http-json", "http"},
	{"AReaL", "py-http-json", "http-shm"},
}

// gainsOf returns what projects would gain in all groups: a pair has the name of the project,
// and holds its transport against ours. Both are proved.
func gainsOf(r *metrics.Result) []pair {
	var all []pair
	groups := r.Groups()
	for _, s := range swaps {
		for _, cells := range groups {
			from := find(cells, func(c *metrics.Cell) bool { return c.Peer != "" && c.Variant == s.from && c.Unproved == "" })
			to := find(cells, func(c *metrics.Cell) bool { return c.Language == result.InPython && c.Variant == s.to })
			if p := (pair{s.project, from, to}); from != nil && p.ratio("transfer").Known() {
				all = append(all, p)
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
	groups, largest := byGroup(all)
	for _, of := range metrics.GroupBy(largest, func(p pair) string { return p.name }) {
		s.Lead = append(s.Lead, strong(gainSentence(of))...)
	}
	for _, of := range groups {
		s.Tables = append(s.Tables, gainTable(of, groupTitle(of[0].cell.Group())))
	}
	return s
}

// gainSentence says what one project would gain in one group by each of some transports.
func gainSentence(all []pair) string {
	var parts []string
	for i, p := range all {
		times, text, took := p.ratio("transfer"), p.against.Variant, doc.Quantity("s", p.against.Of("transfer").Center)
		if i == 0 {
			text += " in the place of " + p.cell.Variant
			took = "a client's transfer takes " + took + " rather than " + doc.Quantity("s", p.cell.Of("transfer").Center)
		}
		fast := doc.Bounded("1", times) + " times as fast"
		parts = append(parts, text+judged(times, " seems to be "+fast+cannotProve(times),
			" is not shown to be faster or slower, "+fast, " is "+fast)+": "+took)
	}
	return all[0].name + ": " + strings.Join(parts, "; ") + "."
}

// gainTable has a row for each gain of a group.
func gainTable(all []pair, title string) doc.Table {
	of, now, then := groupAxes(), column("transfer=transfer now"), column("-transfer=transfer then")
	t := doc.Table{Key: "gain", Help: "what a project would gain by another transport", Caption: title, Keys: 2 + len(of) + 1, Columns: slices.Concat([]doc.Column{
		{Name: "now"}, {Name: "instead", Help: "with workers in Python"}}, axisColumns(of), []doc.Column{{Name: "project", For: doc.Programs}, now.Column, then.Column,
		{Name: "× as fast", Key: "transfer_ratio", Unit: "1", Help: "the transfer now ÷ the transfer then"},
		{Name: "round trip, × as fast", Key: "rtt_ratio", Unit: "1", Help: "the same of a client's round trip, training included"},
	})}
	for _, p := range all {
		t.Add(slices.Concat([]doc.Cell{doc.Words(variant(p.cell)), doc.Words(p.against.Variant)}, axisCells(of, p.against), []doc.Cell{doc.Words(p.name),
			now.of(p.cell), then.of(p.against), doc.Estimate(p.ratio("transfer")), doc.Estimate(p.ratio("rtt"))})...)
	}
	return t
}
