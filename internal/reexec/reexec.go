// Package reexec starts this executable, or another one, as a child that dies with its parent.
//
// A child that runs the same program can have a role from a table of functions: see [Main]
// and [Call]. A child that runs a user's program can have a keeper,
// which ends all processes that the program leaves. Unless [Command.Attr] is set, each child
// has its own process group, so an interrupt from the terminal reaches only its parent.
//
// The kernel kills a child when the thread that started it ends, not the process
// (golang/go#27505). So a thread is reserved for each child. Usually a child sees the end
// of its control socket earlier, and ends by itself.
package reexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/phase/usage"
)

// ControlFD is the descriptor of the control socket in a child. The descriptors of
// [Command.Files] follow it, or begin here without a control socket.
const ControlFD = 3

// Self is the path of the running executable. It works even if the file has been replaced
// or removed.
const Self = "/proc/self/exe"

// A Command describes a child to start.
type Command struct {
	Path     string   // the executable; empty means this one
	Role     string   // of this program; empty means main
	Question any      // the role's question
	Args     []string // arguments after the program's name; if there is a role, usually only for ps
	Env      []string // variables added to this process's environment
	Dir      string   // working directory; empty means the current one
	Control  bool     // give the child a control socket
	Files    []*os.File
	CPUs     []int // processors to pin the child to; empty means no pinning
	Stdin    *os.File
	Stdout   io.Writer
	Stderr   io.Writer

	// Attr has attributes such as namespaces. If it is nil, the child gets its own process
	// group.
	Attr *unix.SysProcAttr

	// Keep starts a user's executable through a keeper: a process of this program that
	// runs it and then kills all processes that it has left, in any process group or
	// session. If the keeper itself is killed, this process does that, provided that it
	// has called [Adopt]. This program's main must call [Main].
	Keep bool
}

// A Process is a running or ended child.
type Process struct {
	Control net.Conn // this end of the control socket, which the caller must close; nil without one

	cmd    *exec.Cmd
	killed string // its state when it was killed because the context was done
	exited chan struct{}
	err    error // set before exited is closed
}

// Start starts a child, which is killed when ctx is done.
func Start(ctx context.Context, c Command) (*Process, error) {
	p := &Process{exited: make(chan struct{})}
	deadly, delay := unix.SIGKILL, time.Second // descendants may keep its stderr open after its end
	if c.Keep {
		files := len(c.Files)
		if c.Control {
			files++
		}
		c.Path, c.Args, c.Role, c.Question = "", append([]string{c.Path}, c.Args...), keeper, files
		deadly, delay = unix.SIGTERM, graceKill // the keeper still has to end other processes
	}
	p.cmd = exec.CommandContext(ctx, cmp.Or(c.Path, Self), c.Args...)
	if c.Path == "" {
		p.cmd.Args[0] = os.Args[0]
	}
	p.cmd.Env, p.cmd.Dir = append(os.Environ(), c.Env...), c.Dir
	if c.Role != "" {
		marked, err := mark(c.Role, c.Question)
		if err != nil {
			return nil, err
		}
		p.cmd.Env = append(p.cmd.Env, marked)
	}
	p.cmd.Stdout, p.cmd.Stderr = c.Stdout, c.Stderr
	if c.Stdin != nil { // a nil file in an interface is not nil
		p.cmd.Stdin = c.Stdin
	}
	p.cmd.WaitDelay, p.cmd.SysProcAttr = delay, &unix.SysProcAttr{Setpgid: true}
	if c.Attr != nil {
		p.cmd.SysProcAttr = c.Attr
	}
	p.cmd.SysProcAttr.Pdeathsig = deadly
	p.cmd.Cancel = func() error {
		p.killed = usage.State(p.PID())
		err := p.cmd.Process.Signal(deadly)
		_ = p.cmd.Process.Signal(unix.SIGCONT) // the program may have stopped its keeper
		return err
	}
	if c.Control {
		pair, err := Socketpair()
		if err == nil {
			defer pair[1].Close()
			p.Control, err = connection(pair[0])
		}
		if err != nil {
			return nil, fmt.Errorf("control socket: %w", err)
		}
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, pair[1])
	}
	p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, c.Files...)
	if err := p.start(c.CPUs); err != nil {
		if p.Control != nil {
			p.Control.Close()
		}
		return nil, err
	}
	return p, nil
}

// start starts the process on a thread of its own, which waits for its end.
func (p *Process) start(cpus []int) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := usage.Restricted(cpus, p.cmd.Start)
		if err != nil && p.cmd.Process != nil { // only this thread's processors could not be restored
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			if p.status().Signaled() {
				sweepAdopted(p.PID())
			}
			close(p.exited)
		}
	}()
	return <-started
}

// Socketpair returns both ends of a Unix stream socket.
func Socketpair() (pair [2]*os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return pair, fmt.Errorf("socketpair: %w", err)
	}
	return [2]*os.File{os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")}, nil
}

// connection replaces the file of a socket by a connection.
func connection(socket *os.File) (net.Conn, error) {
	defer socket.Close()
	return net.FileConn(socket)
}

// Control returns this process's end of the control socket, if it was started with one.
func Control() (net.Conn, error) { return connection(os.NewFile(ControlFD, "control")) }

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Exited returns a channel that is closed when the process has ended. Err and Killed are
// valid only after that.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns nil if the process exited with code 0, or else an error such as "signal:
// killed".
func (p *Process) Err() error { return p.err }

// Code returns the exit code after the process has ended, as a shell does: 128 + n after
// signal n.
func (p *Process) Code() int {
	if status := p.status(); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.status().ExitStatus()
}

func (p *Process) status() (status syscall.WaitStatus) {
	if failed := (*exec.ExitError)(nil); errors.As(p.err, &failed) {
		status, _ = failed.Sys().(syscall.WaitStatus)
	}
	return status
}

// Killed returns the state in which the process was killed because the context was done,
// such as "stopped (T)". It returns "" if the process was not killed for that reason.
func (p *Process) Killed() string { return p.killed }

// The waiting times of the steps of Stop.
const (
	graceAsk  = 2 * time.Second // after closing the control socket
	graceTerm = 2 * time.Second // after SIGTERM
	graceKill = 5 * time.Second // after SIGKILL: the kernel may be busy freeing memory
)

// Grace is the time limit of the three steps of Stop.
const Grace = graceAsk + graceTerm + graceKill

// Stop ends the process unless it has ended: it closes the control socket, then sends
// SIGTERM, then SIGKILL. It returns when the process has ended, or an error if SIGKILL
// has no effect. A process in a stopped state gets SIGKILL at once.
func (p *Process) Stop() error {
	if p.Control != nil {
		_ = p.Control.Close() // may be closed already
	}
	for _, means := range []struct {
		signal unix.Signal // or 0
		grace  time.Duration
	}{{0, graceAsk}, {unix.SIGTERM, graceTerm}, {unix.SIGKILL, graceKill}} {
		if means.signal != unix.SIGKILL && usage.Stopped(p.PID()) {
			continue
		}
		if means.signal != 0 {
			_ = p.cmd.Process.Signal(means.signal)
		}
		select {
		case <-p.exited:
			return nil
		case <-time.After(means.grace):
		}
	}
	state := usage.State(p.PID())
	if state == "gone" { // this process may have been stopped, or without a processor
		select {
		case <-p.exited:
			return nil
		case <-time.After(graceAsk):
		}
	}
	return fmt.Errorf("process %d has not ended %v after SIGKILL: it is %s", p.PID(), graceKill, state)
}
