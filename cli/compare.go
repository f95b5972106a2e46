package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/report"
)

// compareFlags are what `ipcbench compare` was asked for.
type compareFlags struct {
	failAbove percent
	gate      bool // failAbove was given
	separate  bool
	metrics   []string
	format    string
}

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare FILE | compare BASE NEW",
		Short: "Compare two builds or two runs, and fail on a regression",
		Long: strings.TrimSpace(`
Compares the two builds in the result FILE of an interleaved run:

  ipcbench run --against OTHER_BINARY --out FILE

or two results, BASE and NEW. For every cell it says by how much the median
round differs, how sure that is, and what difference would have been seen.

With --fail-above P it is a gate, with these exit codes:

  0  nothing is wrong
  3  a cell's change is significant and its estimate is more than P slower, or
     the measurement contradicts itself
  2  the files cannot be judged: two runs that were not interleaved differ by the
     machine's moods too, and are judged only with --allow-separate
  1  the gate is broken: the run had a canary (run --canary), and the gate fails
     the copy of a cell that is the same, or passes the one that was slowed down`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return hinted{usagef("compare: %d files: want one of an interleaved run, or two", len(args)), "ipcbench run writes them"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.gate = cmd.Flags().Changed("fail-above")
			return a.compare(f, args)
		},
	}
	fs := cmd.Flags()
	fs.Var(&f.failAbove, "fail-above", "exit with 3 if a cell is significantly slower by more than this, such as 5%")
	fs.Lookup("fail-above").DefValue = "" // without it there is no gate, and not one at 0 %
	fs.BoolVar(&f.separate, "allow-separate", false, "let the gate judge runs that were not interleaved")
	fs.StringSliceVar(&f.metrics, "metric", []string{"round"}, "what is compared, of ipcbench list metrics: what blocks measure")
	fs.StringVar(&f.format, "format", "text", "how it is presented: "+strings.Join(report.ComparisonFormats(), "|"))
	return cmd
}

func (a *app) compare(f compareFlags, files []string) error {
	if !slices.Contains(report.ComparisonFormats(), f.format) {
		return usagef("--format %s: want %s", f.format, strings.Join(report.ComparisonFormats(), "|"))
	}
	var results [2]*bench.Result
	for i, path := range files {
		r, err := bench.ReadFile(path)
		if err != nil {
			return usageError{err}
		}
		results[i] = r
	}
	o := report.CompareOptions{Metrics: f.metrics, Separate: f.separate}
	c, err := report.Compare(results[0], results[1], o)
	if err != nil {
		return usageError{err}
	}
	for _, r := range results {
		if f.gate && r != nil && r.Canary != nil && percent(r.Canary.Slowdown) <= f.failAbove {
			return usagef("--fail-above %s: the canary was slowed down by %s only", f.failAbove, percent(r.Canary.Slowdown))
		}
	}
	if f.gate { // before anything is printed: its refusals are about the question
		if _, _, err := c.Gate(float64(f.failAbove)); err != nil {
			return hinted{usagef("gate: %w", err), "compare --allow-separate judges separate runs all the same"}
		}
	}
	if err := c.Write(a.out, f.format); err != nil {
		return err
	}
	if !f.gate {
		return nil
	}
	for _, r := range results {
		if r != nil && r.Canary != nil {
			if err := c.Canary(r, float64(f.failAbove)); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "gate: works: it passes a copy of %s, and fails one that was slowed down by %s\n",
				r.Canary.Slow.ID(), percent(r.Canary.Slowdown))
		}
	}
	fail, reasons, err := c.Gate(float64(f.failAbove))
	if err != nil {
		return err
	}
	for _, reason := range reasons {
		fmt.Fprintf(a.err, "gate: %s\n", reason)
	}
	if fail {
		return codeError{errors.New("gate: failed"), exitGate}
	}
	fmt.Fprintf(a.err, "gate: passed, nothing is significantly slower by more than %s\n", f.failAbove)
	return nil
}
