package bench

import (
	"context"
	"slices"

	"ipcbench/bench/result"
)

// An Outline describes a run before it starts.
type Outline struct {
	Cells   []OutlineCell
	Skipped []result.Skipped // cells that cannot run, with the reason
	Floors  []string         // names of floors, measured in the first cycles and later in every fourth
	Memory  int64            // bytes needed by the largest cell
}

// An OutlineCell is a cell of an [Outline].
type OutlineCell struct {
	Name   string
	Memory int64  // bytes, of server and workers together
	Hosts  string // hosts with their number of processes, in a run with agents: h1:2,h2:2
}

// Describe returns the outline of a run, after the same checks as [Run]. It measures
// nothing.
func Describe(ctx context.Context, o Options) (*Outline, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	out := Outline{Skipped: r.result.Skipped}
	for _, c := range r.cells {
		cell := OutlineCell{c.String(), c.Memory(), r.here.Hosts.Describe(c.Spec)}
		out.Cells = append(out.Cells, cell)
		out.Memory = max(out.Memory, cell.Memory)
	}
	for _, f := range r.floors {
		out.Floors = append(out.Floors, f.Name)
	}
	for _, ch := range r.chains {
		if !ch.Coded() {
			out.Floors = append(out.Floors, "work")
		}
	}
	slices.Sort(out.Floors)
	out.Floors = slices.Compact(out.Floors)
	return &out, nil
}
