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
var replacements = []struct {
	project, from, to string
	tcp               bool // only over TCP, which the project uses; each kind of TLS is a pair
}{
	{"BlazeFL until July 2025", "py-torch-queue", "shm-slab", false},
	{"OpenFL 1.8, Flower until 1.19", "py-grpc", "grpc-stream", false},
	{"AReaL of 2025", "py-http-json", "http", false},
	{"AReaL of 2025", "py-http-json", "http-shm", false},
	{"BlazeFL 3", "py-blazefl", "shm-slab", false},
	{"Flower 1.43", "py-flower", "http", true},
	{"Flower 1.43", "py-flower", "grpc-stream", true},
	{"OpenFL 1.6", "py-openfl", "http", true},
	{"OpenFL 1.6", "py-openfl", "grpc-stream", true},
	{"AReaL 2", "py-areal", "http", true},
	{"AReaL 2, workers on the same machine", "py-areal", "http-shm", false},
}

// gainsOf returns the replacements that were measured, in all groups. The name of a pair is
// the project, and against is the replacement. Unproved reference rows are left out.
func gainsOf(r *metrics.Result) []pair {
	var all []pair
	groups := r.Groups()
	for _, s := range replacements {
		for _, cells := range groups {
			from := find(cells, func(c *metrics.Cell) bool { return c.Peer != "" && c.Variant == s.from && c.Ranked() })
			if from == nil {
				continue
			}
			for _, to := range cells {
				if p := (pair{s.project, from, to}); tunnelled(to, to.Variant) == s.to && to.Language == result.InPython && (to.OverTCP() || !s.tcp) && p.ratio("round").Known() {
					all = append(all, p)
				}
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
		"CPU time counts all processes; memory is their sum.")}
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
		times, text, with, took := p.ratio("round"), "it", p.against.Variant, doc.Quantity("s", p.against.Of("round").Center)
		cpu := func(c *metrics.Cell) string { return doc.Quantity("s", c.Of("cpu_per_round").Center) }
		if i == 0 {
			text, with = "a round", with+" as with "+p.cell.Variant
			took += " instead of " + doc.Quantity("s", p.cell.Of("round").Center)
		}
		took += ", and " + cpu(p.against) + unless(i > 0, " instead of "+cpu(p.cell)) + " of CPU time"
		fast := doc.Bounded("1", times) + " times as fast with " + with
		parts = append(parts, text+judged(times, " seems to be "+fast+cannotShow(times),
			" is not shown to be faster or slower, "+fast, " is "+fast)+": "+took)
	}
	return all[0].name + ": " + strings.Join(parts, "; ") + "."
}

func gainTable(all []pair, title string) doc.Table {
	of, now, then := groupAxes(), columns("round=round now|cpu_per_round=CPU now|peak_rss=memory now"), columns("-round=round then|-cpu_per_round=CPU then|-peak_rss=memory then")
	t := doc.Table{Key: "gain", Help: "the transport of a project, and another one that could replace it", Caption: title, Keys: 2 + len(of) + 1, Columns: slices.Concat([]doc.Column{
		{Name: "now"}, {Name: "instead", Help: "the other transport, with workers in Python"}}, axisColumns(of), []doc.Column{{Name: "project", For: doc.Programs}, now[0].Column, then[0].Column,
		{Name: "× as fast", Key: "round_ratio", Unit: "1", Help: "the round now ÷ the round then"},
		now[1].Column, then[1].Column, now[2].Column, then[2].Column,
		{Name: "transfer, × as fast", Key: "transfer_ratio", Unit: "1", Help: "the same for a client's transfer, which only explains: it leaves out publishing and page faults"},
	})}
	for _, p := range all {
		t.Add(slices.Concat([]doc.Cell{doc.Words(variant(p.cell)), doc.Words(p.against.Variant)}, axisCells(of, p.against), []doc.Cell{doc.Words(p.name),
			now[0].of(p.cell), then[0].of(p.against), doc.Estimate(p.ratio("round")),
			now[1].of(p.cell), then[1].of(p.against), now[2].of(p.cell), then[2].of(p.against), doc.Estimate(p.ratio("transfer"))})...)
	}
	return t
}
