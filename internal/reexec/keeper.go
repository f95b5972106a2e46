package reexec

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/phase/usage"
)

// keeperEnv marks a process that is a keeper: see [Command.Keep].
const keeperEnv = "_IPCBENCH_KEEPER"

// MaybeKeeper runs a keeper and ends the process, if it was started as one. It is
// called first thing in main.
func MaybeKeeper() {
	if os.Getenv(keeperEnv) == "" {
		return
	}
	os.Unsetenv(keeperEnv) // the program may be this one
	code, err := keep(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// keep runs a program, and then ends all that it has started and left. It ends the
// program when it is told to (SIGTERM), which it also is when its starter dies.
func keep(command []string) (code int, err error) {
	runtime.LockOSThread() // with which the kernel would end the program
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGTERM)
	// Whoever loses its parent becomes a child of this process, in whatever group or
	// session it is.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, fmt.Errorf("become a reaper: %w", err)
	}
	p, err := os.StartProcess(command[0], command, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return 127, err
	}
	var killed atomic.Bool
	go func() {
		<-told
		killed.Store(true)
		_ = p.Kill() // that it has ended is fine
	}()
	state, err := p.Wait()
	if err = errors.Join(err, sweep()); err != nil {
		return 1, err
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		if !killed.Load() { // whoever has told it to knows
			err = errors.New(state.String())
		}
		return 128 + int(status.Signal()), err
	}
	return state.ExitCode(), nil
}

// graceLeft is how long what a program has left may take to end by itself, such as what
// removes its shared memory.
const graceLeft = 200 * time.Millisecond

// sweep waits for this process's children, and theirs as they become its own, and then
// kills them, until there are none. Nobody else waits for them, so that no number is
// another process's.
func sweep() error {
	for began := time.Now(); time.Since(began) < graceLeft; time.Sleep(graceLeft / 40) {
		if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); errors.Is(err, unix.ECHILD) {
			return nil
		}
	}
	for {
		pids, err := usage.ChildrenOf(os.Getpid())
		if err != nil {
			return err
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
		switch _, err := unix.Wait4(-1, nil, 0, nil); {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		}
	}
}
