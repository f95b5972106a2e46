package trainer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
)

// A Launcher brings worker processes into being. It is all that a session knows of
// how that happens, so that workers on other hosts need only another Launcher.
type Launcher interface {
	// Name says in results how workers were launched.
	Name() string
	// Launch starts process n of a session.
	Launch(n int) (Process, error)
}

// A Process is a worker process, or what stands in for one.
type Process interface {
	// Conn is the session's end of the control socket. Its peer ends when it closes.
	Conn() net.Conn
	// Place says where it runs.
	Place() Place
	// Exited is closed when the process has ended; Err is valid from then on.
	Exited() <-chan struct{}
	// Err returns how it ended: nil, or an error such as "signal: killed".
	Err() error
	// Stderr returns the end of what the process wrote to stderr.
	Stderr() string
	// Stop ends the process if it has not ended by itself: it closes the control
	// socket, then asks, then kills, and returns when the process is gone.
	Stop() error
}

// NewProcesses returns the launcher of real worker processes: it runs this
// executable again, and [Host.MaybeWorker] takes over there. Process n is pinned
// to the processors cpus[n], round and round; without any, none is pinned.
func NewProcesses(cpus ...[]int) Launcher { return processes{name: "processes", cpus: cpus} }

// NewCommand returns the launcher of worker processes that are another program, which
// speaks the protocol of the control socket, and so does not have to be in Go: the
// executable path with args. It finds the socket as descriptor 3, and in its environment
// which process it is (_IPCBENCH_WORKER) and the build that its hello has to name
// (_IPCBENCH_BUILD).
// name says in results how workers were launched.
func NewCommand(name, path string, args []string, cpus ...[]int) Launcher {
	return processes{name: name, path: path, args: args, cpus: cpus}
}

type processes struct {
	name     string
	path     string // of another program, with its args; empty is this one
	args     []string
	cpus     [][]int
	confined *Confinement // nil if they are not
}

func (p processes) Name() string { return p.name }

func (p processes) Launch(n int) (Process, error) {
	c := reexec.Command{
		Path: p.path, Args: p.args,
		Env: append(p.confined.env(), fmt.Sprintf("%s=%d", workerEnv, n)), Control: true, Stderr: &reexec.Excerpt{Most: 8 << 10},
	}
	if p.path == "" {
		c.Args = []string{"(worker)"} // only for ps
	} else {
		c.Env = append(c.Env, buildEnv+"="+Build())
	}
	if len(p.cpus) > 0 {
		c.CPUs = p.cpus[n%len(p.cpus)]
	}
	started, err := reexec.Start(context.Background(), c)
	if err != nil {
		return nil, startError(n, err)
	}
	return &child{started, n, c.Stderr, p.path != ""}, nil
}

// startError names process n, and says what to try if the user's limit of threads keeps
// it from starting.
func startError(n int, err error) error {
	var limit unix.Rlimit
	if errors.Is(err, unix.EAGAIN) && unix.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil {
		return fmt.Errorf("process %d: %w: the limit is %d (ulimit -u): raise it, or choose fewer workers or more lanes a process",
			n, err, limit.Cur)
	}
	return fmt.Errorf("process %d: %w", n, err)
}

// child is a worker process that this process started.
type child struct {
	*reexec.Process
	n       int
	stderr  *reexec.Excerpt
	foreign bool // another program, whose worker functions may start processes
}

func (c *child) Conn() net.Conn { return c.Control }
func (c *child) Place() Place   { return here(c.PID()) }
func (c *child) Stderr() string { return c.stderr.String() }

func (c *child) Stop() error {
	if err := c.Process.Stop(); err != nil {
		return fmt.Errorf("trainer: process %d: %w", c.n, err)
	}
	if c.foreign {
		_ = unix.Kill(-c.PID(), unix.SIGKILL) // what is left of its process group; most often nothing
	}
	return nil
}

func indent(text string) string { return "\t" + strings.ReplaceAll(text, "\n", "\n\t") }

// NewGoroutines returns the launcher whose workers are goroutines of this
// process: the control of what leaving the process costs, and what the race
// detector can see.
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

// inside stands in for a process, inside this one.
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
	if awaitClosed(context.Background(), i.exited, reexec.Grace) {
		return nil
	}
	return errors.New("trainer: a worker goroutine has not ended: a worker function does not return")
}
