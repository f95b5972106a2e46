package report

import (
	"fmt"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// swept returns a result of ten transports and a control, with the given number of sizes
// and all of these clients. Transports with a lower cost per byte have a higher fixed cost.
func swept(sizes int, clients ...int) *result.Result {
	r := benchtest.Result()
	for i := range sizes {
		size := int64(1024) << (2 * i)
		m := result.Model{Name: fmt.Sprintf("uniform:%dB/20", size), Tensors: 20, Bytes: size}
		for _, n := range clients {
			r.Cells = append(r.Cells, benchtest.Cell("inproc", m, 1, n, benchtest.Six(0.01+1e-7*float64(size))...))
			for k := range 10 {
				round := 0.05*float64(1+k*k) + 1e-5*float64(size)/float64(1+k)*float64(n)
				r.Cells = append(r.Cells, benchtest.Cell(fmt.Sprintf("transport-%d", k), m, 1, n, benchtest.Six(round)...))
			}
		}
	}
	return r
}

// TestSweepScreen: a sweep replaces its tables. The first sweep has a table, others have
// sentences, and a group without a sweep keeps its table. A pull request gets sentences.
func TestSweepScreen(t *testing.T) {
	one, changed, mixed := swept(11, 1), swept(4, 1), swept(4, 1, 2, 4)
	everyCell(changed, func(c *result.Cell) { c.TrainMS = 5 })
	holds(t, shown(t, changed, "crossover"), "20 tensors, 1 worker, 1 client, 5 ms of training")
	mixed.Cells = append(mixed.Cells, benchtest.Pair(6, 10).Cells...)
	for most, of := range map[int]*result.Result{40: one, 60: mixed} { // lines
		for _, width := range []int{45, 80, 120} {
			lines := strings.Count(terminal(t, of, width), "\n")
			check.That(t, width < 80 || lines <= most, "%d lines at %d columns", lines, width)
		}
		check.Equal(t, strings.Count(terminal(t, of, 120), "\n  from "), 1, "tables of sweeps")
	}
	holds(t, terminal(t, one, 120), "uniform, 1 KiB to 1 GiB in 20 tensors, 1 worker, 1 client\n", "transport-0", "transport-1, ", "takes over at\n", "More: ipcbench report r.json --view crossover,cells,")
	holds(t, terminal(t, mixed, 120), "inproc", "1 KiB to 64 KiB in 20 tensors, 1 worker, 1 client\n", "1 KiB to 64 KiB in 20 tensors, 1 worker, 4 clients\n", "4 more sweeps: --view crossover\n")
	before, after, _ := strings.Cut(format(t, "md", one), "<details>")
	check.That(t, strings.Contains(before, ": nothing is shown to be faster than transport-0") && !strings.Contains(before, "\n|") && strings.Count(after, "<summary>uniform:") == 11,
		"a request shows more than the sentences, or lacks a table:\n%s", before)
	rows := rowsOf(t, one, "crossings")
	first, second, at := rows[0], rows[1], rows[1]["at"].(map[string]any)
	check.Equal(t, fmt.Sprint(first["over"], first["from"], first["best"].([]any)[0], second["overtakes"], second["best"].([]any)[0], at["unit"]), "size1 KiBtransport-0transport-0transport-1B")
	check.That(t, at["low"].(float64) < at["median"].(float64) && at["median"].(float64) < at["high"].(float64), "crosses at %v", at)
	sweeps := map[string]bool{}
	for _, row := range rowsOf(t, mixed, "crossings") {
		sweeps[fmt.Sprint(row["over"], row["model"], row["update"], row["workers"], row["clients"])] = true
	}
	check.Equal(t, len(sweeps), 7, "sweeps")
}

// counted has cells of one size and different numbers of tensors. The cost of a tensor of a is 20 µs,
// the control's subtracted; the cost for b may be zero, so it is absent.
func counted() *result.Result {
	cell := func(transport string, tensors int, ms float64) result.Cell {
		return benchtest.Cell(transport, result.Model{Name: fmt.Sprintf("uniform:4MiB/%d", tensors), Tensors: tensors, Bytes: 4 << 20}, 1, 1, benchtest.Eight(ms)...)
	}
	return benchtest.Result(cell("inproc", 20, 1), cell("inproc", 1020, 2), cell("a", 20, 10), cell("a", 1020, 31), cell("b", 20, 20), cell("b", 1020, 21))
}

// TestPerTensor: the cost of a tensor is of one language, and unknown without a control.
func TestPerTensor(t *testing.T) {
	cell := func(transport, language string, tensors int, ms float64) result.Cell {
		m := result.Model{Name: fmt.Sprintf("uniform:4MiB/%d", tensors), Tensors: tensors, Bytes: 4 << 20}
		c := benchtest.Cell(transport, m, 1, 1, benchtest.Six(ms)...)
		c.Language = language
		return c
	}
	r := benchtest.Result(cell("http", "", 20, 10), cell("http", "", 1020, 11), cell("http", result.InPython, 20, 30), cell("http", result.InPython, 1020, 32))
	check.That(t, !strings.Contains(shown(t, r, "tensors"), "per tensor, "), "a cost without a control")
	r.Cells = append(r.Cells, cell("inproc", "", 20, 5), cell("inproc", "", 1020, 5))
	wantLines(t, shown(t, r, "tensors"), "http uniform:4MiB 20 to 1020 tensors 1.00 (0.690 to 1.31) 0.450 ± 0.095", "http (python) uniform:4MiB 20 to 1020 tensors 2.00 (1.28 to 2.72) 0.900 (0.621 to 1.18)")
}
