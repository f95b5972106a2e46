package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/report"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/tensor/models"
	"ipcbench/transports"
)

func (a *app) listCommand() *cobra.Command {
	type listing struct {
		name string
		show func() error
	}
	lists := []listing{
		{"transports", a.listTransports},
		{"peers", a.listPeers},
		{"models", a.listModels},
		{"questions", a.listQuestions},
		{"metrics", a.listMetrics},
		{"formats", a.listFormats},
		{"views", a.listViews},
	}
	names := each(lists, func(l listing) string { return l.name })
	what := strings.Join(names, "|")
	return &cobra.Command{
		Use:       "list " + what,
		Short:     "List what can be measured and how it can be printed",
		Long:      help("list"),
		ValidArgs: names,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("list: %d names: want one of %s", len(args), what)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, l := range lists {
				if l.name == args[0] {
					return l.show()
				}
			}
			return usagef("list: unknown list %q: want one of %s", args[0], what)
		},
	}
}

// list prints a table of names and texts.
func (a *app) list(title string, columns []doc.Column, rows [][]string) error {
	t := doc.Table{Columns: columns}
	for _, row := range rows {
		t.Add(each(row, doc.Words)...)
	}
	return doc.Document{Lead: doc.Say(title), Sections: []doc.Section{{Tables: []doc.Table{t}}}}.Text(a.out, a.terminal())
}

func (a *app) listTransports() error {
	var rows [][]string
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
	rows = append(rows, []string{"every one", c.Name + "=" + c.Domain(), c.Default, c.Help})
	return a.list("", []doc.Column{{Name: "transport"}, {Name: "setting", Wrap: true}, {Name: "default"}, {Name: "meaning", Wrap: true}}, rows)
}

func each[T, U any](all []T, made func(T) U) (of []U) {
	for _, x := range all {
		of = append(of, made(x))
	}
	return of
}

func modelRows() [][]string {
	return each(models.List(), func(m models.Info) []string {
		if m.Tensors == 0 { // a family
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

func (a *app) listModels() error {
	about := doc.Column{Name: "about", Wrap: true}
	err := a.list("", []doc.Column{{Name: "model"}, {Name: "tensors"}, {Name: "size"}, about}, modelRows())
	fmt.Fprintln(a.out)
	ups := each(models.Updates(), func(u models.Info) []string { return []string{u.Name, u.About} })
	return errors.Join(err, a.list("What clients send back (--up), besides these:", []doc.Column{{Name: "update"}, about}, ups))
}

func (a *app) listMetrics() error {
	return a.list("", []doc.Column{{Name: "metric"}, {Name: "unit"}, {Name: "meaning", Wrap: true}}, metricRows())
}

func (a *app) listFormats() error {
	rows := each(report.Formats(), func(f report.Format) []string { return []string{f.Name, f.Help} })
	return a.list("", []doc.Column{{Name: "format"}, {Name: "what it is", Wrap: true}}, rows)
}

func (a *app) listViews() error {
	return a.list("", []doc.Column{{Name: "view"}, {Name: "what it shows", Wrap: true}}, viewRows())
}
