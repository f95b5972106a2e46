package reexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/phase/usage"
)

// keep is the role of a keeper (see [Command.Keep]), which ends with the exit code of its
// program. The question is the number of descriptors, from ControlFD on, that the program
// gets.
func keep(question []byte) (any, error) {
	files, _ := strconv.Atoi(string(question)) // written by Start
	code, err := keepUntilEnd(os.Args[1], os.Args[2:], files)
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
func keepUntilEnd(path string, args []string, files int) (code int, err error) {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	// A descendant whose parent ends becomes a child of this process, regardless of its
	// process group or session.
	if err := Adopt(); err != nil {
		return 1, fmt.Errorf("become a reaper: %w", err)
	}
	c := Command{
		Path: path, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: []string{keptBy(os.Getpid())},
	}
	for i := range files {
		c.Files = append(c.Files, os.NewFile(uintptr(ControlFD+i), "passed"))
	}
	p, err := Start(context.Background(), c)
	for _, f := range c.Files {
		f.Close() // so that the other end of a socket sees the end of the program
	}
	if err != nil {
		return 127, err
	}
	var killed atomic.Bool
	go func() {
		<-terminated
		killed.Store(true)
		_ = p.Signal(unix.SIGKILL)
	}()
	<-p.Exited()
	if err := sweep(); err != nil {
		return 1, err
	}
	if p.status().Signaled() && !killed.Load() { // else the sender of SIGTERM knows the reason
		err = p.Err()
	}
	return p.Code(), err
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

// keptBy returns the environment variable of all processes that descend from a keeper.
func keptBy(keeper int) string { return fmt.Sprintf("_IPCBENCH_KEEPER=%d", keeper) }

// Adopt makes this process the parent of descendants whose parents end, so that it can end those
// that a killed keeper leaves. Besides keepers, only package cli calls it, because other programs
// may have reasons to leave orphans to init.
func Adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// sweepAdopted kills and reaps the processes that a killed keeper has left to this process. It waits
// only for these, since the exit codes of this process's other children belong to their starters.
//
// A process that is ending has no environment any more, but may still have children, which this
// process gets. So it ends when all children are known, and no other one is ending.
func sweepAdopted(keeper int) {
	mark := []byte(keptBy(keeper) + "\x00")
	ended := map[int]bool{}
	for unknown := true; unknown; time.Sleep(graceLeft / 40) {
		unknown = false
		pids, _ := usage.ChildrenOf(os.Getpid())
		for _, pid := range pids {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			switch {
			case bytes.Contains(environ, mark) && unix.Kill(pid, unix.SIGKILL) == nil:
				_, _ = unix.Wait4(pid, nil, 0, nil)
				unknown = true
			case errors.Is(err, fs.ErrNotExist) && !ended[pid]: // it is ending or has ended
				ended[pid] = usage.State(pid) == "dead (Z)"
				unknown = true
			}
		}
	}
}
