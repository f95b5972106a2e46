package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// A benchUnit is a metric and the name of its unit in benchfmt.
type benchUnit struct{ metric, unit string }

// benchUnits are the metrics that each block measures. Metrics that combine several cells are
// left out, because benchstat compares cells itself.
var benchUnits = []benchUnit{
	{"round", "sec/op"}, // must be first: goodput is computed from it
	{"transfer", "transfer-sec/op"},
	{"down", "down-sec/op"},
	{"up", "up-sec/op"},
	{"train", "train-sec/op"},
	{"cpu_per_round", "cpu-sec/op"},
	{"cpu_per_gb", "cpu-sec/GB"},
	{"wire_bytes", "wire-B/op"},
	{"wire_down", "wire-down-B/op"},
	{"wire_up", "wire-up-B/op"},
	{"phase.compress", "compress-sec/op"},
	{"phase.expand", "expand-sec/op"},
	{"rpcs", "calls/op"},
	{"alloc_bytes", "B/op"},
	{"allocs", "allocs/op"},
	{"peak_rss", "peak-rss-B"},
	{"handshake", "handshake-sec"},
}

// goodput is the payload ÷ the round. Its unit is not plain B/s, because that would look like
// a bandwidth, and a transport that hands over has none (guard 1).
var goodput = benchUnit{"goodput", "goodput-B/s"}

// writeBenchfmt writes a line for each block of each cell, so that benchstat sees the
// variation between sessions. benchstat compares only lines with equal configuration. So the
// configuration describes the cell and the machine, and the build is in comments.
func writeBenchfmt(w io.Writer, r *result.Result, _ Options) error {
	v := metrics.New(r)
	e := r.Environment
	comments := []string{"mode: " + r.Plan.Mode, "kernel: " + e.Kernel}
	for _, cells := range metrics.GroupBy(v.Cells, func(c *metrics.Cell) string { return c.Build() }) {
		name, build := "commit: ", cells[0].Build()
		if build != "" {
			name = "commit of program=" + build + ": "
		}
		built := cells[0].Environment()
		comments = append(comments, name+table.FullCommit(built.Commit, built.Dirty)+", "+built.Go)
	}
	for _, c := range comments {
		if _, err := fmt.Fprintf(w, "# %s\n", doc.Visible(c)); err != nil {
			return err
		}
	}
	out := benchfmt.NewWriter(w)
	for _, u := range append(slices.Clip(benchUnits), goodput) {
		m, _ := metrics.MetricNamed(u.metric)
		if err := out.Write(unitLine(u.unit, m.Better)); err != nil {
			return err
		}
	}
	config := []benchfmt.Config{
		fileConfig("goos", "linux"), fileConfig("goarch", e.Arch), fileConfig("cpu", e.CPU),
		fileConfig("pin", fmt.Sprint(r.Plan.Pin)),
	}
	for _, c := range v.Cells {
		config := append(slices.Clip(config), fileConfig("depth", fmt.Sprint(c.Depth)))
		if len(v.Hosts) > 0 {
			config = append(config, fileConfig("hosts", cmp.Or(c.Hosts, "none")), fileConfig("place", cmp.Or(c.Place, "none")))
		}
		samples := make([][][]float64, len(benchUnits))
		for k, u := range benchUnits {
			samples[k] = c.Samples(u.metric)
		}
		for i, b := range c.Timed() {
			res := &benchfmt.Result{Config: config, Name: benchName(c), Iters: len(b.Round)}
			for k, u := range benchUnits {
				if xs := samples[k][i]; len(xs) > 0 {
					res.Values = append(res.Values, benchfmt.Value{Value: stat.Median(xs), Unit: u.unit})
				}
			}
			res.Values = append(res.Values, benchfmt.Value{Value: float64(c.Payload()) / stat.Median(samples[0][i]), Unit: goodput.unit})
			if err := out.Write(res); err != nil {
				return err
			}
		}
	}
	return nil
}

// benchName returns the name of a cell as a benchmark. Cells of two results that did the same
// have the same name.
func benchName(c *metrics.Cell) benchfmt.Name {
	name := fmt.Sprintf("Round/transport=%s/model=%s/workers=%d/clients=%d", word(c.Variant), word(c.Model.Name), c.Workers, c.Clients)
	if c.Model.Up != "" {
		name += "/up=" + word(c.Model.Up)
	}
	for _, d := range c.Unusual() {
		name += "/" + d.Key + "=" + word(d.Of(c.Setup))
	}
	if c.Unproved != "" {
		name += "/unproved=yes"
	}
	if c.Build() != "" {
		name += "/program=" + word(c.Build())
	}
	return benchfmt.Name(name)
}

// word returns text as one part of a benchmark's name, without slashes and spaces.
func word(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || unicode.IsSpace(r) {
			return '_'
		}
		return r
	}, doc.Visible(text))
}

func unitLine(unit, better string) *benchfmt.UnitMetadata {
	u := &benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: unit, Key: "better"}, OrigUnit: unit, Value: better}
	if better == "" { // neither direction is better
		u.Key, u.Value = "assume", "nothing"
	}
	return u
}

func fileConfig(key, value string) benchfmt.Config {
	return benchfmt.Config{Key: key, Value: []byte(doc.Visible(value)), File: true}
}
