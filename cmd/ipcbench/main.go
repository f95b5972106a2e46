// Command ipcbench measures how a federated-learning or reinforcement-learning
// server and its client-trainer processes exchange model tensors.
//
// This package holds flags and words, nothing else: package bench measures,
// package report presents.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/bench/floors"
	"ipcbench/bench/machine"
	"ipcbench/trainer"
	"ipcbench/transports/all"
)

func main() {
	app := newApp(os.Stdout, os.Stderr)
	floors.MaybePeer()                    // a process of a floor's measurement never gets past this,
	bench.Workers(app.host).MaybeWorker() // nor a worker past this
	os.Exit(app.main(os.Args[1:]))
}

// app is what the subcommands share.
type app struct {
	out, err io.Writer // results, and everything else
	host     trainer.Host
}

func newApp(out, err io.Writer) *app {
	return &app{out: out, err: err, host: trainer.Host{Transports: all.Transports(), Funcs: bench.Funcs()}}
}

// Exit codes, besides 0, and 128 + n for signal n.
const (
	exitFailed = 1
	exitUsage  = 2
	exitGate   = 3 // a regression was found
)

// usageError is a mistake in what the user asked for.
type usageError struct{ error }

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

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted by " + i.signal.String() }

// main runs the command line and returns the exit code. What goes to stderr has
// the program's name in front, and a hint below if there is one.
func (a *app) main(args []string) int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(a.err, "ipcbench: %v\n", err)
	var h hinted
	if errors.As(err, &h) {
		fmt.Fprintf(a.err, "hint: %s\n", h.hint)
	}
	var code codeError
	var usage usageError
	var sig interrupted
	switch {
	case errors.As(err, &sig):
		return 128 + int(sig.signal)
	case errors.As(err, &code):
		return code.code
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// untilSignal returns a context that ends at the first SIGINT, SIGTERM or
// SIGHUP. Further ones change nothing: a run that was interrupted stops its
// processes and removes its files within seconds, and one that is killed could
// not. A reader that closes its end of stdout or stderr ends nothing: what
// cannot be written is an error of its own.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case s := <-signals:
				cancel(interrupted{s.(syscall.Signal)}) // the first one counts
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { close(done) }
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ipcbench",
		Short: "Measure how a training server and its workers exchange model tensors",
		Long: strings.TrimSpace(`
ipcbench measures how a federated-learning or reinforcement-learning server and
its client-trainer processes exchange model tensors: gob, files, shared memory,
gRPC and HTTP, with real processes and real model shapes, every byte proved.

  ipcbench run                                  a first answer, in under a minute
  ipcbench run --transport pickle,shm-slab --model resnet18 --clients 4
  ipcbench list transports                      what can be compared, and how
  ipcbench report --format md FILE              a result again, as Markdown`),
		Version:       machine.Read().Commit,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return hinted{usagef("unknown command %q", args[0]), "ipcbench --help lists the commands"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hinted{usageError{err}, cmd.CommandPath() + " --help lists the flags"}
	})
	root.AddCommand(a.runCommand(), a.listCommand(), a.reportCommand(), a.compareCommand(), a.profileCommand(), a.cleanCommand(), a.blockCommand())
	return root
}

// noArgs refuses arguments, which are most often flags without their dashes.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return hinted{usagef("%s takes no argument %q", cmd.CommandPath(), args[0]), cmd.CommandPath() + " --help lists the flags"}
	}
	return nil
}
