package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/report"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/tensor/models"
	"ipcbench/transports"
)

// A listing is a table of names and texts.
type listing struct {
	name, title string
	columns     []doc.Column
	rows        func() [][]string
}

func (a *app) listCommand() *cobra.Command {
	about := doc.Column{Name: "about", Wrap: true}
	meaning := doc.Column{Name: "meaning", Wrap: true}
	lists := []listing{
		{"transports", "", []doc.Column{{Name: "transport"}, {Name: "setting", Wrap: true}, {Name: "default"}, meaning}, a.transportRows},
		{"peers", "Names for --transport, not part of all. With --peer, any program can be one.", []doc.Column{{Name: "peer"}, {Name: "what it does", Wrap: true}, {Name: "here", Wrap: true}}, a.peerRows},
		{"models", "", []doc.Column{{Name: "model"}, {Name: "tensors"}, {Name: "size"}, about}, modelRows},
		{"questions", "For --questions. A project without what follows the slash stands for all of its questions.", []doc.Column{{Name: "question"}, {Name: "what is asked", Wrap: true}}, questionRows},
		{"metrics", "", []doc.Column{{Name: "metric"}, {Name: "unit"}, meaning}, metricRows},
		{"formats", "", []doc.Column{{Name: "format"}, {Name: "what it is", Wrap: true}}, formatRows},
		{"views", "", []doc.Column{{Name: "view"}, {Name: "what it shows", Wrap: true}}, viewRows},
	}
	names := each(lists, func(l listing) string { return l.name })
	return &cobra.Command{
		Use:       "list " + strings.Join(names, "|"),
		Short:     "List what can be measured and how it can be printed",
		Long:      help("list"),
		ValidArgs: names,
		Args:      oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := a.list(lists[slices.Index(names, args[0])])
			if args[0] == "models" {
				fmt.Fprintln(a.out)
				err = errors.Join(err, a.list(listing{"", "What clients send back (--up), besides these:", []doc.Column{{Name: "update"}, about}, updateRows}))
			}
			return err
		},
	}
}

// oneName refuses all arguments except one of those that the command offers.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && slices.Contains(cmd.ValidArgs, args[0]) {
		return nil
	}
	return usagef("%s: must be one of %s, not %q", cmd.Name(), strings.Join(cmd.ValidArgs, "|"), strings.Join(args, " "))
}

// schemaCommand prints what the JSON of ipcbench can be checked against.
func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "schema answer|result",
		Short:     "Print a JSON Schema of answers or of results",
		Long:      help("schema"),
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

func updateRows() [][]string {
	return each(models.Updates(), func(u models.Info) []string { return []string{u.Name, u.About} })
}

func formatRows() [][]string {
	return each(report.Formats(), func(f report.Format) []string { return []string{f.Name, f.Help} })
}

func questionRows() [][]string {
	return each(questions(), func(q question) []string { return []string{q.name, q.text} })
}
