package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
	"ipcbench/tensor"
)

// others change a cell on one axis.
var others = map[string]func(c *result.Cell){
	"transport": func(c *result.Cell) {
		c.Transport, c.Variant = "grpc-stream", strings.Replace(c.Variant, "http", "grpc-stream", 1)
	},
	"codec": func(c *result.Cell) {
		c.Settings, c.Variant = map[string]string{"network": "tcp", "codec": "sparse"}, c.Variant+":codec=sparse"
	},
	"model":    func(c *result.Cell) { c.Model = benchtest.Models["histology"] },
	"up":       func(c *result.Cell) { c.Model.Up = "lora:8" },
	"workers":  func(c *result.Cell) { c.Workers = 2 },
	"clients":  func(c *result.Cell) { c.Clients = 2 },
	"program":  func(c *result.Cell) { c.Program = result.Head },
	"change":   func(c *result.Cell) { c.Change = benchtest.Text[tensor.Change]("2%") },
	"values":   func(c *result.Cell) { c.Values = "normal" },
	"scenario": func(c *result.Cell) { c.Scenario = "sync" },
	"link":     func(c *result.Cell) { c.Link = benchtest.Text[link.Rate]("100Mbit") },
	"language": func(c *result.Cell) { c.Language, c.Launcher = result.InPython, "python" },
	"train":    func(c *result.Cell) { c.Train = "mine:train" },
	"train-ms": func(c *result.Cell) { c.TrainMS = 5 },
	"respawn":  func(c *result.Cell) { c.Respawn = true },
	"nested":   func(c *result.Cell) { c.Nested = true },
	"pages":    func(c *result.Cell) { c.Pages = "huge" },
}

// everyAxis returns a cell, and those that differ from it on one axis or on two.
func everyAxis(t *testing.T, except ...string) *result.Result {
	r, axes := benchtest.Result(), metrics.Axes()
	check.Equal(t, len(others), len(axes), "axes with another value")
	axes = slices.DeleteFunc(axes, func(a metrics.Axis) bool { return slices.Contains(except, a.Name) })
	for i := -1; i < len(axes); i++ {
		for k := -1; k < max(i, 0); k++ {
			c := benchtest.Cell("http", benchtest.Models["cnn"], 1, 1, benchtest.Six(float64(20+len(r.Cells)))...)
			c.Variant, c.Settings, c.Program = "http:network=tcp", map[string]string{"network": "tcp"}, result.Base
			for _, axis := range []int{k, i} {
				if axis >= 0 {
					others[axes[axis].Name](&c)
				}
			}
			r.Cells = append(r.Cells, c)
		}
	}
	if !slices.Contains(except, "program") {
		benchtest.Builds(r)
	} else {
		everyCell(r, func(c *result.Cell) { c.Program = "" })
	}
	return r
}

// TestNamedOnce: in a result in which cells differ on one axis or on two, no row of a table and no point of a picture has
// the name of another one.
func TestNamedOnce(t *testing.T) {
	for _, r := range []*result.Result{everyAxis(t), everyAxis(t, "program")} {
		sections := []doc.Section{table.AllMetrics(metrics.New(r))}
		for _, v := range Views() {
			sections = append(sections, v.section(metrics.New(r)))
		}
		if r.Programs != nil {
			sections = append(sections, compare(t, r, nil, CompareOptions{}).document().Sections...)
		}
		for _, s := range sections {
			names := map[string]bool{}
			once := func(parts ...string) {
				name := strings.Join(parts, " | ")
				check.That(t, !names[name], "%s: %s: twice", s.Name, name)
				names[name] = true
			}
			for _, p := range s.Plots {
				for _, line := range p.Series {
					for _, x := range line.Points {
						once("plot", p.Caption, line.Name, x.Name, fmt.Sprint(x.At))
					}
				}
			}
			for _, part := range s.Tables {
				heading := ""
				for _, row := range part.Rows {
					heading = cmp.Or(row.Heading, heading)
					parts := []string{part.Key, part.Caption, heading}
					for _, cell := range row.Cells[:max(1, part.Keys)] {
						parts = append(parts, cell.Text+cell.ForPeople)
						if cell.Value != nil {
							parts = append(parts, fmt.Sprint(cell.Value.Center))
						}
					}
					once(parts...)
				}
			}
		}
		runs := map[string]int{}
		for lines := benchfmt.NewReader(strings.NewReader(format(t, "benchfmt", r)), "r"); lines.Scan(); {
			if run, ok := lines.Result().(*benchfmt.Result); ok {
				runs[string(run.Name)]++
			}
		}
		check.Equal(t, len(runs), len(r.Cells), "names for benchstat")
		coded := table.Only(metrics.New(r).Cells, func(c *metrics.Cell) bool { return c.Encoded() && !c.Link.Shaped() })
		check.Equal(t, len(table.BreakEvensOf(table.PathsOf(metrics.New(r), true)...)), len(coded), "break-evens")
		for _, section := range []doc.Section{table.AllMetrics(metrics.New(r)), table.CellTables(metrics.New(r))} {
			rows := 0
			for _, t := range section.Tables {
				rows += len(t.Rows)
			}
			check.Equal(t, rows, len(r.Cells), "rows of ", section.Title)
		}
	}
}
