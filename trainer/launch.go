package trainer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
	"ipcbench/phase/usage"
)

// A Launcher starts worker processes. Sessions know nothing else about where workers run,
// so workers on other hosts need only another Launcher.
type Launcher interface {
	// Name identifies the launcher in result files, for example "processes".
	Name() string
	// Launch starts process n of a session.
	Launch(n int) (Process, error)
}

// A Process is a worker process, or goroutines that replace one.
type Process interface {
	// Conn returns the session's end of the control socket. The worker ends when it closes.
	Conn() net.Conn
	// Place returns where the process runs.
	Place() Place
	// Exited is closed when the process has ended; Err is valid from then on.
	Exited() <-chan struct{}
	// Err returns how it ended: nil, or an error such as "signal: killed".
	Err() error
	// Stderr returns the last part of the process's stderr.
	Stderr() string
	// Stop ends the process if it still runs: it closes the control socket, then asks
	// the process to end, then kills it. It returns when the process has ended.
	Stop() error
}

// NewProcesses returns a launcher that runs this executable again, in which
// [Host.MaybeWorker] must be called. Process n is pinned to the processors
// cpus[n%len(cpus)]; without cpus, processes are not pinned.
func NewProcesses(cpus ...[]int) Launcher {
	return processes{"processes", reexec.Command{Role: reexec.Worker}, cpus}
}

// NewCommand returns a launcher that runs another program, the executable path with args.
// The program must speak the protocol of the control socket, and need not be in Go. It
// finds the socket at descriptor 3. Its environment has the number of the process
// (_IPCBENCH_WORKER) and the build that its hello must name (_IPCBENCH_BUILD). name
// identifies the launcher in result files. For cpus see [NewProcesses].
func NewCommand(name, path string, args []string, cpus ...[]int) Launcher {
	return processes{name, reexec.Command{Path: path, Args: args}, cpus}
}

// NewKept is like [NewCommand], for a program that runs a user's code. When such a worker
// ends, all processes that it has started are killed. [Host.MaybeWorker] must be called.
func NewKept(name, path string, args []string, cpus ...[]int) Launcher {
	return processes{name, reexec.Command{Path: path, Args: args, Keep: true}, cpus}
}

type processes struct {
	name    string
	command reexec.Command // its question is the Confinement of the role worker, or nil
	cpus    [][]int
}

func (p processes) Name() string { return p.name }

func (p processes) Launch(n int) (Process, error) {
	stderr := &reexec.Excerpt{Most: 8 << 10}
	c := p.command
	c.Control, c.Stderr = true, stderr
	if c.Role != "" {
		c.Args = []string{"(worker)", strconv.Itoa(n)} // shown by ps
	} else {
		c.Env = []string{fmt.Sprintf("%s=%d", workerEnv, n), buildEnv + "=" + Build()}
	}
	if len(p.cpus) > 0 {
		c.CPUs = p.cpus[n%len(p.cpus)]
	}
	started, err := reexec.Start(context.Background(), c)
	if err != nil {
		return nil, startError(n, err)
	}
	return &child{started, n, stderr, c.Keep}, nil
}

// startError adds the number of the process to err and, if the user's limit of threads has
// been reached, a remedy.
func startError(n int, err error) error {
	var limit unix.Rlimit
	if errors.Is(err, unix.EAGAIN) && unix.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil {
		return fmt.Errorf("process %d: %w: the limit is %d (ulimit -u): raise it, or use fewer workers or more lanes per process",
			n, err, limit.Cur)
	}
	return fmt.Errorf("process %d: %w", n, err)
}

// child is a worker process that this process started.
type child struct {
	*reexec.Process
	n      int
	stderr *reexec.Excerpt
	kept   bool // the process is a keeper, and the worker its first child
}

func (c *child) Conn() net.Conn { return c.Control }
func (c *child) Stderr() string { return c.stderr.String() }

func (c *child) Place() Place {
	if c.kept {
		if pids, _ := usage.ChildrenOf(c.PID()); len(pids) > 0 { // else it has not started, or has ended
			return here(pids[0])
		}
	}
	return here(c.PID())
}

func (c *child) Stop() error {
	if err := c.Process.Stop(); err != nil {
		return fmt.Errorf("trainer: process %d: %w", c.n, err)
	}
	return nil
}

func indent(text string) string { return "\t" + strings.ReplaceAll(text, "\n", "\n\t") }

// NewGoroutines returns a launcher whose workers are goroutines of this process. It is
// the control for the cost of leaving the process, and lets the race detector see both ends.
func NewGoroutines(h Host) Launcher { return goroutines{h} }

type goroutines struct{ host Host }

func (g goroutines) Name() string { return "goroutines" }

func (g goroutines) Launch(n int) (Process, error) {
	ours, theirs := net.Pipe()
	i := &inside{conn: ours, exited: make(chan struct{})}
	go func() {
		i.err = g.host.serve(theirs)
		close(i.exited)
	}()
	return i, nil
}

// inside is goroutines of this process in place of a worker process.
type inside struct {
	conn   net.Conn
	exited chan struct{}
	err    error // set before exited is closed
}

func (i *inside) Conn() net.Conn          { return i.conn }
func (i *inside) Place() Place            { return here(0) }
func (i *inside) Exited() <-chan struct{} { return i.exited }
func (i *inside) Err() error              { return i.err }
func (i *inside) Stderr() string          { return "" }

func (i *inside) Stop() error {
	_ = i.conn.Close()
	if awaitClosed(i.exited, reexec.Grace) {
		return nil
	}
	return errors.New("trainer: a worker goroutine has not ended, because a worker function does not return")
}
