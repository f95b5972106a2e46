package cli

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/bench"
	"ipcbench/internal/legible"
	"ipcbench/report"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
	"ipcbench/scratch"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

var (
	//go:embed completion/ipcbench.bash
	bashCompletion string
	//go:embed completion/ipcbench.zsh
	zshCompletion string
	//go:embed completion/ipcbench.fish
	fishCompletion string
)

// completionCommand prints what a shell needs. Cobra's own scripts cut words at = and
// :, which settings have, and evaluate what stands on the command line.
func (a *app) completionCommand() *cobra.Command {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print what makes a shell complete flags and their values",
		Long: strings.TrimSpace(`
Print a script that makes a shell complete commands, flags and their values:
transports with their settings, models, views, metrics, and files.

bash, for this shell alone, and for all to come (the second needs the package
bash-completion; without it, put the first into ~/.bashrc):

  source <(ipcbench completion bash)
  ipcbench completion bash > ~/.local/share/bash-completion/completions/ipcbench

zsh, with compinit in ~/.zshrc, and DIR one of its $fpath:

  source <(ipcbench completion zsh)
  ipcbench completion zsh > DIR/_ipcbench

fish:

  ipcbench completion fish | source
  ipcbench completion fish > ~/.config/fish/completions/ipcbench.fish

The folder has to exist.`),
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || scripts[args[0]] == "" {
				return hinted{usagef("completion: want one of bash, zsh, fish"), cmd.CommandPath() + " --help says how to install it"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := a.out.Write([]byte(scripts[args[0]]))
			return err
		},
	}
}

// A completer says what may stand for a word that begins with text.
type completer func(text string) ([]string, cobra.ShellCompDirective)

// completions gives every flag and argument below root what a shell offers for it.
// Arguments stand here by the command's name, flags by theirs; a flag that lists its
// values in its help, a|b|c, needs nothing else.
func (a *app) completions(root *cobra.Command) {
	result := files("json", "gz")
	arguments := map[string]completer{
		"report": result, "compare": result, "timeline": result, "pprof": files("gz"),
		"clean": a.leftoverPaths,
	}
	texts := map[string]completer{
		"transport": list(a.variantTexts), "model": list(modelTexts), "up": list(updateTexts),
		"language": list(func(string) []string { return []string{"go", "python", "python:"} }),
		"link":     list(func(string) []string { return []string{"100Mbit", "1Gbit", "10Gbit", "unshaped", "none"} }),
		"scenario": list(func(string) []string { return append([]string{bench.FedAvg, bench.Sync}, presetNames()...) }),
		"place":    list(func(string) []string { return []string{"server", "fill", "spread"} }), "allow-dir": folders,
		"join": func(string) ([]string, cobra.ShellCompDirective) {
			return []string{"-"}, cobra.ShellCompDirectiveNoFileComp
		}, "name": none, "train": none, "peer": none,
		"rendezvous": anyFile, "addr": none,
		"listen": func(string) ([]string, cobra.ShellCompDirective) {
			return ourAddresses(), cobra.ShellCompDirectiveNoFileComp
		},
		"workers": none, "clients": none, "change": list(changeTexts), "codec": list(codecTexts), "require-lossless": none,
		"tls": list(func(string) []string { return []string{"on", "mutual"} }), "tls-ca": anyFile, "tls-cert": anyFile, "tls-key": anyFile, "tls-names": none,
		"view": list(viewTexts), "metric": list(metricTexts),
		"from": result, "out": files("json", "gz"), "html": files("html"), "config": files("yaml", "yml"), "against": anyFile, "layouts": anyFile, "dir": folders,
	}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if of := arguments[c.Name()]; of != nil {
			c.ValidArgsFunction = func(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
				if cmd.Flags().Changed("update") || cmd.Flags().Changed("check") {
					return folders(text)
				}
				return of(text)
			}
		} else if !c.HasSubCommands() {
			names := c.ValidArgs
			c.ValidArgs = nil
			c.ValidArgsFunction = func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
				if len(given) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return names, cobra.ShellCompDirectiveNoFileComp
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			of := texts[f.Name]
			if of == nil {
				of = fixed(f)
			}
			if of == nil && !isText(f) { // numbers and switches
				of = none
			}
			if of != nil {
				_ = c.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
					return of(text)
				}) // a flag that two commands share has it already
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// isText reports whether a flag takes any text, and not a number or a switch.
func isText(f *pflag.Flag) bool { return strings.HasPrefix(f.Value.Type(), "string") }

var alternatives = regexp.MustCompile(`[a-z0-9]+(\|[a-z0-9]+)+`)

// fixed completes a flag whose help lists its values.
func fixed(f *pflag.Flag) completer {
	names := strings.Split(alternatives.FindString(f.Usage), "|")
	if len(names) < 2 {
		return nil
	}
	if _, several := f.Value.(pflag.SliceValue); several {
		return list(func(string) []string { return names })
	}
	return func(string) ([]string, cobra.ShellCompDirective) { return names, cobra.ShellCompDirectiveNoFileComp }
}

func none(string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func anyFile(string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func folders(string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func files(endings ...string) completer {
	return func(string) ([]string, cobra.ShellCompDirective) {
		return endings, cobra.ShellCompDirectiveFilterFileExt
	}
}

// list completes the last entry of a list with commas. No space follows: there may be
// another comma, or a setting.
func list(entry func(text string) []string) completer {
	return func(text string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndex(text, ",") + 1
		given := strings.Split(text[:at], ",") // and offered
		var all []string
		for _, e := range entry(text[at:]) {
			if name, _, _ := strings.Cut(e, "\t"); !slices.Contains(given, name) && strings.HasPrefix(name, text[at:]) {
				given = append(given, name)
				all = append(all, text[:at]+e)
			}
		}
		return all, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
}

// variantTexts completes a transport, and behind colons its settings and their values.
func (a *app) variantTexts(text string) (all []string) {
	text, without := strings.CutPrefix(text, "-")
	minus := ""
	if without {
		minus = "-"
	}
	name, _, more := strings.Cut(text, ":")
	if !more {
		for _, t := range a.host.Transports {
			all = append(all, minus+t.Name())
		}
		for _, p := range a.rows {
			all = append(all, minus+p.Name()+"\t"+p.Help())
		}
		if !without {
			all = append(all, "all\tevery transport")
		}
		return all
	}
	i := slices.IndexFunc(a.host.Transports, func(t driver.Transport) bool { return t.Name() == name })
	if i < 0 {
		return nil
	}
	at := strings.LastIndex(text, ":") + 1
	key, value, chosen := strings.Cut(text[at:], "=")
	before := minus + text[:at]
	for _, s := range transports.Settings(a.host.Transports[i]) {
		switch {
		case !chosen && !strings.Contains(text[:at], ":"+s.Name+"="):
			all = append(all, before+s.Name+"=\t"+s.Help)
		case !chosen || s.Name != key:
		case s.Kind == driver.Path:
			for _, path := range paths(value, "/") {
				all = append(all, before+key+"="+path)
			}
		case s.Kind == driver.Text:
			for _, v := range codecTexts(value) {
				all = append(all, before+key+"="+v)
			}
		case s.Kind == driver.Choice:
			for _, v := range s.Values {
				all = append(all, before+key+"="+v)
			}
		default: // a number
			all = append(all, before+key+"="+s.Default+"\tthe default, of "+s.Domain())
		}
	}
	return all
}

// modelTexts completes a model: a name, a few of a family, or a file.
func modelTexts(text string) (all []string) {
	for _, m := range models.List() {
		if m.Tensors > 0 { // no family
			all = append(all, m.Name+"\t"+m.About)
		}
	}
	for _, sizes := range []string{"64KiB/1", "1MiB/20", "64MiB/20", "1KiB..64MiB:x4/20"} {
		all = append(all, "uniform:"+sizes+"\tSIZE/COUNT of f32 tensors")
	}
	if of, found := strings.CutPrefix(text, "like:"); found {
		for _, m := range models.List() {
			if m.Tensors > 0 && strings.HasPrefix(m.Name, of) {
				all = append(all, fmt.Sprintf("like:%s:%s/%d\tSIZE/COUNT of tensors as unequal", m.Name, tensor.FormatBytes(m.Bytes/2), (m.Tensors+1)/2))
			}
		}
	} else {
		all = append(all, "like:\ttensors as unequal as a model's")
	}
	return append(all, paths(text, ".safetensors")...)
}

// changeTexts completes a share: some of them.
func changeTexts(string) []string { return []string{"1%", "2%", "10%", "100%", "2%/rows"} }

// updateTexts completes what clients send back.
func updateTexts(text string) (all []string) {
	for _, u := range models.Updates() {
		name, rank, _ := strings.Cut(u.Name, "[")
		all = append(all, name+"\t"+u.About)
		if rank != "" {
			all = append(all, name+":4", name+":16", name+":64")
		}
	}
	return append(all, modelTexts(text)...) // which has a lora of its own: the first of a name counts
}

func viewTexts(string) (all []string) {
	for _, v := range report.Views() {
		all = append(all, v.Name+"\t"+v.Help)
	}
	return append(all, "all\tevery view")
}

func metricTexts(string) (all []string) {
	for _, m := range analysis.Metrics() {
		all = append(all, m.Name+"\t"+m.Help)
	}
	return all
}

// leftoverPaths completes what killed runs have left.
func (a *app) leftoverPaths(string) (all []string, _ cobra.ShellCompDirective) {
	left, _ := scratch.Leftovers(scratch.Roots()...) // what cannot be read is not offered
	for _, l := range left {
		all = append(all, l.Path+"\t"+doc.Visible(l.Owner))
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// paths returns the folders in the folder of text, and the files with that ending.
// Names that cannot be seen are left out: a file of anybody's is no line of ours.
func paths(text, ending string) (all []string) {
	dir, start := filepath.Split(text)
	from := cmp.Or(dir, ".")
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		home, _ := os.UserHomeDir() // else nothing is found
		from = filepath.Join(home, rest)
	}
	entries, _ := os.ReadDir(from) // what cannot be read is not offered
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(from, e.Name())) // a link is what it leads to
		name := e.Name()
		if err == nil && info.IsDir() {
			name += "/"
		}
		if err == nil && (info.IsDir() || strings.HasSuffix(name, ending)) && legible.Check(name) == nil && strings.HasPrefix(name, ".") == strings.HasPrefix(start, ".") {
			all = append(all, dir+name)
		}
	}
	return all
}

// joined puts --transport and a value that begins with a minus into one word: cobra
// would take it for a flag when it completes.
func joined(args []string) []string {
	n := len(args)
	if n < 3 || args[0] != cobra.ShellCompRequestCmd || args[n-2] != "--transport" || !strings.HasPrefix(args[n-1], "-") || strings.HasPrefix(args[n-1], "--") {
		return args
	}
	return append(slices.Clone(args[:n-2]), "--transport="+args[n-1])
}
