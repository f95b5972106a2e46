package cli

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/pprof/driver"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"ipcbench/bench/result"
	"ipcbench/internal/profile/capture"
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
			return a.pprof(args)
		},
	}
}

// pprof runs the driver of google/pprof, which prints reports to stdout itself.
func (a *app) pprof(args []string) error {
	ui := &pprofUI{to: a.err, in: bufio.NewReader(os.Stdin)}
	flags := &pprofFlags{FlagSet: flag.NewFlagSet("pprof", flag.ContinueOnError), args: args, ui: ui, help: a.out}
	err := driver.PProf(&driver.Options{Flagset: flags, UI: ui})
	switch {
	case errors.Is(flags.err, flag.ErrHelp):
		return nil
	case flags.err != nil: // pprof would only report that there is no profile
		return flags.err
	case errors.Is(err, syscall.EPIPE):
		a.out.closed = true
		return nil
	case errors.As(err, new(*fs.PathError)): // an output file cannot be written
		return fmt.Errorf("pprof: %w", err)
	case err != nil:
		return hinted{usagef("pprof: %w", err), pprofHint}
	}
	return nil
}

const pprofHint = "ipcbench pprof --help has examples"

// pprofFlags parses pprof's command line. The parser of package pprof would exit the program
// on errors.
type pprofFlags struct {
	*flag.FlagSet
	args  []string
	bases []string
	extra string
	ui    *pprofUI
	help  io.Writer
	err   error
}

func (f *pprofFlags) StringList(name, _, usage string) *[]*string {
	var all []*string
	f.Func(name, usage, func(text string) error {
		all, f.bases = append(all, &text), append(f.bases, text)
		return nil
	})
	return &all
}

func (f *pprofFlags) AddExtraUsage(text string) { f.extra += text }
func (f *pprofFlags) ExtraUsage() string        { return f.extra }

// Parse returns the files, or nil after an error, which it stores in f.err.
func (f *pprofFlags) Parse(usage func()) []string {
	f.SetOutput(io.Discard)
	f.err = f.FlagSet.Parse(f.args)
	switch files := f.Args(); {
	case errors.Is(f.err, flag.ErrHelp):
		f.ui.to = f.help
		usage()
	case f.err != nil:
		f.err = hinted{usagef("pprof: %w", f.err), "ipcbench pprof -help lists the flags"}
	case len(files) == 0:
		f.err = hinted{usagef("pprof: no profile is given"), pprofHint}
	default:
		for _, path := range append(files, f.bases...) {
			f.err = errors.Join(f.err, isProfile(path))
		}
	}
	if f.err != nil {
		return nil
	}
	// With an empty port, pprof chooses one; with 0, it would open the page at port 0.
	if host, ok := strings.CutSuffix(f.Lookup("http").Value.String(), ":0"); ok {
		f.err = f.Set("http", host+":")
	}
	return f.Args()
}

// isProfile returns an error if path is not a source of a profile. It checks files itself,
// because pprof skips files that it cannot read.
func isProfile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil && strings.HasPrefix(path, "-"):
		return hinted{usagef("pprof: %s follows a file", path), "pprof's flags must precede files"}
	case err != nil && strings.Contains(path, ":"): // an address
		return nil
	case err != nil:
		return hinted{usagef("pprof: %w", err), pprofHint}
	case !info.Mode().IsRegular() && !info.IsDir(): // reading from a pipe would consume it
		return nil
	}
	switch head, err := result.Peek(path); {
	case err != nil:
		return usageError{err}
	case bytes.HasPrefix(head, []byte("go 1.")) && bytes.Contains(head, []byte("trace")):
		return hinted{usagef("%s: an execution trace", path), "go tool trace " + path}
	case !bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")):
		return nil
	}
	return hinted{usagef("pprof: %s is a result, not a profile", path), "its profiles are in " + result.Stem(path) + ".profiles, if the run had --profile"}
}

// pprofUI prints messages of pprof to stderr, or help to stdout, and reads its commands.
type pprofUI struct {
	to io.Writer
	in *bufio.Reader
}

func (u *pprofUI) ReadLine(prompt string) (string, error) {
	if term.IsTerminal(int(os.Stdin.Fd())) && !u.IsTerminal() {
		return "", errors.New("cannot ask for commands, because stdout is not a terminal: name a report such as -top")
	}
	fmt.Fprint(u.to, prompt)
	return u.in.ReadString('\n')
}

func (u *pprofUI) Print(args ...any) {
	fmt.Fprintln(u.to, doc.Lines(strings.TrimRight(fmt.Sprint(args...), "\n")))
}
func (u *pprofUI) PrintErr(args ...any)                { u.Print(args...) }
func (u *pprofUI) IsTerminal() bool                    { return term.IsTerminal(int(os.Stdout.Fd())) }
func (u *pprofUI) WantBrowser() bool                   { return u.IsTerminal() }
func (u *pprofUI) SetAutoComplete(func(string) string) {}

func kindNames() []string {
	return each(capture.Kinds(), func(k capture.Kind) string { return k.Name })
}

// profileFolder creates the directory for the profiles of the result at path. It is called
// before measuring, so that a failure costs nothing.
func profileFolder(path string) (string, error) {
	dir := result.Stem(path) + ".profiles"
	err := os.Mkdir(dir, 0o755)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = result.TryWrite(filepath.Join(dir, "try"))
	}
	if err != nil {
		return "", hinted{usagef("--profile: %w", err), "profiles are stored beside the result: choose another directory with --out"}
	}
	return dir, nil
}
