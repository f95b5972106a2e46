package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/bench/result"
	"ipcbench/report"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

func (a *app) reportCommand() *cobra.Command {
	var o printing
	var check, update bool
	cmd := &cobra.Command{
		Use:   "report FILE... | --check DIR | --update DIR",
		Short: "Print a result again, in any format",
		Long: strings.TrimSpace(`
Print results that ipcbench run has written. Nothing is measured.

  ipcbench report FILE
      the first screen again
  ipcbench report --view phases,costs FILE
      other tables: see ipcbench list views
  ipcbench report --format md FILE
      Markdown, for a pull request
  ipcbench report --format html FILE > page.html
      a page with pictures, for a browser
  ipcbench report --format perfetto FILE > trace.json
      who did what when in a run with --profile, for ui.perfetto.dev
  ipcbench report --update docs
      renew the tables in all Markdown files below docs

A table in a Markdown file stands between two comments:

  <!-- ipcbench: begin FILE.json VIEW [CHOICE...] -->
  <!-- ipcbench: end -->

FILE.json lies beside the page or below it, VIEW is a name from ipcbench list
views, and each CHOICE names cells: transport=http, model=cnn, workers=1 or
clients=4. --update writes what the result gives, and --check fails if something
else stands there. In place of VIEW, this makes one sentence with its interval:

  claim METRIC CHOICE... [against CHOICE...]   a cell, or it beside another one
  claim METRIC/METRIC2 CHOICE...               METRIC as a share of METRIC2`),
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case check && update:
				return usagef("report: --check and --update are given: want one of them")
			case (check || update) && len(args) != 1:
				return usagef("report: %d directories: --check and --update want one", len(args))
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
			return a.report(o, args)
		},
	}
	o.add(cmd.Flags(), formatNames()...)
	cmd.Flags().BoolVar(&check, "check", false, "fail if a table below DIR does not match its result")
	cmd.Flags().BoolVar(&update, "update", false, "write the tables below DIR anew")
	return cmd
}

func (a *app) report(o printing, paths []string) error {
	f, err := o.check()
	if err := errors.Join(err, a.readable(o.format)); err != nil {
		return err
	}
	switch {
	case o.format == "html" && len(paths) > 1:
		return hinted{usagef("report: %d files: --format html makes a page of one", len(paths)), "call it once for each file; ipcbench compare BASE NEW --format html has two side by side"}
	case o.format == perfetto && len(paths) > 1:
		return usagef("report: %d files: --format perfetto makes a trace of one", len(paths))
	}
	for _, path := range paths {
		result, err := result.ReadFile(path)
		if err != nil {
			return usageError{err}
		}
		err = errors.Join(f.Write(a.out, result, report.Options{Views: o.views, File: path, Call: called(os.Args[0]), Text: a.terminal()}), plausible(result))
		if errors.Is(err, report.ErrNoTimeline) {
			err = usageError{err}
		}
		if err != nil {
			return fmt.Errorf("report %s: %w", path, err)
		}
	}
	return nil
}

// plausible returns an error if the result says what cannot be: then ipcbench has
// a bug, and no number of it is to be believed.
func plausible(r *bench.Result) error {
	var errs error
	for _, f := range analysis.New(r).Findings() {
		if f.Severity == analysis.Error {
			errs = errors.Join(errs, errors.New(report.FindingLine(f)))
		}
	}
	if errs != nil {
		return hinted{errs, "this is a bug of ipcbench: please report it, with the result file"}
	}
	return nil
}

func (a *app) checkTables(dir string) error {
	drifts, err := report.Check(dir)
	if err != nil {
		return err
	}
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
