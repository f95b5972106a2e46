package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench/session"
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
	columns     []string
	rows        func() [][]string
}

func (a *app) listCommand() *cobra.Command {
	lists := []listing{
		{"transports", "", []string{"transport", "setting", "default", "meaning"}, a.transportRows},
		{"peers", "Names for --transport, which all does not include. --peer adds any other program.",
			[]string{"peer", "how it moves tensors", "on this machine"}, a.peerRows},
		{"models", "", []string{"model", "tensors", "size", "description"}, modelRows},
		{"questions", "For --questions, which also accepts a project without /NAME: its first questions.",
			[]string{"question", "text"}, func() [][]string {
				return doc.Each(questions(), func(q question) []string { return []string{q.Name, q.Text} })
			}},
		{"metrics", "", []string{"metric", "unit", "meaning"}, metricRows},
		{"formats", "", []string{"format", "description"}, func() [][]string {
			return doc.Each(report.Formats(), func(f report.Format) []string { return []string{f.Name, f.Help} })
		}},
		{"views", "", []string{"view", "contents"}, viewRows},
		{"codecs", "", nil, nil}, // the topic
	}
	second := map[string]listing{
		"transports": {"", "What workers in Python support (--language):",
			[]string{"flag or setting", "with workers in Python"}, featureRows},
		"peers": {"", "Which row is my framework?",
			[]string{"framework", "release", "how tensors travel", "transport in Go", "row in Python"}, frameworks},
		"models": {"", "Updates (--up), in addition to these:", []string{"update", "description"}, updateRows},
	}
	names := doc.Each(lists, func(l listing) string { return l.name })
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
	t := doc.Table{Columns: doc.Each(l.columns, func(name string) doc.Column { return doc.Column{Name: name, Wrap: true} })}
	for _, row := range l.rows() {
		t.Add(doc.Each(row, func(text string) any { return text })...)
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

func featureRows() [][]string {
	return doc.Each(session.Features(), func(f session.Feature) []string {
		return []string{f.Name, cmp.Or(f.Why, "supported")}
	})
}

func modelRows() [][]string {
	return doc.Each(models.List(), func(m models.Info) []string {
		if m.Tensors == 0 { // a pattern for names
			return []string{m.Name, "", "", m.About}
		}
		return []string{m.Name, fmt.Sprint(m.Tensors), doc.Quantity("B", float64(m.Bytes)), m.About}
	})
}

func metricRows() [][]string {
	return doc.Each(metrics.Metrics(), func(m metrics.Metric) []string { return []string{m.Name, m.Unit, m.Help} })
}

func viewRows() [][]string {
	return doc.Each(report.Views(), func(v report.View) []string { return []string{v.Name, v.Help} })
}

func updateRows() [][]string {
	return doc.Each(models.Updates(), func(u models.Info) []string { return []string{u.Name, u.About} })
}
