// Layouts measures the effect of a linker's order of functions on the benchmarks of some
// packages:
//
//	go run ./internal/test/layouts [-best 40] [-bench REGEXP] PACKAGE...
//
// It links each package's tests in eight layouts, and runs them in turn with eight runs of
// one layout. Each time is the best of many runs, because the best time depends on the code
// more than on the machine's other work. The table has the ratio of the slowest to the
// fastest of the eight layouts, and of the eight runs of one layout. The second ratio is
// noise; the excess of the first over the second is due to the linker.
//
// A layout moves functions, by multiples of 32 bytes. It moves no data. Ctrl-C ends the
// program with the table of the times so far.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const layouts = 8

func main() {
	best := flag.Int("best", 40, "a time is the best of so many `runs`")
	bench := flag.String("bench", ".", "benchmarks whose names match this `regexp`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Args(), *bench, *best); err != nil {
		fmt.Fprintln(os.Stderr, "layouts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, packages []string, bench string, best int) error {
	if len(packages) == 0 || best < 1 {
		return fmt.Errorf("want packages, and at least 1 run: go run ./internal/test/layouts ./tensor")
	}
	dir, err := os.MkdirTemp("", "layouts-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, pkg := range packages {
		t, err := measure(ctx, dir, pkg, bench, best)
		if err == nil || ctx.Err() != nil {
			t.print(pkg)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", pkg, err)
		}
	}
	return nil
}

// A table has the best times of benchmarks, in ns, in the order of the runs. The first half
// is one time per layout; the second half repeats the first layout.
type table struct {
	names []string
	times map[string][]float64
	rates map[string]float64 // the highest, in MB/s of moved data; 0 if the benchmark has none
	best  int                // number of runs of which a time is the best
}

// measure runs all programs in turn, so that a slow minute of the machine affects all of
// them. A process runs each benchmark several times, because making its models takes longer
// than the benchmark.
func measure(ctx context.Context, dir, pkg, bench string, best int) (*table, error) {
	t := &table{times: map[string][]float64{}, rates: map[string]float64{}}
	where, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		return t, err
	}
	for l := range layouts {
		build := exec.CommandContext(ctx, "go", "test", "-c", fmt.Sprintf("-ldflags=-randlayout=%d", l+1), "-o", filepath.Join(dir, strconv.Itoa(l)), pkg)
		if out, err := build.CombinedOutput(); err != nil {
			return t, fmt.Errorf("%w: %s", err, out)
		}
	}
	const at = 8
	for t.best < best {
		for p := range 2 * layouts {
			l := p
			if p >= layouts {
				l = 0
			}
			cmd := exec.CommandContext(ctx, filepath.Join(dir, strconv.Itoa(l)), "-test.run=^$", "-test.bench="+bench, "-test.benchtime=1x", fmt.Sprintf("-test.count=%d", at), "-test.timeout=1h")
			cmd.Dir = strings.TrimSpace(string(where))
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				return t, fmt.Errorf("%w: %s%s", err, out, &stderr)
			}
			t.add(p, out)
		}
		t.best += at
		fmt.Fprintf(os.Stderr, "%s: %d of %d\n", pkg, t.best, best)
	}
	return t, nil
}

var line = regexp.MustCompile(`(?m)^(Benchmark\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op(?:\s+([\d.]+) MB/s)?`)

func (t *table) add(program int, out []byte) {
	for _, m := range line.FindAllSubmatch(out, -1) {
		name := strings.TrimPrefix(string(m[1]), "Benchmark")
		ns, _ := strconv.ParseFloat(string(m[2]), 64)
		rate, _ := strconv.ParseFloat(string(m[3]), 64)
		if t.times[name] == nil {
			t.names = append(t.names, name)
			t.times[name] = slices.Repeat([]float64{math.Inf(1)}, 2*layouts)
		}
		t.times[name][program] = min(t.times[name][program], ns)
		t.rates[name] = max(t.rates[name], rate)
	}
}

func (t *table) print(pkg string) {
	fmt.Printf("%s: %d layouts, each at its best of %d\n\n", pkg, layouts, t.best)
	fmt.Printf("| benchmark | fastest | through Copy's | slowest through fastest: of %d layouts | of %d runs of one | the one through the other |\n| - | -: | -: | -: | -: | -: |\n", layouts, layouts)
	for _, name := range t.names {
		times := t.times[name]
		moved, one := spread(times[:layouts]), spread(times[layouts:])
		beside := "—"
		if t.rates[name] > 0 && t.rates["Copy"] > 0 {
			beside = fmt.Sprintf("%.2f", t.rates["Copy"]/t.rates[name])
		}
		fmt.Printf("| %s | %.3f ms | %s | %.3f | %.3f | %.3f |\n", name, slices.Min(times)/1e6, beside, moved, one, moved/one)
	}
	fmt.Println()
}

func spread(times []float64) float64 { return slices.Max(times) / slices.Min(times) }
