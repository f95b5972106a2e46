package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/bench/result"
	"ipcbench/report"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// compareFlags are what `ipcbench compare` was asked for.
type compareFlags struct {
	analysis.CompareOptions
	failAbove percent
	gate      bool // failAbove was given
	format    string
	details   bool
}

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare FILE | BASE NEW",
		Short: "Say what changed between two builds or two runs",
		Long:  help("compare"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return hinted{usagef("compare: %d files: want one result of run --against, or two results", len(args)), "ipcbench run writes them"}
			}
			return nil
		},
		ValidArgsFunction: files("json", "gz"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.gate = cmd.Flags().Changed("fail-above")
			return a.compare(f, args)
		},
	}
	fs := cmd.Flags()
	fs.Var(&f.failAbove, "fail-above", "exit with 3 if a cell is significantly slower by more than this `SHARE`, such as 5%")
	fs.Lookup("fail-above").DefValue = "" // without it there is no gate, and not one at 0 %
	fs.BoolVar(&f.Separate, "allow-separate", false, "let the gate judge two runs that were not measured in turn")
	fs.StringSliceVar(&f.Metrics, "metric", []string{"round"}, "`LIST` of metrics to compare, from ipcbench list metrics; not those of a whole run, such as percentiles")
	fs.StringVar(&f.format, "format", "text", "print as `FORMAT`: "+strings.Join(report.ComparisonFormats(), "|"))
	offer(fs, "metric", metricWords)
	offer(fs, "format", report.ComparisonFormats)
	fs.BoolVar(&f.details, "details", false, "with --format text: print intervals, p and blocks of every cell too")
	return cmd
}

func (a *app) compare(f compareFlags, files []string) error {
	if !slices.Contains(report.ComparisonFormats(), f.format) {
		return usagef("--format %s: want %s", f.format, strings.Join(report.ComparisonFormats(), "|"))
	}
	if err := a.readable(f.format); err != nil {
		return err
	}
	var results [2]*bench.Result
	for i, path := range files {
		r, err := result.ReadFile(path)
		if err != nil {
			return usageError{err}
		}
		results[i] = r
	}
	c, err := analysis.Compare(results[0], results[1], f.CompareOptions)
	if err != nil {
		return usageError{err}
	}
	for _, r := range results {
		if f.gate && r != nil && r.Canary != nil && percent(r.Canary.Slowdown) <= f.failAbove {
			return usagef("--fail-above %s: want less than %s, by which the canary was slowed down", f.failAbove, percent(r.Canary.Slowdown))
		}
	}
	o := report.ComparisonOptions{Details: f.details, Text: a.terminal()}
	if f.gate { // before anything is printed: its refusals are about the question
		decision, err := c.Gate(float64(f.failAbove))
		if err != nil {
			err = usagef("gate: %w", err)
			if !c.Interleaved && !f.Separate {
				err = hinted{err, "compare --allow-separate judges separate runs all the same"}
			}
			return err
		}
		o.Gate = &report.Gate{Gate: decision}
		for _, r := range results {
			if r != nil && r.Canary != nil {
				trial, err := c.Canary(r, float64(f.failAbove))
				if err != nil {
					return err
				}
				if o.Gate.Trial = &trial; !trial.Works() {
					break
				}
			}
		}
	}
	if err := report.WriteComparison(a.out, f.format, c, o); err != nil || !f.gate {
		return err
	}
	return a.decide(o.Gate, f.failAbove)
}

// decide says what the gate has found, and fails if it has to.
func (a *app) decide(gate *report.Gate, above percent) error {
	if gate.Trial != nil {
		if err := report.TrialError(*gate.Trial); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "gate: works: it passes a copy of %s, and fails one that was slowed down by %s\n", doc.Visible(gate.Trial.Cell), percent(gate.Trial.Slowdown))
	}
	for _, reason := range gate.Reasons() {
		fmt.Fprintf(a.err, "gate: %s\n", reason)
	}
	if gate.Failed {
		return codeError{errors.New("gate: failed"), exitGate}
	}
	fmt.Fprintf(a.err, "gate: passed, nothing is significantly slower by more than %s\n", above)
	return nil
}
