package cli

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/report"
)

// The tests below draw many reports from the blocks of one run. The run measures two
// identical builds, each in several layouts. A report compares the blocks that were drawn.

// blocksDrawn is the number of blocks on each side of a report, as in scripts/pr-report.
const blocksDrawn = 10

// A draw returns the indices of one side's blocks. Block i of a cell ran in layout i modulo
// layouts; the run has that many cycles.
type draw func(random *rand.Rand, layouts, cycles int) []int

// draws has the current way to choose blocks, and the one used before layouts were varied.
var draws = map[string]draw{
	"a layout a block": func(random *rand.Rand, layouts, cycles int) (blocks []int) {
		for _, l := range random.Perm(layouts)[:blocksDrawn] {
			blocks = append(blocks, random.IntN(cycles)*layouts+l)
		}
		return blocks
	},
	"one layout a side": func(random *rand.Rand, layouts, cycles int) (blocks []int) {
		l := random.IntN(layouts)
		for _, c := range random.Perm(cycles)[:blocksDrawn] {
			blocks = append(blocks, c*layouts+l)
		}
		return blocks
	},
}

// A tally counts reports that show a difference.
type tally struct {
	reports int
	other   int            // reports that show a difference of any cell, slower or faster
	slower  int            // reports that show a 10 % slowdown of head
	of      map[string]int // reports counted in slower, by cell
}

// add draws a report from a run, and a second one with a slowed-down head.
func (a *tally) add(t *testing.T, r *result.Result, by draw, random *rand.Rand) {
	t.Helper()
	layouts := len(r.Programs[0].Layouts)
	cycles := len(r.Cells[0].Blocks) / layouts
	blocks := map[string][]int{"base": by(random, layouts, cycles), "head": by(random, layouts, cycles)}
	a.reports++
	if c := drawn(t, r, blocks, 1); len(c.Worse())+len(c.Better()) > 0 {
		a.other++
	}
	slower := drawn(t, r, blocks, 1.1).Worse()
	if len(slower) > 0 {
		a.slower++
	}
	for _, row := range slower {
		a.of[row.Cell.Label()]++
	}
}

// drawn compares the chosen blocks of both sides, with head's rounds multiplied by slow.
func drawn(t *testing.T, r *result.Result, blocks map[string][]int, slow float64) *report.Comparison {
	t.Helper()
	d := *r
	d.Cells = slices.Clone(r.Cells)
	for i := range d.Cells {
		c := &d.Cells[i]
		all := c.Blocks
		c.Blocks = nil
		for _, n := range blocks[c.Program] {
			b := all[n]
			if c.Program == "head" && slow != 1 {
				b.Round = slices.Clone(b.Round)
				for k := range b.Round {
					b.Round[k] = int64(float64(b.Round[k]) * slow)
				}
			}
			c.Blocks = append(c.Blocks, b)
		}
	}
	return compared(t, &d)
}

func (a *tally) String() string {
	share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(a.reports)) }
	text := fmt.Sprintf("of %d reports, %s show a difference; of a head slowed down by 10 %%, %s show it", a.reports, share(a.other), share(a.slower))
	for _, cell := range slices.Sorted(maps.Keys(a.of)) {
		text += fmt.Sprintf("; of %s %s", cell, share(a.of[cell]))
	}
	return text
}

// likeness returns a run of two identical builds. Each layout multiplies a cell's round by
// a random factor with a standard deviation of byLayout, and each block by another one of
// 2 %.
func likeness(random *rand.Rand, byLayout float64) *result.Result {
	const layouts, cycles = 12, blocksDrawn
	r := benchtest.Result()
	r.Plan.Baseline = "base"
	for _, build := range []string{"base", "head"} {
		r.Programs = append(r.Programs, result.Program{Name: build, Layouts: make([]result.Layout, layouts)})
		for _, transport := range []string{"inproc", "shm-slab", "http-shm"} {
			var of [layouts]float64
			for l := range of {
				of[l] = math.Exp(byLayout * random.NormFloat64())
			}
			var rounds []float64
			for i := range layouts * cycles {
				rounds = append(rounds, 20*of[i%layouts]*math.Exp(0.02*random.NormFloat64()))
			}
			c := benchtest.Cell(transport, benchtest.Models["cnn"], 1, 1, rounds...)
			c.Program = build
			r.Cells = append(r.Cells, c)
		}
	}
	return r
}

// TestLayoutABlock: if layouts differ, reports with one layout per side show differences
// between identical builds. Reports with another layout for each block do not, and show a
// 10 % slowdown if layouts differ little (guard 28).
func TestLayoutABlock(t *testing.T) {
	const reports = 60
	of := func(way string, byLayout float64) *tally {
		a := &tally{of: map[string]int{}}
		for seed := range uint64(reports) {
			random := rand.New(rand.NewPCG(seed, 28))
			a.add(t, likeness(random, byLayout), draws[way], random)
		}
		t.Logf("layouts that differ by %v, %s: %v", byLayout, way, a)
		return a
	}
	a := of("one layout a side", 0.12)
	check.That(t, a.other >= reports/2, "one layout a side: %v, want half of them or more", a)
	if a := of("a layout a block", 0.12); a.other > reports/10 { // 5 % are expected of many reports
		t.Errorf("a layout a block: %v, want at most a tenth", a)
	}
	a = of("a layout a block", 0.02)
	check.That(t, a.other <= reports/10 && a.slower >= reports*8/10, "layouts that differ little: %v, want at most a tenth, and at least 80 %%", a)
}

// TestSoakLayouts: reports in which each block has another layout seldom show a false
// difference. 1,000 reports are drawn from one run of 24 layouts of this program, 12 per
// side. At most 6 % may show a difference, and at least 80 % must show a slowdown of 10 %
// (guard 28). IPCBENCH_TEST_LAYOUTS names the file of that run, which is written if it does
// not exist.
func TestSoakLayouts(t *testing.T) {
	skip.Soak(t)
	path := os.Getenv("IPCBENCH_TEST_LAYOUTS")
	if path == "" {
		path = filepath.Join(t.TempDir(), "result.json.gz")
	}
	if _, err := os.Stat(path); err != nil {
		runLayouts(t, path)
	}
	r := check.Value(result.ReadFile(path))(t)
	check.Need(t, len(r.Programs) == 2, "%s: %d programs", path, len(r.Programs))
	n := len(r.Programs[0].Layouts)
	short := slices.ContainsFunc(r.Cells, func(c result.Cell) bool { return len(c.Blocks) < n*blocksDrawn })
	check.Need(t, n >= blocksDrawn && len(r.Programs[1].Layouts) == n && !short,
		"%s: want %d or more layouts, as many of each side, and %d blocks of every cell in each", path, blocksDrawn, blocksDrawn)
	random := rand.New(rand.NewPCG(1, 28))
	for _, way := range slices.Sorted(maps.Keys(draws)) {
		a := &tally{of: map[string]int{}}
		for range 1000 {
			a.add(t, r, draws[way], random)
		}
		t.Logf("%s: %v", way, a)
		check.That(t, way != "a layout a block" || a.other <= 60 && a.slower >= 800,
			"%s: want at most 6 %% and at least 80 %%", way)
	}
}

// runLayouts measures 24 layouts of this program, 12 per side, with ten blocks in each.
func runLayouts(t *testing.T, path string) {
	t.Helper()
	const layouts = 12
	var files []string
	for n := range 2 * layouts {
		files = append(files, built(t, fmt.Sprintf("-ldflags=-s -w -randlayout=%d", n+1)))
	}
	base, head := files[:layouts], files[layouts:]
	output(t, head[0], "run", "--against", strings.Join(base, ","), "--layouts", strings.Join(head[1:], ","),
		"--transport", "shm-slab,http-shm", "--model", "histology", "--workers", "2", "--clients", "2",
		"--blocks", fmt.Sprint(layouts*blocksDrawn), "--time", fmt.Sprintf("%dms", layouts*blocksDrawn*200), "--out", path)
}
