package reexec

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/phase/usage"
)

// keep is the role of a keeper (see [Command.Keep]), which ends with the exit code of its
// program. The question is the number of descriptors, from ControlFD on, that the program
// gets.
func keep(question []byte) (any, error) {
	files, _ := strconv.Atoi(string(question)) // written by Start
	code, err := keepUntilEnd(os.Args[1:], files)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
	return nil, nil
}

// keepUntilEnd runs a program with a number of this process's descriptors, and then ends all
// processes that the program has left. On SIGTERM, which the kernel also sends if this
// process's starter dies, and on other signals that would end this process, it kills the
// program.
func keepUntilEnd(command []string, files int) (code int, err error) {
	runtime.LockOSThread() // Pdeathsig would kill the program if this thread ended
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	// A descendant whose parent ends becomes a child of this process, regardless of its
	// process group or session.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, fmt.Errorf("become a reaper: %w", err)
	}
	passed := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	for i := range files {
		passed = append(passed, os.NewFile(uintptr(ControlFD+i), "passed"))
	}
	p, err := os.StartProcess(command[0], command, &os.ProcAttr{Files: passed, Sys: &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}})
	for _, f := range passed[3:] {
		f.Close() // so that the other end of a socket sees the end of the program
	}
	if err != nil {
		return 127, err
	}
	var killed atomic.Bool
	go func() {
		<-terminated
		killed.Store(true)
		_ = p.Kill()
	}()
	state, err := p.Wait()
	if err = errors.Join(err, sweep()); err != nil {
		return 1, err
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		if !killed.Load() { // else the sender of SIGTERM knows the reason
			err = errors.New(state.String())
		}
		return 128 + int(status.Signal()), err
	}
	return state.ExitCode(), nil
}

// graceLeft is the time for a program's remaining processes to end by themselves, such as
// a process that removes its shared memory.
const graceLeft = 200 * time.Millisecond

// sweep waits for all descendants, which become this process's children as their parents
// end, and after graceLeft kills them. Only this process reaps them, so their ids cannot
// have been reused.
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
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		for options, reaped := 0, 1; reaped > 0; options = unix.WNOHANG { // one, then all others that have ended
			switch reaped, err = unix.Wait4(-1, nil, options, nil); {
			case errors.Is(err, unix.ECHILD):
				return nil
			case err != nil && !errors.Is(err, unix.EINTR):
				return err
			}
		}
	}
}
