// Package cli implements the command line of ipcbench: commands, flags, help and errors.
//
// [Main] gets the transports from the program, and the arguments from the user. Results go to stdout
// or to files, messages go to stderr, and the exit code states how the command ended. No package
// below this one prints.
// Package bench measures, and package report formats results.
package cli

import (
	"cmp"
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

	"ipcbench/bench/floors"
	"ipcbench/bench/program"
	"ipcbench/bench/session"
	"ipcbench/internal/agent"
	"ipcbench/internal/doctor"
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

// Main runs the ipcbench command with the given transports, adds the control, inproc, if it is
// missing, and exits the process. A program with its own transports must call it first in
// main, because server and workers are processes of the same program.
func Main(all ...driver.Transport) {
	control := inproc.New()
	if !slices.ContainsFunc(all, func(t driver.Transport) bool { return t.Name() == control.Name() }) {
		all = append([]driver.Transport{control}, all...)
	}
	app := newApp(os.Stdout, messages{os.Stderr}, all)
	reexec.Main(app.roles())
	_ = reexec.Adopt() // fails on no kernel that Go supports
	os.Exit(app.main(os.Args[1:]))
}

// app is the state that the commands share.
type app struct {
	out  *sink     // results
	err  io.Writer // everything else
	host trainer.Host
	rows []*program.Program // the reference rows
	rank *rank              // of this process in a world; nil outside
}

func newApp(out, err io.Writer, all []driver.Transport) *app {
	return &app{out: &sink{Writer: out}, err: err, host: trainer.Host{Transports: all, Funcs: session.Funcs()}, rows: doc.Each(python.Rows(), program.NewRow)}
}

// roles returns the functions of this program that run in processes of their own.
func (a *app) roles() reexec.Roles {
	return reexec.Roles{
		reexec.Worker: a.host.Work,
		reexec.Floor:  floors.Work,
		reexec.Links:  link.SetUp,
		reexec.Mirror: link.Hold,
	}
}

// Exit codes other than 0, and 128 + n for signal n. A signal wins, then the smallest code. The
// table in README.md has their meanings, and so have help and scripts/pr-report.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitGate     = 3 // a regression was found
	exitUnjudged = 4
	exitPipe     = 128 + int(syscall.SIGPIPE)
)

// usageError is a mistake of the user, with exit code 2.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// hinted adds a hint to an error: what the user can try.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// codeError is an error with its own exit code.
type codeError struct {
	error
	code int
}

// main runs the command line and returns the exit code. It prints the error, prefixed with the
// program name, and its hint to stderr.
func (a *app) main(args []string) int {
	// Without SIGPIPE, writing to a closed stdout or stderr returns an error instead.
	signal.Ignore(syscall.SIGPIPE)
	var err error
	if slices.Contains(args, "run") { // before it starts threads
		err = doctor.Bearable(machine.ReadLimits())
	}
	if err == nil {
		root := a.rootCommand()
		root.SetArgs(args)
		root.SetOut(a.out)
		root.SetErr(a.err)
		err = root.Execute()
	}
	if err == nil {
		err = a.out.err
	}
	if err != nil && err.Error() != "" { // only rank 0 of a world prints errors
		fmt.Fprintf(a.err, "ipcbench: %s\n", doc.Lines(agent.Redacted(err.Error())))
		if hint := hintFor(err); hint != "" {
			fmt.Fprintf(a.err, "hint: %s\n", doc.Lines(hint))
		}
	}
	return a.code(err)
}

// code returns the exit code for err, the error of a command.
func (a *app) code(err error) int {
	var signal interrupted
	switch {
	case err == nil && a.out.closed:
		return exitPipe
	case err == nil:
		return 0
	case errors.As(err, &signal):
		return 128 + int(signal.signal)
	}
	return codeOf(err)
}

// codeOf returns the smallest exit code of the errors that err joins.
func codeOf(err error) int {
	switch e := err.(type) {
	case codeError:
		return e.code
	case usageError:
		return exitUsage
	case interface{ Unwrap() error }:
		if of := e.Unwrap(); of != nil {
			return codeOf(of)
		}
	case interface{ Unwrap() []error }:
		code := exitUnjudged
		for _, of := range e.Unwrap() {
			code = min(code, codeOf(of))
		}
		return code
	}
	return exitFailed
}

// hintFor returns a hint for err, or an empty string.
func hintFor(err error) string {
	var h hinted
	var files syscall.Rlimit
	switch {
	case strings.Contains(err.Error(), syscall.EMFILE.Error()) && syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil: // also in the error of a worker
		return fmt.Sprintf("each process may have %d open files: raise that with ulimit -n, or use fewer --workers", files.Cur)
	case errors.As(err, &h):
		return h.hint
	case errors.As(err, new(usageError)):
		return topicOf(err.Error())
	case strings.Contains(err.Error(), "signal: "+syscall.SIGKILL.String()): // of a process that was started
		if group := machine.Read().Cgroup; group != nil && group.Memory != nil {
			return fmt.Sprintf("the kernel may have killed it for lack of memory, because the control group is limited to %s: raise the limit, or choose a smaller model or fewer --workers", machine.Size(*group.Memory))
		}
	}
	return ""
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "ipcbench",
		Version:       versions(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			names := doc.Each(cmd.Commands(), (*cobra.Command).Name)
			hint := "ipcbench --help lists the commands"
			if len(args) > 0 {
				hint = cmp.Or(near.Meant("ipcbench ", args[0], names), hint)
			}
			return refuse("unknown command %q", hint)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), `invalid argument "all" for "-h, --help" flag`) { // --help=all
			cmd.Long = ""
			cmd.SetUsageTemplate("") // restores the parent's, which has all flags
			return pflag.ErrHelp
		}
		hint := cmp.Or(topicOf(err.Error()), cmd.CommandPath()+" --help lists the flags")
		if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
			err = fmt.Errorf("--%s: %w", wrong.GetFlag().Name, refused(wrong))
		}
		if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
			hint = a.meant(unknown.GetSpecifiedName(), cmd, hint)
		}
		return hinted{usageError{err}, hint}
	})
	root.SetUsageTemplate(strings.NewReplacer(
		".FlagUsages", ".FlagUsagesWrapped 80",
		"Additional help topics:", "Topics, for ipcbench help TOPIC:", ".CommandPath .CommandPathPadding", ".Name .NamePadding",
	).Replace(root.UsageTemplate()))
	run := a.runCommand()
	root.AddCommand(run, a.listCommand(), a.reportCommand(), a.schemaCommand(), a.compareCommand(), a.pprofCommand(), a.doctorCommand(), a.cleanCommand(), a.agentCommand(), a.worldCommand(), a.versionCommand())
	for _, topic := range topics {
		root.AddCommand(&cobra.Command{Use: topic})
	}
	root.SetHelpCommand(&cobra.Command{Use: "help [COMMAND | TOPIC]", Short: "Help about a command or a topic", RunE: func(cmd *cobra.Command, args []string) error {
		of, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			shown := slices.DeleteFunc(root.Commands(), func(c *cobra.Command) bool { return c.Hidden })
			return usageError{near.Unknown("help topic", strings.Join(args, " "), doc.Each(shown, (*cobra.Command).Name))}
		}
		return of.Help()
	}})
	for _, cmd := range append(root.Commands(), root) {
		explain(cmd, run)
	}
	root.AddCommand(a.blockCommand())
	return root
}

// meant returns a hint for an unknown flag of cmd: how to set the setting of a transport with
// that name, or the nearest flags, or otherwise.
func (a *app) meant(flag string, cmd *cobra.Command, otherwise string) string {
	for _, t := range a.host.Transports {
		for _, s := range t.Settings() {
			if s.Name == flag {
				return fmt.Sprintf("%s is a setting of transports: --transport %s:%s=%s", flag, t.Name(), flag, s.Domain())
			}
		}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	hint := cmp.Or(near.Meant("--", flag, names), otherwise)
	return strings.TrimSpace(hint + " " + topicOf(hint))
}

// refuse rejects all arguments. The format what describes the first one.
func refuse(what, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return hinted{usagef(what, args[0]), hint}
		}
		return nil
	}
}

// noArgs rejects arguments, which are usually flags without dashes.
func noArgs(cmd *cobra.Command, args []string) error {
	return refuse(cmd.CommandPath()+" accepts no argument %q", cmd.CommandPath()+" --help lists the flags")(cmd, args)
}
