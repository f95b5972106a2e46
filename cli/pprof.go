package cli

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/google/pprof/driver"
	"github.com/spf13/cobra"

	"ipcbench/report/doc"
)

func (a *app) pprofCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "pprof FLAG... FILE...",
		DisableFlagParsing:    true, // pprof has long flags with a single dash
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     files("gz"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
				return cmd.Help()
			}
			flags := &pprofFlags{FlagSet: flag.NewFlagSet("ipcbench pprof", flag.ExitOnError), args: args}
			ui := pprofUI{to: a.err, in: bufio.NewReader(os.Stdin)}
			err := driver.PProf(&driver.Options{Flagset: flags, UI: ui})
			switch {
			case errors.Is(err, syscall.EPIPE): // pprof prints to stdout itself
				a.out.closed = true
				return nil
			case err != nil:
				return usagef("pprof: %w", err) // all errors of pprof have this exit code
			}
			return nil
		},
	}
}

// pprofFlags has pprof's flags, as pprof's own set has them, but parses the arguments after
// ipcbench pprof.
type pprofFlags struct {
	*flag.FlagSet
	args  []string
	extra string
}

func (f *pprofFlags) StringList(name, standard, usage string) *[]*string {
	return &[]*string{f.String(name, standard, usage)}
}

func (f *pprofFlags) AddExtraUsage(text string) { f.extra += text }
func (f *pprofFlags) ExtraUsage() string        { return f.extra }

// Parse returns the files. It ends the program if a flag is wrong or asks for help.
func (f *pprofFlags) Parse(usage func()) []string {
	f.Usage = usage
	_ = f.FlagSet.Parse(f.args) // ExitOnError
	return f.Args()
}

// pprofUI is like pprof's own, but makes names of files printable in messages.
type pprofUI struct {
	to io.Writer
	in *bufio.Reader
}

func (u pprofUI) ReadLine(prompt string) (string, error) {
	fmt.Fprint(u.to, prompt)
	return u.in.ReadString('\n')
}

func (u pprofUI) Print(args ...any) {
	fmt.Fprintln(u.to, doc.Lines(strings.TrimRight(fmt.Sprint(args...), "\n")))
}

func (u pprofUI) PrintErr(args ...any)              { u.Print(args...) }
func (pprofUI) IsTerminal() bool                    { return false }
func (pprofUI) WantBrowser() bool                   { return true }
func (pprofUI) SetAutoComplete(func(string) string) {}
