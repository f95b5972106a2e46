package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages to a folder",
		Long: strings.TrimSpace(`
Write a manual page for ipcbench and one for each command. They say what --help
says, and what variables, files and exit codes mean.

  ipcbench man ~/.local/share/man/man1
      then man ipcbench, and man ipcbench-run

The pages have the date of the commit that ipcbench was built from, or that of
SOURCE_DATE_EPOCH, so that the same build writes the same pages.`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return hinted{usagef("man: %d folders: want one", len(args)), "man looks in ~/.local/share/man/man1"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.writeManual(args[0]) },
	}
}

// writeManual writes all pages.
func (a *app) writeManual(dir string) error {
	date, err := commitDate()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usageError{err}
	}
	os.Unsetenv("TMPDIR") // which some help names: pages are for everybody
	pages := 0
	var write func(c *cobra.Command) error
	write = func(c *cobra.Command) error {
		pages++
		if err := os.WriteFile(filepath.Join(dir, pageName(c)+".1"), []byte(manual(c, date)), 0o644); err != nil {
			return err
		}
		for _, sub := range shown(c) {
			if err := write(sub); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(a.rootCommand()); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "ipcbench: wrote %d pages to %s\n", pages, dir)
	return nil
}

// commitDate returns the day of the commit, or that of SOURCE_DATE_EPOCH, or nothing.
func commitDate() (string, error) {
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "", usagef("SOURCE_DATE_EPOCH %q: want seconds since 1970", text)
		}
		return time.Unix(seconds, 0).UTC().Format(time.DateOnly), nil
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				day, _, _ := strings.Cut(s.Value, "T")
				return day, nil
			}
		}
	}
	return "", nil
}

// shown returns the commands below c that have pages.
func shown(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool { return !sub.IsAvailableCommand() })
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// An item is a name with its meaning.
type item struct{ name, means string }

// exitCodes are what ipcbench ends with.
var exitCodes = []item{
	{"0", "all is well"},
	{"1", "something failed, or a result contradicts itself"},
	{"2", "a mistake in what was asked"},
	{"3", "the gate found a cell that is slower by more than --fail-above"},
	{"130", "ended by Ctrl-C (128 and the number of the signal)"},
}

// variables are what ipcbench reads of the environment, besides flags.
var variables = []item{
	{"TMPDIR", "where sessions have their sockets and files, if not /tmp; a short name"},
	{"LC_ALL, LC_CTYPE, LANG", "whether text has other signs than ASCII"},
	{"NO_COLOR, TERM", "whether it has colours"},
}

// places are where ipcbench reads and writes.
var places = []item{
	{"ipcbench-TIME.json", "the result of a run without --out, in the current folder"},
	{"RESULT.profiles", "the folder for the profiles of a run, beside its result"},
	{"$TMPDIR/ipcbench-*, /dev/shm/ipcbench-*", "sockets, files and shared memory of sessions; ipcbench clean removes what killed runs left"},
}

// manual returns the page of a command, in the language of man(7). Help is laid out
// for a terminal: what is indented there stays as it is, the rest is filled. Package
// cobra/doc reads it as Markdown: examples run together, and flags look like
// --quick[=false] and --budget=0s.
func manual(c *cobra.Command, date string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	items := func(section string, all []item) {
		line(".SH %s", section)
		for _, n := range all {
			line(".TP\n\\fB%s\\fR\n%s", roff(n.name), roff(n.means))
		}
	}
	line(`.TH "%s" 1 "%s" "%s"`, roff(strings.ToUpper(pageName(c))), date, roff(strings.TrimSpace("ipcbench "+c.Root().Version)))
	line(".SH NAME\n%s \\- %s", roff(pageName(c)), roff(c.Short))
	line(".SH SYNOPSIS\n\\fB%s\\fR%s", roff(c.CommandPath()), roff(strings.TrimPrefix(c.UseLine(), c.CommandPath())))
	line(".SH DESCRIPTION")
	indented, begins := false, false // a new paragraph
	for text := range strings.Lines(cmp.Or(c.Long, c.Short+".")) {
		text = strings.TrimRight(text, "\n")
		if text == "" {
			begins = true
			continue
		}
		is := strings.HasPrefix(text, " ")
		if indented && (!is || begins) {
			line(".fi\n.RE")
		}
		if begins {
			line(".PP")
		}
		if is && (!indented || begins) {
			line(".RS 2\n.nf")
		}
		indented, begins = is, false
		line("%s", roff(strings.TrimPrefix(text, "  ")))
	}
	if indented {
		line(".fi\n.RE")
	}

	subs := shown(c)
	if len(subs) > 0 {
		var all []item
		for _, sub := range subs {
			all = append(all, item{sub.Name(), sub.Short})
		}
		items("COMMANDS", all)
	}
	line(".SH OPTIONS")
	c.InitDefaultHelpFlag()
	options := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" && f.NoOptDefVal != "" {
			kind += "[=" + f.NoOptDefVal + "]"
		}
		line(".TP\n\\fB%s\\fR%s\n%s", roff(flagName(f)), roff(strings.TrimRight(" "+kind, " ")), roff(usage))
		if f.DefValue != "false" && !unset(f.DefValue) {
			line("(default %s)", roff(strings.Trim(f.DefValue, "[]")))
		}
	}
	c.NonInheritedFlags().VisitAll(options)
	c.InheritedFlags().VisitAll(options)

	configurable := c.Flags().Lookup("config") != nil
	if configurable || !c.HasParent() {
		items("EXIT STATUS", exitCodes)
		items("ENVIRONMENT", append([]item{{envPrefix + "FLAG", "the value of a flag that is not given, of a " +
			"command with --config: IPCBENCH_ROUND_LIMIT is --round-limit. It goes before the file of --config"}}, variables...))
		items("FILES", places)
	}
	line(".SH SEE ALSO")
	var also []string
	if c.HasParent() {
		also = append(also, pageName(c.Parent()))
	}
	for _, sub := range subs {
		also = append(also, pageName(sub))
	}
	for i, page := range also {
		also[i] = fmt.Sprintf("\\fB%s\\fR(1)", roff(page))
	}
	line("%s", strings.Join(also, ",\n"))
	return b.String()
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// roff writes a text such that man(7) takes nothing in it for a command.
func roff(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case i == 0 && r == '.':
			b.WriteString(`\&.`)
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\n':
			b.WriteByte(' ')
		case r < ' ', r > '~', strings.ContainsRune("'\"`^~", r): // the last are printed as others
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
