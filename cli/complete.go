package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/bench/program"
	"ipcbench/report/doc"
	"ipcbench/transports/driver"
)

// offer makes shells complete the value of a flag, or the first entry of its list. A word is
// NAME, or NAME, a tab and a description.
func offer(fs *pflag.FlagSet, flag string, words func() []string) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if _, list := fs.Lookup(flag).Value.(pflag.SliceValue); list {
		directive |= cobra.ShellCompDirectiveNoSpace // a comma or a setting may follow
	}
	of := &cobra.Command{} // cobra stores the function by flag, but needs some command
	of.Flags().AddFlag(fs.Lookup(flag))
	err := of.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words(), directive
	})
	if err != nil {
		panic(err) // the flag already has a function
	}
}

// files completes arguments with files that have one of the endings.
func files(endings ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(endings, cobra.ShellCompDirectiveFilterFileExt)
}

// words returns the rows of tables as completions: the first column, and the others as
// description.
func words(tables ...[][]string) (all []string) {
	for _, row := range slices.Concat(tables...) {
		if !strings.Contains(row[0], ":") { // a pattern for names, such as uniform:SIZE/COUNT
			all = append(all, row[0]+"\t"+strings.Join(row[1:], " "))
		}
	}
	return all
}

func (a *app) transportWords() []string {
	ours := doc.Each(a.host.Transports, func(t driver.Transport) []string { return []string{t.Name()} })
	peers := doc.Each(a.rows, func(p *program.Program) []string { return []string{p.Name(), p.Help()} })
	return words([][]string{{"all", "every transport"}}, ours, peers)
}

func modelWords() []string  { return words(modelRows()) }
func metricWords() []string { return words(metricRows()) }
func viewWords() []string   { return words([][]string{{"all", "every view"}}, viewRows()) }
