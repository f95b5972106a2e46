package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/report"
	"ipcbench/report/analysis"
	"ipcbench/tensor/models"
)

// offer has shells complete the value of a flag. Of a list, that is its first entry.
// Words are NAME, or NAME, a tab and what it means.
func offer(fs *pflag.FlagSet, flag string, words func() []string) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if _, list := fs.Lookup(flag).Value.(pflag.SliceValue); list {
		directive |= cobra.ShellCompDirectiveNoSpace // because a comma or a setting may follow
	}
	of := &cobra.Command{} // cobra keeps functions by flag, and still needs a command
	of.Flags().AddFlag(fs.Lookup(flag))
	err := of.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words(), directive
	})
	if err != nil {
		panic(err) // the flag has it already
	}
}

// files completes arguments.
func files(endings ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(endings, cobra.ShellCompDirectiveFilterFileExt)
}

func (a *app) transportWords() []string {
	all := []string{"all\tevery transport"}
	for _, t := range a.host.Transports {
		all = append(all, t.Name())
	}
	for _, p := range a.rows {
		all = append(all, p.Name()+"\t"+p.Help())
	}
	return all
}

func modelWords() (all []string) {
	for _, m := range models.List() {
		if m.Tensors > 0 { // others are families
			all = append(all, m.Name+"\t"+m.About)
		}
	}
	return all
}

func metricWords() (all []string) {
	for _, m := range analysis.Metrics() {
		all = append(all, m.Name+"\t"+m.Help)
	}
	return all
}

func viewWords() []string {
	all := []string{"all\tevery view"}
	for _, v := range report.Views() {
		all = append(all, v.Name+"\t"+v.Help)
	}
	return all
}
