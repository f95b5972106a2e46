package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench/result"
	"ipcbench/report"
	"ipcbench/report/doc"
)

// compareFlags are the flags of ipcbench compare.
type compareFlags struct {
	report.CompareOptions
	report.ComparisonOptions
	failAbove percent
	gate      bool // --fail-above is given
	format    string
}

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use: "compare FILE | BASE NEW",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return hinted{usagef("compare needs one result of run --against, or two results, not %d files", len(args)), "ipcbench run writes them"}
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
	fs.Var(&f.failAbove, "fail-above", "exit with 3 if a cell is slower by more than `SHARE`, such as 5%")
	fs.Lookup("fail-above").DefValue = "" // hides 0%: without the flag there is no gate
	fs.BoolVar(&f.Separate, "allow-separate", false, "accept two runs that were not measured in turn")
	fs.StringSliceVar(&f.Metrics, "metric", []string{"round"}, "`LIST` of metrics to compare, except percentiles: see ipcbench list metrics")
	fs.StringVar(&f.format, "format", "text", "print as `FORMAT`: "+strings.Join(report.ComparisonFormats(), "|"))
	offer(fs, "metric", metricWords)
	offer(fs, "format", report.ComparisonFormats)
	fs.BoolVar(&f.Details, "details", false, "with --format text: also print intervals, p and blocks")
	return cmd
}

func (a *app) compare(f compareFlags, files []string) error {
	if !slices.Contains(report.ComparisonFormats(), f.format) {
		return usagef("--format must be %[2]s, not %[1]s", f.format, strings.Join(report.ComparisonFormats(), "|"))
	}
	if f.Details && f.format != "text" {
		return usagef("--details needs --format text: the other formats have all details")
	}
	if err := a.readable(f.format); err != nil {
		return err
	}
	var results [2]*result.Result
	for i, path := range files {
		r, err := result.ReadFile(path)
		if err != nil {
			return usageError{err}
		}
		results[i] = r
	}
	c, err := report.Compare(results[0], results[1], f.CompareOptions)
	if err != nil {
		return usageError{err}
	}
	if f.gate { // before printing, because a refusal makes the output meaningless
		if err := f.judge(c, results); err != nil {
			return err
		}
	}
	f.Text = a.terminal()
	if err := report.WriteComparison(a.out, f.format, c, f.ComparisonOptions); err != nil {
		return err
	}
	if f.gate {
		return a.decide(c.Decision, f.failAbove)
	}
	return contradictions(c.Findings)
}

// judge sets the decision of the gate, which tests itself with the canaries of the results.
func (f compareFlags) judge(c *report.Comparison, results [2]*result.Result) (err error) {
	for _, r := range results {
		if r != nil && r.Canary != nil && percent(r.Canary.Slowdown) <= f.failAbove {
			return usagef("--fail-above must be below the canary's slowdown, %[2]s, not %[1]s", f.failAbove, percent(r.Canary.Slowdown))
		}
	}
	c.Decision, err = c.Gate(float64(f.failAbove))
	switch {
	case errors.As(err, new(report.UnjudgedError)):
		if err = (codeError{fmt.Errorf("gate: cannot judge: %w", err), exitUnjudged}); !c.Interleaved && !f.Separate {
			err = hinted{err, "compare --allow-separate judges separate runs anyway"}
		}
	case err != nil:
		err = usagef("gate: %w", err)
	}
	return err
}

// decide prints the result of the gate, and returns an error unless it passed.
func (a *app) decide(gate *report.Gate, above percent) error {
	if gate.Trial != nil && gate.Trial.Works {
		fmt.Fprintf(a.err, "gate: tested: it passes a copy of %s and fails a copy slowed down by %s\n", doc.Visible(gate.Trial.Cell), percent(gate.Trial.Slowdown))
	}
	for _, reason := range gate.Reasons {
		fmt.Fprintf(a.err, "gate: %s\n", reason)
	}
	switch gate.Outcome {
	case report.Slower:
		return codeError{errors.New("gate: failed"), exitGate}
	case report.Contradicts:
		return errors.New("gate: failed, by a contradiction")
	case report.Undecided:
		return codeError{errors.New("gate: cannot judge"), exitUnjudged}
	}
	fmt.Fprintf(a.err, "gate: passed, nothing is significantly slower by more than %s\n", above)
	return nil
}
