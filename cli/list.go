package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/report"
	"ipcbench/report/analysis"
	"ipcbench/tensor/models"
)

func (a *app) listCommand() *cobra.Command {
	lists := []struct {
		name string
		show func()
	}{
		{"transports", a.listTransports},
		{"models", a.listModels},
		{"metrics", a.listMetrics},
		{"formats", a.listFormats},
		{"views", a.listViews},
	}
	var names []string
	for _, l := range lists {
		names = append(names, l.name)
	}
	what := strings.Join(names, "|")
	return &cobra.Command{
		Use:   "list " + what,
		Short: "List transports, models, metrics, formats or views",
		Long: strings.TrimSpace(`
List what can be measured and how it can be printed.

  ipcbench list transports    with their settings
  ipcbench list models        with their sizes
  ipcbench list metrics       what each number means, and its unit
  ipcbench list formats       for --format
  ipcbench list views         for tables in Markdown files`),
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
					l.show()
					return nil
				}
			}
			return usagef("list: unknown list %q: want one of %s", args[0], what)
		},
	}
}

func (a *app) listTransports() {
	for _, t := range a.host.Transports {
		fmt.Fprintf(a.out, "%s\n", t.Name())
		for _, s := range t.Settings() {
			def := s.Default
			if def == "" {
				def = "none"
			}
			fmt.Fprintf(a.out, "    %s=%s (default %s)\n        %s\n", s.Name, s.Domain(), def, s.Help)
		}
	}
}

func (a *app) listModels() {
	for _, m := range models.List() {
		size := ""
		if m.Tensors > 0 {
			size = fmt.Sprintf("%d tensors, %.4g MB: ", m.Tensors, float64(m.Bytes)/1e6)
		}
		fmt.Fprintf(a.out, "%-20s %s%s\n", m.Name, size, m.About)
	}
	fmt.Fprintln(a.out, "\nwhat clients send back (--up), besides these:")
	for _, u := range models.Updates() {
		fmt.Fprintf(a.out, "%-20s %s\n", u.Name, u.About)
	}
}

func (a *app) listMetrics() {
	for _, m := range analysis.Metrics() {
		fmt.Fprintf(a.out, "%-22s %-6s %s\n", m.Name, m.Unit, m.Help)
	}
}

func (a *app) listFormats() {
	for _, f := range report.Formats() {
		fmt.Fprintf(a.out, "%-10s %s\n", f.Name, f.Help)
	}
}

func (a *app) listViews() {
	for _, v := range report.Views() {
		fmt.Fprintf(a.out, "%-12s %s\n", v.Name, v.Help)
	}
}
