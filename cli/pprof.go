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
			// pprof's own flags are in this set, and it parses these arguments. It ends the
			// program if a flag is wrong or asks for help.
			flag.CommandLine = flag.NewFlagSet("ipcbench pprof", flag.ExitOnError)
			os.Args = append(os.Args[:1:1], args...)
			err := driver.PProf(&driver.Options{UI: pprofUI{a.err, bufio.NewReader(os.Stdin)}})
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
