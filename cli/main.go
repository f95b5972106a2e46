// Package cli is the command line of ipcbench: flags and words, nothing else.
// Package bench measures, package report presents.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/bench"
	"ipcbench/bench/floors"
	"ipcbench/internal/agent"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/internal/near"
	"ipcbench/internal/reexec"
	"ipcbench/python"
	"ipcbench/report/doc"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
	"ipcbench/transports/inproc"
)

// Main runs the program with the given transports, and the control, inproc, if it is
// not among them, and ends the process. A program with transports of its own calls it
// first thing in main: server and workers are processes of the same program.
func Main(all ...driver.Transport) {
	control := inproc.New()
	if !slices.ContainsFunc(all, func(t driver.Transport) bool { return t.Name() == control.Name() }) {
		all = append([]driver.Transport{control}, all...)
	}
	link.MaybeInside()
	app := newApp(os.Stdout, os.Stderr, all)
	reexec.MaybeKeeper()   // a keeper never gets past this,
	floors.MaybePeer()     // a process of a floor's measurement never gets past this,
	app.host.MaybeWorker() // nor a worker past this
	os.Exit(app.main(os.Args[1:]))
}

// app is what the subcommands share.
type app struct {
	out  *sink     // results
	err  io.Writer // everything else
	host trainer.Host
	rows []*bench.Peer // the reference rows
	rank *rank         // of a world, in which this process is one
}

func newApp(out, err io.Writer, all []driver.Transport) *app {
	return &app{out: &sink{Writer: out}, err: err, host: trainer.Host{Transports: all, Funcs: bench.Funcs()}, rows: each(python.Rows(), bench.NewRow)}
}

// Exit codes, besides 0, and 128 + n for signal n.
const (
	exitFailed = 1
	exitUsage  = 2
	exitGate   = 3 // a regression was found
	exitPipe   = 128 + int(syscall.SIGPIPE)
)

// usageError is a mistake in what the user asked for.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// hinted adds what to try next to an error.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// codeError ends the program with a code of its own.
type codeError struct {
	error
	code int
}

// main runs the command line and returns the exit code. What goes to stderr has
// the program's name in front, and a hint below if there is one.
func (a *app) main(args []string) int {
	// A reader that closes its end of stdout or stderr ends nothing: what cannot
	// be written is an error of its own.
	signal.Ignore(syscall.SIGPIPE)
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.Execute()
	if err == nil {
		err = a.out.err
	}
	if err != nil && err.Error() != "" { // a rank of a world leaves words to rank 0
		fmt.Fprintf(a.err, "ipcbench: %s\n", doc.Lines(agent.Redacted(err.Error())))
		if hint := hintFor(err); hint != "" {
			fmt.Fprintf(a.err, "hint: %s\n", doc.Lines(hint))
		}
	}
	return a.code(err)
}

// code returns the exit code of a command that ends with err.
func (a *app) code(err error) int {
	var code codeError
	var signal interrupted
	switch {
	case err == nil && a.out.closed:
		return exitPipe
	case err == nil:
		return 0
	case errors.As(err, &signal):
		return 128 + int(signal.signal)
	case errors.As(err, &code):
		return code.code
	case errors.As(err, new(usageError)):
		return exitUsage
	}
	return exitFailed
}

// hintFor returns what to try next, or nothing.
func hintFor(err error) string {
	var h hinted
	var files syscall.Rlimit
	switch {
	case errors.As(err, &h):
		return h.hint
	case strings.Contains(err.Error(), syscall.EMFILE.Error()) && syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil: // a worker's too
		return fmt.Sprintf("a process may have %d open files here: ulimit -n raises that, or use fewer --workers", files.Cur)
	}
	return ""
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "ipcbench",
		Short:         "Measure how a training server and its workers exchange tensors",
		Long:          help("ipcbench"),
		Version:       machine.Read().Commit,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          refuse("unknown command %q", "ipcbench --help lists the commands"),
		RunE:          func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		name, names := "", []string(nil)
		if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
			name = unknown.GetSpecifiedName()
			cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		}
		return hinted{usageError{err}, meant("--", name, names, cmd.CommandPath()+" --help lists the flags")}
	})
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.AddCommand(a.runCommand(), a.listCommand(), a.reportCommand(), a.schemaCommand(), a.compareCommand(), a.pprofCommand(), a.doctorCommand(), a.cleanCommand(), a.agentCommand(), a.blockCommand(), a.worldCommand())
	return root
}

// meant is the hint for a name that is none of names: the one that it nearly is, behind
// what stands before names, or otherwise.
func meant(before, name string, names []string, otherwise string) string {
	if n := near.Name(name, names); n != "" {
		return "did you mean " + before + n + "?"
	}
	return otherwise
}

// refuse refuses arguments: what says of the first one what is wrong.
func refuse(what, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return hinted{usagef(what, args[0]), hint}
		}
		return nil
	}
}

// noArgs refuses arguments, which are most often flags without their dashes.
func noArgs(cmd *cobra.Command, args []string) error {
	return refuse(cmd.CommandPath()+" takes no argument %q", cmd.CommandPath()+" --help lists the flags")(cmd, args)
}
