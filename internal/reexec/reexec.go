// Package reexec starts this executable again, or another one, as a child that does
// not outlive its starter.
//
// A child that runs the same program finds out by an environment variable or an
// argument what it is: in main, or in its TestMain. One that runs anybody's can have a
// keeper, which ends with it whatever it has started. A child has a process group of its
// own, so that an interrupt from the terminal reaches its starter alone, and dies
// with it: the kernel sends SIGKILL to the child when the thread that started it
// ends, not the process (golang/go#27505). So each child has a thread, which starts
// it and waits for it. Usually a child sees the end of its control socket before
// that, and ends by itself.
package reexec

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/phase/usage"
)

// ControlFD is the descriptor of a child's control socket. Those of
// [Command.Files] follow.
const ControlFD = 3

// Self is the running executable, also if the file that it was started from was
// replaced or removed.
const Self = "/proc/self/exe"

// A Command says what to start.
type Command struct {
	Path    string   // the executable; empty is this one
	Args    []string // after the program's name
	Env     []string // besides what this process has
	Dir     string   // where it starts; empty is where this process is
	Control bool     // whether there is a control socket
	Files   []*os.File
	CPUs    []int // that the child is pinned to; none: it is not
	Stdin   *os.File
	Stdout  io.Writer
	Stderr  *Excerpt // takes what the child writes to stderr; may be nil

	// Keep has a keeper start the executable, which is anybody's: a process of this
	// program that ends when the executable does, and before that kills all that it has
	// started, in whatever process group or session. This program's main calls
	// [MaybeKeeper].
	Keep bool
}

// A Process is a child.
type Process struct {
	Control net.Conn // this end of the control socket, for the caller to close; nil if there is none

	cmd    *exec.Cmd
	killed string // what it did when it was killed because the context had ended
	exited chan struct{}
	err    error // set before exited is closed
}

// Start starts a child. It is killed when ctx ends.
func Start(ctx context.Context, c Command) (*Process, error) {
	p := &Process{exited: make(chan struct{})}
	deadly, delay := unix.SIGKILL, time.Second // for what holds its stderr longer than it lives
	if c.Keep {
		c.Path, c.Args = "", append([]string{c.Path}, c.Args...)
		c.Env = append(slices.Clip(c.Env), keeperEnv+"=1")
		deadly, delay = unix.SIGTERM, graceKill // it has something to do yet
	}
	p.cmd = exec.CommandContext(ctx, Self, c.Args...)
	p.cmd.Args[0] = os.Args[0]
	if c.Path != "" {
		p.cmd = exec.CommandContext(ctx, c.Path, c.Args...)
	}
	p.cmd.Env, p.cmd.Dir = append(os.Environ(), c.Env...), c.Dir
	p.cmd.Stdout = c.Stdout
	if c.Stdin != nil { // a nil file in an interface is not nil
		p.cmd.Stdin = c.Stdin
	}
	if c.Stderr != nil {
		p.cmd.Stderr = c.Stderr
	}
	p.cmd.WaitDelay = delay
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: deadly}
	p.cmd.Cancel = func() error {
		p.killed = usage.State(p.PID())
		err := p.cmd.Process.Signal(deadly)
		_ = p.cmd.Process.Signal(unix.SIGCONT) // a keeper that its program has stopped could not act on it
		return err
	}
	if c.Control {
		theirs, err := p.control()
		if err != nil {
			return nil, err
		}
		defer theirs.Close()
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, theirs)
	}
	p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, c.Files...)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := usage.Restricted(c.CPUs, p.cmd.Start)
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		if p.Control != nil {
			p.Control.Close()
		}
		return nil, err
	}
	return p, nil
}

// control makes the control socket and returns the child's end.
func (p *Process) control() (theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer ours.Close()
	if p.Control, err = net.FileConn(ours); err != nil {
		theirs.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return theirs, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended; Err and Killed are valid from then
// on.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns how it ended: nil, or an error such as "signal: killed".
func (p *Process) Err() error { return p.err }

// Killed returns what the process did when it was killed because the context had
// ended, such as "stopped (T)", and nothing if it was not.
func (p *Process) Killed() string { return p.killed }

// How long Stop waits before it goes on to the next means.
const (
	graceAsk  = 2 * time.Second // after it was asked
	graceTerm = 2 * time.Second // after SIGTERM
	graceKill = 5 * time.Second // after SIGKILL: the kernel may be busy freeing memory
)

// Grace is how long Stop takes at most.
const Grace = graceAsk + graceTerm + graceKill

// Stop ends the process if it has not ended by itself: it closes the control
// socket, then asks, then kills, and returns when the process is gone. A stopped
// process would see none of the first two.
func (p *Process) Stop() error {
	if p.Control != nil {
		_ = p.Control.Close() // that it was closed before is fine
	}
	for _, means := range []struct {
		signal unix.Signal // or 0
		grace  time.Duration
	}{{0, graceAsk}, {unix.SIGTERM, graceTerm}, {unix.SIGKILL, graceKill}} {
		if means.signal != unix.SIGKILL && usage.Stopped(p.PID()) {
			continue
		}
		if means.signal != 0 {
			_ = p.cmd.Process.Signal(means.signal) // to a process that has just ended it is no error
		}
		select {
		case <-p.exited:
			return nil
		case <-time.After(means.grace):
		}
	}
	state := usage.State(p.PID())
	if state == "gone" { // this process may have been stopped meanwhile, or short of a processor
		select {
		case <-p.exited:
			return nil
		case <-time.After(graceAsk):
		}
	}
	return fmt.Errorf("process %d has not ended %v after SIGKILL: it is %s", p.PID(), graceKill, state)
}
