package report_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase/usage"
)

// pick returns one of the items.
func pick[T any](r *rand.Rand, items ...T) T { return items[r.IntN(len(items))] }

// measured returns a cell whose rounds have a true median, in ms, of which training takes train. Most cells have as
// many blocks; some drift, have two modes, or give a reason to doubt them.
func measured(r *rand.Rand, transport, model string, blocks int, median, train float64) result.Cell {
	if r.IntN(12) == 0 {
		blocks = pick(r, 2, 3, 4, 5, 12)
	}
	spread, drift := pick(r, 0, 0.005, 0.03, 0.04, 0.05), pick(r, 0, 0, 0, 0, 0, 0.3)
	rounds, second := 1+r.IntN(8), pick(r, 1, 1, 1, 1, 2.2)
	medians := make([]float64, blocks)
	for i := range medians {
		medians[i] = median * math.Exp(spread*r.NormFloat64()) * (1 + drift*float64(i)/float64(blocks))
	}
	c := benchtest.Cell(transport, benchtest.Models[model], 1, 1, medians...)
	trained := int64(train * float64(benchtest.MS))
	for i := range c.Blocks {
		b := &c.Blocks[i]
		b.Round, b.Train, b.RTT, b.Down, b.Up, b.Phases["train"] = nil, nil, nil, nil, nil, int64(rounds)*trained
		for range rounds {
			ns := medians[i] * float64(benchtest.MS)
			if r.IntN(3) == 0 {
				ns *= second
			}
			b.Round, b.Train = append(b.Round, int64(ns)), append(b.Train, trained)
			b.RTT, b.Down, b.Up = append(b.RTT, int64(0.9*ns)), append(b.Down, int64(0.3*ns)), append(b.Up, int64(0.6*ns))
		}
	}
	switch r.IntN(40) {
	case 0:
		c.Stopped = "interrupted"
	case 1:
		c.Blocks[0].Proof = result.Proof{}
	case 2:
		c = benchtest.Count(benchtest.Count(c, "handle.tensors", 8), "fallback.full", 2)
	case 3:
		for i := range c.Blocks {
			c.Blocks[i].System = &usage.System{Busy: time.Second, Idle: time.Second, Steal: 200 * time.Millisecond}
		}
	}
	return c
}

// randomResult returns a result of two builds, or of transports with TLS, with workers in Python, and of projects. Many
// transports are equal, and some differ by little.
func randomResult(r *rand.Rand) *result.Result {
	made, blocks := benchtest.Result(), pick(r, 3, 5, 6, 6, 8, 10)
	if r.IntN(4) == 0 { // cells may then have more blocks than were planned
		made.Plan.Precision = 0
	}
	median := func() float64 { return 20 * pick(r, 1, 1.03, 1.05, 1.06, 1.08, 1.12, 1.6, 3) }
	build := r.IntN(5) < 2
	if build {
		benchtest.Builds(made)
	}
	for _, model := range []string{"histology", "cnn"}[:pick(r, 1, 1, 1, 1, 2)] {
		add := func(transport string, median, train float64, edit func(c *result.Cell)) {
			c := measured(r, transport, model, blocks, median, train)
			edit(&c)
			made.Cells = append(made.Cells, c)
		}
		if build {
			for _, transport := range []string{"inproc", "pickle", "http", "shm-slab"} {
				base := median()
				add(transport, base, 5, func(c *result.Cell) { c.Program = result.Base })
				add(transport, base*pick(r, 1, 1, 1.02, 1.05, 1.3), 5, func(c *result.Cell) { c.Program = result.Head })
			}
			continue
		}
		for _, transport := range []string{"inproc", "pickle", "shm-slab"} {
			add(transport, median(), 5, func(*result.Cell) {})
		}
		for _, transport := range []string{"http", "grpc-stream"} {
			for _, tls := range []string{"off", "on", "mutual"} {
				add(transport, median(), 5, func(c *result.Cell) {
					c.Settings = map[string]string{"network": "tcp", "tls": tls}
					c.Variant = strings.TrimSuffix(c.Variant+":network=tcp:tls="+tls, ":tls=off")
				})
			}
		}
		train := pick(r, 5.0, 8) // with 8 ms, transfers rank
		for _, transport := range []string{"shm-slab", "grpc-stream", "http"} {
			add(transport, median(), train, func(c *result.Cell) { c.Language, c.Launcher = result.InPython, "python" })
		}
		for _, peer := range []string{"py-torch-queue", "py-grpc", "py-http-json", "mine"} {
			add(peer, median(), 5, func(c *result.Cell) {
				benchtest.Peer(made, c, "./"+peer, nil)
				if peer == "mine" {
					c.Unproved = "it has no hashes"
				}
			})
		}
	}
	ask(r, made)
	return made
}

// ask gives a result up to three questions about random pairs, each of another pair.
func ask(r *rand.Rand, made *result.Result) {
	claims := randomClaims(r, made)
	for _, name := range []string{"project/one", "project/two", "project/three"}[:r.IntN(4)] {
		n := min(1+r.IntN(6), len(claims))
		made.Questions = append(made.Questions, result.Question{Name: name, Text: "Which is faster?", Claims: claims[:n]})
		claims = claims[n:]
	}
}

// middle returns the median of a cell's rounds.
func middle(c result.Cell) float64 {
	var all []float64
	for _, b := range c.Blocks {
		all = append(all, float64(b.Round[0]))
	}
	return stat.Median(all)
}

// randomClaims returns claims about pairs of cells in random order, most of which have the fastest cell.
func randomClaims(r *rand.Rand, made *result.Result) (claims []string) {
	cells := slices.DeleteFunc(slices.Clone(made.Cells), func(c result.Cell) bool { return c.Model != made.Cells[0].Model })
	r.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	name := func(c result.Cell) string {
		return choices(c.Variant, c.Model.Name, cmp.Or(c.Language, "go"), c.Build())
	}
	best := cells[0]
	for _, c := range cells {
		ranked := func(c result.Cell) bool { return c.Variant != "inproc" && c.Unproved == "" }
		if ranked(c) && (!ranked(best) || middle(c) < middle(best)) {
			best = c
		}
	}
	asked := map[string]bool{}
	for i, c := range cells {
		other := cells[(i+1)%len(cells)]
		if c.ID() != best.ID() && r.IntN(4) > 0 { // the pair may be in a ranking
			other = best
		}
		if pair := name(c) + " against " + name(other); !asked[pair] {
			asked[pair], asked[name(other)+" against "+name(c)] = true, true
			claims = append(claims, pick(r, "round", "round", "round", "transfer", "cpu_per_round")+" "+pair)
		}
	}
	return claims
}
