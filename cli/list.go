package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/internal/near"
	"ipcbench/report"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/tensor/models"
	"ipcbench/transports"
)

// A listing is a table that ipcbench list prints.
type listing struct {
	name, title string
	columns     []doc.Column
	rows        func() [][]string
}

func (a *app) listCommand() *cobra.Command {
	lists := []listing{
		{"transports", "", []doc.Column{{Name: "transport"}, wrapped("setting"), {Name: "default"}, wrapped("meaning")}, a.transportRows},
		{"peers", "Names for --transport, which all does not include. --peer adds any other program.", []doc.Column{{Name: "peer"}, wrapped("how it moves tensors"), wrapped("on this machine")}, a.peerRows},
		{"models", "", []doc.Column{{Name: "model"}, {Name: "tensors"}, {Name: "size"}, wrapped("description")}, modelRows},
		{"questions", "For --questions, which also accepts a project without /NAME: its first questions.", []doc.Column{{Name: "question"}, wrapped("text")}, func() [][]string {
			return each(questions(), func(q question) []string { return []string{q.Name, q.Text} })
		}},
		{"metrics", "", []doc.Column{{Name: "metric"}, {Name: "unit"}, wrapped("meaning")}, metricRows},
		{"formats", "", []doc.Column{{Name: "format"}, wrapped("description")}, func() [][]string {
			return each(report.Formats(), func(f report.Format) []string { return []string{f.Name, f.Help} })
		}},
		{"views", "", []doc.Column{{Name: "view"}, wrapped("contents")}, viewRows},
		{"codecs", "", nil, nil}, // the topic
	}
	second := map[string]listing{
		"peers":  frameworkList(),
		"models": {"", "Updates (--up), in addition to these:", []doc.Column{{Name: "update"}, wrapped("description")}, updateRows},
	}
	names := each(lists, func(l listing) string { return l.name })
	return &cobra.Command{
		Use:       "list " + strings.Join(names, "|"),
		ValidArgs: names, DisableFlagsInUseLine: true,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "codecs" {
				codecs, _, err := cmd.Root().Find(args)
				return errors.Join(err, codecs.Help())
			}
			err := a.list(lists[slices.Index(names, args[0])])
			if more, ok := second[args[0]]; ok {
				fmt.Fprintln(a.out)
				err = errors.Join(err, a.list(more))
			}
			return err
		},
	}
}

// wrapped returns a column whose lines may break.
func wrapped(name string) doc.Column { return doc.Column{Name: name, Wrap: true} }

// oneName accepts exactly one argument, one of cmd.ValidArgs.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && slices.Contains(cmd.ValidArgs, args[0]) {
		return nil
	}
	if len(args) != 1 {
		return usagef("%s: must be one of %s, not %q", cmd.Name(), strings.Join(cmd.ValidArgs, "|"), strings.Join(args, " "))
	}
	return usageError{near.Unknown(cmd.Name(), args[0], cmd.ValidArgs)}
}

// schemaCommand prints the JSON Schema of a file format.
func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "schema answer|result",
		ValidArgs: []string{"answer", "result"},
		Args:      oneName,
		RunE:      func(cmd *cobra.Command, args []string) error { return report.WriteSchema(a.out, args[0]) },
	}
}

func (a *app) list(l listing) error {
	t := doc.Table{Columns: l.columns}
	for _, row := range l.rows() {
		t.Add(each(row, doc.Words)...)
	}
	return doc.Document{Lead: doc.Say(l.title), Sections: []doc.Section{{Tables: []doc.Table{t}}}}.Text(a.out, a.terminal())
}

func (a *app) transportRows() (rows [][]string) {
	for _, t := range a.host.Transports {
		name := t.Name()
		for _, s := range t.Settings() {
			rows = append(rows, []string{name, s.Name + "=" + s.Domain(), cmp.Or(s.Default, "none"), s.Help})
			name = ""
		}
		if name != "" {
			rows = append(rows, []string{name})
		}
	}
	c := transports.CodecSetting()
	return append(rows, []string{"every one", c.Name + "=" + c.Domain(), c.Default, c.Help})
}

func each[T, U any](all []T, made func(T) U) (of []U) {
	for _, x := range all {
		of = append(of, made(x))
	}
	return of
}

func modelRows() [][]string {
	return each(models.List(), func(m models.Info) []string {
		if m.Tensors == 0 { // a pattern for names
			return []string{m.Name, "", "", m.About}
		}
		return []string{m.Name, fmt.Sprint(m.Tensors), doc.Quantity("B", float64(m.Bytes)), m.About}
	})
}

func metricRows() [][]string {
	return each(metrics.Metrics(), func(m metrics.Metric) []string { return []string{m.Name, m.Unit, m.Help} })
}

func viewRows() [][]string {
	return each(report.Views(), func(v report.View) []string { return []string{v.Name, v.Help} })
}

func updateRows() [][]string {
	return each(models.Updates(), func(u models.Info) []string { return []string{u.Name, u.About} })
}
