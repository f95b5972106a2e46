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

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted by " + unix.SignalName(i.signal) }

// interruptible runs a command that has processes to stop and files to remove
// when a signal ends its context; if that makes it fail, it ends with the
// signal's exit code. All other commands are ended by signals as usual.
func interruptible(run func(ctx context.Context) error) error {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	err := run(ctx)
	var i interrupted
	if err != nil && errors.As(context.Cause(ctx), &i) && !errors.As(err, &i) { // something else broke on the way out
		err = fmt.Errorf("%w: %w", i, err)
	}
	return err
}

// hasty is for how long further signals change nothing: a closing terminal sends
// two, and people press Ctrl-C twice.
const hasty = 2 * time.Second

// untilSignal returns a context that ends at the first signal, which is enough: a
// run stops its processes and removes its files within seconds. If that should
// hang, a signal ends the program at once, and ipcbench clean removes the files.
// What nohup, or a script for its background jobs, has set to be ignored stays
// ignored. SIGQUIT first shows where all goroutines are.
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
		defer signal.Stop(signals) // from now on they end the program
		select {
		case s := <-signals:
			if s == syscall.SIGQUIT {
				fmt.Fprintln(os.Stderr, "ipcbench: SIGQUIT")
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) // stderr may be closed
			}
			cancel(interrupted{s.(syscall.Signal)})
			select {
			case <-time.After(hasty):
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
