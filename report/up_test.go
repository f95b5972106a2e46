package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench"
)

// TestUnlike: cells of one model whose updates differ have tables, controls and
// floors of their own, what is delivered is what goes down and what comes up (guard
// 5), and nobody compares them.
func TestUnlike(t *testing.T) {
	like := bench.Model{Name: "even", Tensors: 4, Bytes: 100 * mb}
	lora := bench.Model{Name: "even", Tensors: 4, Bytes: 100 * mb, Up: "lora", UpTensors: 2, UpBytes: 20 * mb}
	r := plainResult(
		plainCell("inproc", like, 1, 1, six(10)...), count(plainCell("pickle", like, 1, 1, six(20)...), "body.tensors", 16),
		plainCell("inproc", lora, 1, 1, six(8)...), count(plainCell("pickle", lora, 1, 1, six(14)...), "body.tensors", 12),
	)
	work := func(up string, s float64) bench.Floor {
		return bench.Floor{Name: "work", Unit: "s", Help: "by direct calls", Model: "even", Up: up, Clients: 1, Blocks: [][]float64{{s}, {s}, {s}, {s}, {s}, {s}}}
	}
	r.Floors = []bench.Floor{work("", 5e-3), work("lora", 2e-3),
		{Name: "unix-stream", Unit: "B/s", Help: "a socket", Blocks: [][]float64{{40e9}, {40e9}, {40e9}, {40e9}, {40e9}, {40e9}}}}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	v := newView(r)
	for i, want := range []map[string]float64{
		{"overhead": math.NaN(), "goodput": 200e6 / 10e-3, "floor_ratio": 10e-3 / 5e-3},
		{"overhead": 10e-3, "bandwidth": 200e6 / 10e-3, "goodput": 200e6 / 20e-3, "cpu_per_gb": 60e-3 / 0.4, "floor_ratio": 200e6 / 10e-3 / 40e9},
		{"overhead": math.NaN(), "goodput": 120e6 / 8e-3, "floor_ratio": 8e-3 / 2e-3},
		{"overhead": 6e-3, "bandwidth": 120e6 / 6e-3, "goodput": 120e6 / 14e-3, "cpu_per_gb": 42e-3 / 0.24, "floor_ratio": 120e6 / 6e-3 / 40e9},
	} {
		for name, x := range want {
			got := v.cells[i].of(name)
			if got.Known() == math.IsNaN(x) || got.Known() && math.Abs(got.Center/x-1) > 1e-9 {
				t.Errorf("%s: %s is %v, want %v", v.cells[i].ID(), name, got, x)
			}
		}
	}
	if len(v.groups()) != 2 || len(meet(v.cells[1:2], v.cells[3:])) != 0 {
		t.Errorf("%d tables, want one for each update, and no meeting of the two", len(v.groups()))
	}

	for name, all := range map[string][]string{
		"text":     {"even (4 tensors, 100 MB), up lora (2 tensors, 20.0 MB), 1 worker, 1 client: 6 blocks", "even up=lora, 1 client", "even (4 tensors, 100 MB), 1 worker, 1 client: 6 blocks"},
		"csv":      {"\npickle,even,1,1,,round,s,", "\npickle,even,1,1,up=lora,round,s,", "\nfloor,even,1,1,clients=1;up=lora,work,s,", "\nfloor,even,1,1,clients=1,work,s,"},
		"benchfmt": {"/model=even/workers=1/clients=1 ", "/model=even/workers=1/clients=1/up=lora "},
		"json":     {`"up": "lora"`},
		"md":       {"up lora"},
	} {
		text := format(t, name, r)
		for _, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, text)
			}
		}
	}

	base, head := plainResult(r.Cells[:2]...), plainResult(r.Cells[2:]...)
	c := compare(t, base, head, CompareOptions{})
	if len(c.Rows) != 0 || !slices.Equal(c.OnlyBase, []string{"inproc even workers=1 clients=1", "pickle even workers=1 clients=1"}) ||
		!slices.Equal(c.OnlyHead, []string{"inproc even up=lora workers=1 clients=1", "pickle even up=lora workers=1 clients=1"}) {
		t.Errorf("compared %+v; only %v, %v", c.Rows, c.OnlyBase, c.OnlyHead)
	}
	c = compare(t, head, plainResult(r.Cells...), CompareOptions{})
	if len(c.Rows) != 2 || c.Rows[0].Up != "lora" || c.Rows[1].Ratio.Center != 1 {
		t.Errorf("compared %+v", c.Rows)
	}
	if text := write(t, c, "text"); !strings.Contains(text, "even up=lora") {
		t.Errorf("the table says nothing of the update:\n%s", text)
	}
	if text := write(t, c, "json"); strings.Count(text, `"up": "lora"`) != 2 {
		t.Errorf("the rows say nothing of the update:\n%s", text)
	}
	for filter, n := range map[string]int{"up=lora": 2, "up=model": 2, "up=lora,model": 4} {
		v := newView(r)
		if err := v.narrow([]string{filter}); err != nil || len(v.cells) != n {
			t.Errorf("%s: %d cells, error %v, want %d", filter, len(v.cells), err, n)
		}
	}
}
