package analysis

import (
	"slices"

	"ipcbench/bench/result"

	"ipcbench/bench/stat"
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
	From, To *Cell // of one group; both are proved
}

// Times returns how many times as long a metric is as it would be.
func (g Gain) Times(metric string) stat.Interval { return g.From.Ratio(metric, g.To) }

// Gains returns those of all projects in all groups.
func (r *Result) Gains() []Gain {
	var all []Gain
	groups := r.Groups()
	for _, s := range swaps {
		for _, cells := range groups {
			from := slices.IndexFunc(cells, func(c *Cell) bool { return c.Peer != "" && c.Variant == s.from && c.Unproved == "" })
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
