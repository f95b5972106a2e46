package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/bench/session"
	"ipcbench/internal/doctor"
	"ipcbench/report/doc"
)

// Durations for which the processors are watched for stolen time and other programs. The
// kernel counts in steps of 10 ms.
const (
	watchLong  = 300 * time.Millisecond
	watchShort = 100 * time.Millisecond // before a run
)

func (a *app) doctorCommand() *cobra.Command {
	var f cellFlags
	var format string
	cmd := &cobra.Command{
		Use:  "doctor",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.complete(cmd); err != nil {
				return err
			}
			if !chosen(cmd) {
				f.firstCells()
			}
			return a.doctor(f, given(cmd.Flags()), format)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.add(fs)
	fs.StringVar(&format, "format", "text", "print the checks as `FORMAT`: text|json")
	offer(fs, "format", func() []string { return []string{"text", "json"} })
	onlyOnLine(fs, "format") // a file's format is for ipcbench run, which has others
	a.configurable(cmd)
	return cmd
}

func (a *app) doctor(f cellFlags, given map[string]bool, format string) error {
	if format != "text" && format != "json" {
		return usagef("--format must be text or json, not %s", format)
	}
	cells, err := a.cells(f)
	if err == nil {
		err = conflicts(given, cells)
	}
	if err != nil {
		return err
	}
	for _, c := range cells {
		if err := c.Check(); err != nil && !errors.As(err, new(*session.Unfit)) { // the checks report unfit cells
			return usageError{err}
		}
	}
	checks := doctor.Examine(bench.Needs(cells), watchLong)
	if format == "json" {
		err = doc.WriteJSON(a.out, checks, "\t")
	} else {
		err = diagnosis(checks).Text(a.out, a.terminal())
	}
	if failed := doctor.Only(checks, doctor.Fail); err == nil && len(failed) > 0 {
		names := doc.Each(failed, func(c doctor.Check) string { return c.Name })
		err = fmt.Errorf("doctor: %s: %s", doc.Plural(len(failed), "check")+" failed", strings.Join(names, ", "))
	}
	return err
}

// tones are the display styles of statuses.
var tones = map[doctor.Status]doc.Tone{doctor.OK: doc.Plain, doctor.Warn: doc.Strong, doctor.Fail: doc.Bad}

// diagnosis returns a table of all checks, followed by the reason and fix of each check that
// is not ok.
func diagnosis(checks []doctor.Check) doc.Document {
	t := doc.Table{Keys: 2, Columns: []doc.Column{{}, {Name: "check"}, {Name: "found", Wrap: true}}}
	d := doc.Document{Sections: []doc.Section{{}}}
	n := map[doctor.Status]int{}
	for _, c := range checks {
		n[c.Status]++
		t.Rows = append(t.Rows, doc.Row{Cells: doc.Cells(string(c.Status), c.Name, c.What), Tone: tones[c.Status]})
		if c.Status != doctor.OK {
			d.Sections = append(d.Sections, doc.Section{Title: fmt.Sprintf("%s: %s", c.Status, c.Name), Lead: doc.Say(c.Why, "To fix it: "+c.Fix)})
		}
	}
	d.Sections[0].Tables = []doc.Table{t}
	verdict, tone := "nothing here distorts the run", doc.Good
	switch {
	case n[doctor.Fail] > 0:
		verdict, tone = "fix the failed checks before the run", doc.Bad
	case n[doctor.Warn] > 0:
		verdict, tone = "the run works, but its times may be longer or noisier than necessary", doc.Strong
	}
	d.Sections = append(d.Sections, doc.Section{Lead: []doc.Paragraph{{
		Text: fmt.Sprintf("%d ok, %d warn, %d fail: %s", n[doctor.OK], n[doctor.Warn], n[doctor.Fail], verdict), Tone: tone,
	}}})
	return d
}

// examine runs the checks before a run. It warns of failed checks and of leftovers of earlier
// runs.
func (a *app) examine(n doctor.Needs) []doctor.Check {
	checks := doctor.Examine(n, watchShort)
	for _, c := range checks {
		switch {
		case c.Status == doctor.Fail:
			fmt.Fprintf(a.err, "ipcbench: warning: %s: %s; see ipcbench doctor\n", c.Name, doc.Visible(c.What))
		case c.Name == doctor.Leftovers && c.Status != doctor.OK:
			fmt.Fprintf(a.err, "ipcbench: %s: %s; ipcbench clean removes them\n", c.Name, c.What)
		}
	}
	return checks
}
