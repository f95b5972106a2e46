package report

import (
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// replacements pairs transports that projects use, as reference rows have them, with
// transports of ipcbench that could replace them. Workers stay in Python. The first four are in
// results of earlier versions.
var replacements = []struct{ project, from, to string }{
	{"BlazeFL", "py-torch-queue", "shm-slab"},
	{"OpenFL, Flower", "py-grpc", "grpc-stream"},
	{"AReaL", "py-http-json", "http"},
	{"AReaL", "py-http-json", "http-shm"},
	{"BlazeFL 3", "py-blazefl", "shm-slab"},
	{"Flower 1.43", "py-flower", "http"},
	{"Flower 1.43", "py-flower", "grpc-stream"},
	{"OpenFL 1.6", "py-openfl", "http"},
	{"OpenFL 1.6", "py-openfl", "grpc-stream"},
	{"AReaL 2", "py-areal", "http"},
}

// gainsOf returns the replacements that were measured, in all groups. The name of a pair is
// the project, and against is the replacement. Unproved reference rows are left out.
func gainsOf(r *metrics.Result) []pair {
	var all []pair
	groups := r.Groups()
	for _, s := range replacements {
		for _, cells := range groups {
			from := find(cells, func(c *metrics.Cell) bool { return c.Peer != "" && c.Variant == s.from && c.Ranked() })
			to := find(cells, func(c *metrics.Cell) bool { return c.Language == result.InPython && c.Variant == s.to })
			if p := (pair{s.project, from, to}); from != nil && p.ratio("transfer").Known() {
				all = append(all, p)
			}
		}
	}
	return all
}

// gains is the view gain: a sentence for each project about the largest model, and a table for
// each group.
func gains(r *metrics.Result) doc.Section {
	all := gainsOf(r)
	if len(all) == 0 {
		return doc.Section{}
	}
	s := doc.Section{Title: "What projects would gain from another transport", Tail: doc.Say(
		"All workers are in Python. The servers of rows py-* are in Python, too; those of the other rows are in Go.",
		"A transfer excludes the training, so only the round trip includes page faults of a training in fresh memory. Neither includes the publishing of the model.")}
	groups, largest := byGroup(all)
	for _, of := range metrics.GroupBy(largest, func(p pair) string { return p.name }) {
		s.Lead = append(s.Lead, strong(gainSentence(of))...)
	}
	for _, of := range groups {
		s.Tables = append(s.Tables, gainTable(of, groupTitle(of[0].cell.Group())))
	}
	return s
}

// gainSentence compares the transport of one project with its replacements in one group.
func gainSentence(all []pair) string {
	var parts []string
	for i, p := range all {
		times, text, with, took := p.ratio("transfer"), "it", p.against.Variant, doc.Quantity("s", p.against.Of("transfer").Center)
		if i == 0 {
			text, with = "a client's transfer", with+" as with "+p.cell.Variant
			took += " instead of " + doc.Quantity("s", p.cell.Of("transfer").Center)
		}
		fast := doc.Bounded("1", times) + " times as fast with " + with
		parts = append(parts, text+judged(times, " seems to be "+fast+cannotShow(times),
			" is not shown to be faster or slower, "+fast, " is "+fast)+": "+took)
	}
	return all[0].name + ": " + strings.Join(parts, "; ") + "."
}

func gainTable(all []pair, title string) doc.Table {
	of, now, then := groupAxes(), column("transfer=transfer now"), column("-transfer=transfer then")
	t := doc.Table{Key: "gain", Help: "the transport of a project, and another one that could replace it", Caption: title, Keys: 2 + len(of) + 1, Columns: slices.Concat([]doc.Column{
		{Name: "now"}, {Name: "instead", Help: "the other transport, with workers in Python"}}, axisColumns(of), []doc.Column{{Name: "project", For: doc.Programs}, now.Column, then.Column,
		{Name: "× as fast", Key: "transfer_ratio", Unit: "1", Help: "the transfer now ÷ the transfer then"},
		{Name: "round trip, × as fast", Key: "rtt_ratio", Unit: "1", Help: "the same for a client's round trip, which includes its training"},
	})}
	for _, p := range all {
		t.Add(slices.Concat([]doc.Cell{doc.Words(variant(p.cell)), doc.Words(p.against.Variant)}, axisCells(of, p.against), []doc.Cell{doc.Words(p.name),
			now.of(p.cell), then.of(p.against), doc.Estimate(p.ratio("transfer")), doc.Estimate(p.ratio("rtt"))})...)
	}
	return t
}
