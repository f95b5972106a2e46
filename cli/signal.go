package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted by " + unix.SignalName(i.signal) }

// interruptible runs a command that must stop processes and remove files when a signal ends
// its context. If the command then fails, it has the exit code of the signal. Signals end all
// other commands immediately.
func interruptible(run func(ctx context.Context) error) error {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	err := run(ctx)
	var i interrupted
	if err != nil && errors.As(context.Cause(ctx), &i) && !errors.As(err, &i) { // another error occurred while ending
		err = fmt.Errorf("%w: %w", i, err)
	}
	return err
}

// graceTime is how long further signals are ignored: a closing terminal sends two, and people
// press Ctrl-C twice.
const graceTime = 2 * time.Second

// untilSignal returns a context that ends at the first signal. A run then stops its processes
// and removes its files within seconds. If that hangs, a later signal ends the program at
// once, and ipcbench clean removes the files. Signals that are ignored at the start, as nohup
// and background jobs of scripts set them, stay ignored. SIGQUIT first prints the stacks of
// all goroutines.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer signal.Stop(signals) // further signals end the program
		select {
		case s := <-signals:
			if s == syscall.SIGQUIT {
				fmt.Fprintln(os.Stderr, "ipcbench: SIGQUIT")
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) // stderr may be closed
			}
			cancel(interrupted{s.(syscall.Signal)})
			select {
			case <-time.After(graceTime):
			case <-done:
			}
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		<-ended
		cancel(nil)
	}
}
