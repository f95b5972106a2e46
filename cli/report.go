package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"ipcbench/bench/result"
	"ipcbench/report"
	"ipcbench/report/answer"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

func (a *app) reportCommand() *cobra.Command {
	var o printing
	var check, update bool
	var only []string
	cmd := &cobra.Command{
		Use: "report FILE... | --check DIR | --update DIR",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case check && update:
				return usagef("report: --check and --update cannot be combined")
			case (check || update) && len(args) != 1:
				return usagef("report: --check and --update need one directory, not %d", len(args))
			case (check || update) && (cmd.Flags().Changed("format") || len(o.views)+len(only) > 0):
				return usagef("report: a marked table has a format, a view and cells: remove --format, --view and --only")
			case len(only) > 0 && o.format == "result":
				return usagef("report: --format result has all cells: remove --only")
			case len(args) == 0:
				return hinted{usagef("report: no result file"), "ipcbench run writes one"}
			}
			return nil
		},
		ValidArgsFunction: files("json", "gz"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case check:
				return a.checkTables(args[0])
			case update:
				return a.updateTables(args[0])
			}
			return a.report(o, only, args)
		},
	}
	o.add(cmd.Flags(), formatNames()...)
	cmd.Flags().StringArrayVar(&only, "only", nil, "print only cells of this `CHOICE`, such as model=cnn; repeatable")
	cmd.Flags().BoolVar(&check, "check", false, "fail if a table below DIR does not match its result")
	cmd.Flags().BoolVar(&update, "update", false, "rewrite the tables below DIR")
	return cmd
}

func (a *app) report(o printing, only, paths []string) error {
	f, err := a.format(o)
	if err != nil {
		return err
	}
	if len(paths) > 1 && (o.format == "html" || o.format == perfetto) {
		return hinted{usagef("report: --format %s accepts one file, not %d", o.format, len(paths)), "run it once per file; ipcbench compare BASE NEW --format html compares two"}
	}
	var runs []*result.Result
	for _, path := range paths {
		result, err := result.ReadFile(path)
		if err != nil {
			return usageError{err}
		}
		if len(only) > 0 {
			if result, err = metrics.Part(result, only); err != nil {
				return usagef("report %s: --only %w", path, err)
			}
		}
		err = errors.Join(f.Write(a.out, result, report.Options{Views: o.views, File: path, Only: only, Call: called(os.Args[0]), Text: a.terminal()}), plausible(result))
		if errors.Is(err, report.ErrNoTimeline) {
			err = usageError{err}
		}
		if err != nil {
			return fmt.Errorf("report %s: %w", path, err)
		}
		runs = append(runs, result)
	}
	if len(runs) > 1 && (o.format == "text" || o.format == "md") {
		for _, later := range runs[1:] {
			if err := report.WriteAgain(a.out, o.format, runs[0], later, a.terminal()); err != nil {
				return err
			}
		}
	}
	return nil
}

// plausible returns an error if the result contradicts itself.
func plausible(r *result.Result) error { return contradictions(answer.Findings(metrics.New(r))) }

// contradictions returns an error for findings that are errors: this is a bug in ipcbench, and
// its numbers cannot be trusted.
func contradictions(all []answer.Finding) error {
	var errs error
	for _, f := range all {
		if f.Severity == answer.Error {
			errs = errors.Join(errs, errors.New(answer.FindingLine(f)))
		}
	}
	if errs != nil {
		return hinted{errs, "this is a bug in ipcbench: please report it, with the result file"}
	}
	return nil
}

func (a *app) checkTables(dir string) error {
	tables, drifts, err := report.Check(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "checked %s: %d no longer match\n", doc.Plural(tables, "table"), len(drifts))
	for _, d := range drifts {
		err = errors.Join(err, fmt.Errorf("%s:%d: the table %q no longer matches its result", d.File, d.Line, d.View))
	}
	if err != nil {
		return hinted{err, "ipcbench report --update " + dir}
	}
	return nil
}

func (a *app) updateTables(dir string) error {
	changed, err := report.Rewrite(dir)
	for _, path := range changed {
		fmt.Fprintln(a.out, doc.Lines(path))
	}
	return err
}
