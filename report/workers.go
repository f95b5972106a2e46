package report

import (
	"fmt"

	"ipcbench/report/analysis"
)

// workerTable shows how the work scales, and what starting the workers costs. A
// session that is started for every round runs its cold round and no other, so that
// is what starting it is held against.
func workerTable(v *analysis.Result) section {
	t := table{
		header: []string{"transport", "model", "build", "workers", "clients", "clients/s", "starting them, ms", "cold round, ms", "cold rounds in that time"}, words: 2,
	}
	var shown, dominated []*analysis.Cell
	for _, c := range v.Cells {
		spawn := c.Of("spawn")
		if c.IsControl() || !spawn.Known() {
			continue
		}
		cold := c.ColdRound()
		ratio := none
		if cold.Known() && cold.Center > 0 {
			ratio = plain.number(spawn.Center / cold.Center)
		}
		t.add(c.Variant, c.Model.Label(), c.Build, fmt.Sprint(c.Workers), fmt.Sprint(c.Clients), plain.show(c.ClientRate()),
			milliseconds.show(spawn), milliseconds.show(cold), ratio)
		shown = append(shown, c)
		if c.StartDominates() {
			dominated = append(dominated, c)
		}
	}
	if len(shown) == 0 {
		return section{}
	}
	t.trim()
	return section{title: "Workers", lead: []string{dominance(shown, dominated)}, tables: []table{t}, tail: []string{
		"cold round: the first of a block, and the only one of a session that is started for every round; where every round started its own workers, what is left of it without that."}}
}

// dominance says where starting the workers takes longer than a cold round, whole
// models first.
func dominance(shown, dominated []*analysis.Cell) string {
	switch len(dominated) {
	case 0:
		return "In no cell is starting the workers shown to take longer than all else in a cold round."
	case len(shown):
		return "Starting the workers takes longer than all else in a cold round everywhere: a session that is started for every round spends most of its time so."
	}
	var where []string
	for _, mine := range analysis.GroupBy(dominated, func(c *analysis.Cell) string { return c.Model.Label() }) {
		model, all := mine[0].Model.Label(), 0
		for _, c := range shown {
			if c.Model.Label() == model {
				all++
			}
		}
		switch {
		case len(mine) == all:
			where = append(where, "all cells of "+model)
		case len(mine) > 4:
			where = append(where, fmt.Sprintf("%d cells of %s", len(mine), model))
		default:
			for _, c := range mine {
				where = append(where, c.Variant+" at "+groupLabel(c.Group()))
			}
		}
	}
	return "Starting the workers takes longer than all else in a cold round, and so dominates a session that is started for every round, for " + list(where) + "."
}
