package report

import (
	"ipcbench/phase"
	"ipcbench/report/analysis"
)

// phaseTables hold the parts of a client's round trip side by side, with the
// speed-up against what a process pool does by default.
func phaseTables(v *analysis.Result) section {
	s := section{title: "Where a client's round trip goes"}
	compared := false
	for _, cells := range v.Groups() {
		base := analysis.Find(cells, analysis.Baseline)
		var ways []float64
		for _, c := range cells {
			ways = append(ways, c.Of("down").Center, c.Of("uplink").Center)
		}
		u := timeScale(ways...)
		in := ", " + u.name
		t := table{
			caption: groupTitle(cells[0].Group()),
			header:  []string{"transport", "down" + in, "train" + in, "uplink" + in, "copy and decode" + in, "round" + in, "speed-up of transfer", "speed-up of the round"}, words: 1,
		}
		for _, c := range cells {
			transfer, round := none, none
			if base != nil && base != c {
				transfer = times(base.Ratio("transfer", c))
				round = times(base.Ratio("round", c))
				compared = true
			}
			t.add(c.Variant, u.show(c.Of("down")), u.show(c.Of("train")), u.show(c.Of("uplink")), u.show(c.Of("copy_decode")), u.show(c.Of("round")), transfer, round)
		}
		t.trim()
		s.tables = append(s.tables, t)
	}
	s.tail = []string{"uplink: up without the training in between. copy and decode: copying tensors, those that go out too, and making them of what has arrived (the phases copy and decode), in all processes, over the clients; " + none + " where neither is done."}
	if compared {
		s.tail[0] += " The speed-up is that against " + analysis.Baseline + "."
	}
	return s
}

// spanTables hold all phases that were recorded.
func spanTables(v *analysis.Result) section {
	s := section{
		title: "All phases of a round",
		tail: []string{"Sums over all spans of a phase, of all processes: with several workers they add up to more than the round. " +
			"The phases of a transport, from encode on, lie inside those of the calls that made them."},
	}
	for _, cells := range v.Groups() {
		shortest := []float64{}
		for _, c := range cells {
			shortest = append(shortest, c.Of("round").Center/100)
		}
		u := timeScale(shortest...)
		t := table{caption: groupTitle(cells[0].Group()) + ", in " + u.name, header: []string{"transport"}, words: 1}
		for _, p := range phase.Phases() {
			t.header = append(t.header, p.String())
		}
		t.header = append(t.header, "unattributed")
		for _, c := range cells {
			row := []string{c.Variant}
			for _, name := range t.header[1 : len(t.header)-1] {
				row = append(row, u.value(c.Of("phase."+name)))
			}
			t.add(append(row, u.value(c.Of("unattributed")))...)
		}
		t.trim()
		s.tables = append(s.tables, t)
	}
	return s
}
