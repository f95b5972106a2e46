package report

import (
	"fmt"
	"slices"
)

// workerTable shows how the work scales, and what starting the workers costs.
func workerTable(v *view) section {
	t := table{
		header: []string{"transport", "model", "workers", "clients", "clients/s", "starting them, ms", "rounds in that time"}, words: 2,
	}
	var shown, dominated []*cell
	for _, c := range v.cells {
		round, spawn := c.of("round"), c.of("spawn")
		if c.Variant == control || !spawn.Known() {
			continue
		}
		clients := round.Map(func(s float64) float64 { return float64(c.Clients) / s })
		// A round that starts its own workers holds that time already.
		rest, longest := round.Center, round.High
		if c.Respawn {
			rest, longest = round.Center-spawn.Center, round.High-spawn.Low
		}
		t.add(c.Variant, c.Model.Name, fmt.Sprint(c.Workers), fmt.Sprint(c.Clients), plain.show(clients),
			milliseconds.show(spawn), plain.number(spawn.Center/rest))
		shown = append(shown, c)
		if spawn.Confidence > 0 && round.Confidence > 0 && spawn.Low > longest {
			dominated = append(dominated, c)
		}
	}
	if len(shown) == 0 {
		return section{}
	}
	return section{title: "Workers", lead: []string{dominance(shown, dominated)}, tables: []table{t}}
}

// dominance says where starting the workers takes longer than a round, whole
// models first.
func dominance(shown, dominated []*cell) string {
	switch len(dominated) {
	case 0:
		return "Nowhere is it told that starting the workers takes longer than all else in a round."
	case len(shown):
		return "Starting the workers takes longer than all else in a round everywhere: a pool that is started for every round spends most of its time so."
	}
	of := func(cells []*cell, model string) []*cell {
		return slices.DeleteFunc(slices.Clone(cells), func(c *cell) bool { return c.Model.Name != model })
	}
	var where []string
	var models []string
	for _, c := range dominated {
		model := c.Model.Name
		if slices.Contains(models, model) {
			continue
		}
		models = append(models, model)
		mine := of(dominated, model)
		switch {
		case len(mine) == len(of(shown, model)):
			where = append(where, "all cells of "+model)
		case len(mine) > 4:
			where = append(where, fmt.Sprintf("%d cells of %s", len(mine), model))
		default:
			for _, c := range mine {
				where = append(where, c.Variant+" at "+c.group().short())
			}
		}
	}
	return "Starting the workers takes longer than all else in a round, and dominates a pool that is started for every round, for " + list(where) + "."
}
