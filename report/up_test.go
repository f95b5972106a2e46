package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// TestUnlike: cells of one model whose updates differ have their own tables, controls and
// floors, and are not compared. Their payload is the bytes down and up (guard 5).
func TestUnlike(t *testing.T) {
	like := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
	lora := like
	lora.Up, lora.UpTensors, lora.UpBytes = "lora", 2, 20*benchtest.MB
	r := benchtest.Result(
		benchtest.Cell("inproc", like, 1, 1, benchtest.Six(10)...), benchtest.Count(benchtest.Cell("pickle", like, 1, 1, benchtest.Six(20)...), "body.tensors", 16),
		benchtest.Cell("inproc", lora, 1, 1, benchtest.Six(8)...), benchtest.Count(benchtest.Cell("pickle", lora, 1, 1, benchtest.Six(14)...), "body.tensors", 12),
	)
	work := func(up string, s float64) result.Floor {
		return result.Floor{Name: "work", Unit: "s", Help: "by direct calls", Model: "even", Up: up, Clients: 1, Blocks: slices.Repeat([][]float64{{s}}, 6)}
	}
	r.Floors = []result.Floor{work("", 5e-3), work("lora", 2e-3),
		{Name: "unix-stream", Unit: "B/s", Help: "a socket", Blocks: slices.Repeat([][]float64{{40e9}}, 6)}}
	check.Must(t, r.Validate())
	v := metrics.New(r)
	for i, want := range []map[string]float64{
		{"overhead": math.NaN(), "goodput": 200e6 / 10e-3, "floor_ratio": 10e-3 / 5e-3},
		{"overhead": 10e-3, "bandwidth": 200e6 / 10e-3, "goodput": 200e6 / 20e-3, "cpu_per_gb": 60e-3 / 0.4, "floor_ratio": 200e6 / 9e-3 / 40e9},
		{"overhead": math.NaN(), "goodput": 120e6 / 8e-3, "floor_ratio": 8e-3 / 2e-3},
		{"overhead": 6e-3, "bandwidth": 120e6 / 6e-3, "goodput": 120e6 / 14e-3, "cpu_per_gb": 42e-3 / 0.24, "floor_ratio": 120e6 / 6.3e-3 / 40e9},
	} {
		for name, x := range want {
			got := v.Cells[i].Of(name)
			check.That(t, got.Known() != math.IsNaN(x) && (!got.Known() || math.Abs(got.Center/x-1) <= 1e-9),
				"%s: %s is %v, want %v", v.Cells[i].ID(), name, got, x)
		}
	}
	check.That(t, len(v.Groups()) == 2 && len(table.SweepsOf(v)) == 0, "%d tables, want one for each update, and no meeting of the two", len(v.Groups()))
	for name, all := range map[string][]string{
		"text":     {"even, 100 MB in 4 tensors, up lora, 20.0 MB in 2 tensors, 1 worker, 1 client\n", "\neven, 100 MB in 4 tensors, 1 worker, 1 client\n"},
		"csv":      {",even,model,1,1,", ",even,lora,1,1,", "\nfloors,,,even,lora,", "\nfloors,,,even,,"},
		"benchfmt": {"/model=even/workers=1/clients=1 ", "/model=even/workers=1/clients=1/up=lora "},
		"json":     {`"update":"lora"`},
		"md":       {"up lora"},
	} {
		holds(t, format(t, name, r), all...)
	}
	base, head := benchtest.Result(r.Cells[:2]...), benchtest.Result(r.Cells[2:]...)
	c := compare(t, base, head, CompareOptions{})
	check.That(t, len(c.Rows) == 0, "compared %+v", c.Rows)
	check.Equal(t, c.OnlyBase, []string{"inproc even workers=1 clients=1", "pickle even workers=1 clients=1"})
	check.Equal(t, c.OnlyHead, []string{"inproc even up=lora workers=1 clients=1", "pickle even up=lora workers=1 clients=1"})
	c = compare(t, head, benchtest.Result(r.Cells...), CompareOptions{})
	check.That(t, len(c.Rows) == 2 && c.Rows[0].Cell.Model.Up == "lora" && c.Rows[1].Ratio.Center == 1, "compared %+v", c.Rows)
	holds(t, write(t, c, "text"), "even, updates lora")
	check.Equal(t, strings.Count(write(t, c, "json"), `"update":"lora"`), 2, "rows that say something of the update")
	narrowed(t, r, map[string]int{"up=lora": 2, "up=model": 2, "up=lora,model": 4})
}
