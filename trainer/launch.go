package trainer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/phase/usage"
)

// A Launcher brings worker processes into being. It is all that a pool knows of
// how that happens, so that workers on other hosts need only another Launcher.
type Launcher interface {
	// Name says in results how workers were launched.
	Name() string
	// Launch starts process n of a pool.
	Launch(n int) (Process, error)
	// Close waits until nothing of the launcher is left. All its processes must
	// have exited.
	Close() error
}

// A Process is a worker process, or what stands in for one.
type Process interface {
	// Conn is the pool's end of the control socket. Its peer ends when it closes.
	Conn() net.Conn
	// PID returns the process id, for display.
	PID() int
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

// How long Stop waits before it goes on to the next means.
const (
	graceClose = 2 * time.Second // after the control socket was closed
	graceTerm  = 2 * time.Second // after SIGTERM
	graceKill  = 5 * time.Second // after SIGKILL: the kernel may be busy freeing memory
)

// NewProcesses returns the launcher of real worker processes: it runs this
// executable again, and [Host.MaybeWorker] takes over there. Process n is pinned
// to the processors cpus[n], round and round; without any, none is pinned. The
// caller closes it: until then it keeps a thread.
func NewProcesses(cpus ...[]int) (Launcher, error) {
	name, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("trainer: find the executable to start workers from: %w", err)
	}
	p := &processes{path: name, cpus: cpus, start: make(chan func()), done: make(chan struct{})}
	go p.starter()
	return p, nil
}

// self is the running executable, also if the file that it was started from has
// been replaced or removed meanwhile.
const self = "/proc/self/exe"

type processes struct {
	path  string
	cpus  [][]int
	start chan func()
	done  chan struct{} // closed when starter has returned
	once  sync.Once
}

// starter starts all children from one thread that lives as long as the
// launcher: the kernel delivers a child's parent-death signal when the thread
// that forked it ends, not the process (golang/go#27505).
func (p *processes) starter() {
	runtime.LockOSThread()
	defer close(p.done)
	for f := range p.start {
		f()
	}
}

func (p *processes) Name() string { return "processes" }

func (p *processes) Close() error {
	p.once.Do(func() { close(p.start) })
	<-p.done
	return nil
}

func (p *processes) Launch(n int) (Process, error) {
	if err := checkThreads(); err != nil {
		return nil, startError(n, err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, startError(n, fmt.Errorf("control socket: %w", err))
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return nil, startError(n, fmt.Errorf("control socket: %w", err))
	}
	c := &child{n: n, conn: conn, exited: make(chan struct{})}
	c.cmd = exec.Command(self)
	c.cmd.Args = []string{p.path, "(worker)"} // only for ps
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", workerEnv, n))
	c.cmd.ExtraFiles = []*os.File{theirs} // becomes controlFD
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = time.Second
	c.cmd.SysProcAttr = &unix.SysProcAttr{
		Setpgid:   true,         // a Ctrl-C at the terminal reaches the server alone
		Pdeathsig: unix.SIGKILL, // besides the end of the control socket
	}
	started := make(chan error)
	var cpus []int
	if len(p.cpus) > 0 {
		cpus = p.cpus[n%len(p.cpus)]
	}
	p.start <- func() { started <- usage.Restricted(cpus, c.cmd.Start) }
	if err := <-started; err != nil {
		conn.Close()
		return nil, startError(n, err)
	}
	go c.wait()
	return c, nil
}

// child is a worker process that this process started.
type child struct {
	n      int
	cmd    *exec.Cmd
	conn   net.Conn
	stderr tailBuffer
	exited chan struct{}
	err    error // set before exited is closed
}

func (c *child) wait() {
	c.err = c.cmd.Wait()
	close(c.exited)
}

func indent(text string) string {
	return "\t" + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n\t")
}

func (c *child) Conn() net.Conn          { return c.conn }
func (c *child) PID() int                { return c.cmd.Process.Pid }
func (c *child) Exited() <-chan struct{} { return c.exited }
func (c *child) Err() error              { return c.err }
func (c *child) Stderr() string          { return c.stderr.String() }

func (c *child) Stop() error {
	_ = c.conn.Close() // the first means; that it was closed before is fine
	ctx := context.Background()
	for _, means := range []struct {
		signal unix.Signal // or 0
		grace  time.Duration
	}{{0, graceClose}, {unix.SIGTERM, graceTerm}} {
		if usage.Stopped(c.PID()) { // it would see none of them
			break
		}
		if means.signal != 0 {
			_ = c.cmd.Process.Signal(means.signal) // to a process that has just ended it is no error
		}
		if awaitClosed(ctx, c.exited, means.grace) {
			return nil
		}
	}
	_ = c.cmd.Process.Kill()
	if awaitClosed(ctx, c.exited, graceKill) {
		return nil
	}
	return fmt.Errorf("trainer: worker %d (process %d) has not ended %v after SIGKILL: it is %s", c.n, c.PID(), graceKill, usage.State(c.PID()))
}

// tailBuffer keeps the last bytes written to it.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 8 << 10

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if over := len(t.b) - tailSize; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(b), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// NewGoroutines returns the launcher whose workers are goroutines of this
// process: the control of what leaving the process costs, and what the race
// detector can see.
func NewGoroutines(h Host) Launcher { return goroutines{h} }

type goroutines struct{ host Host }

func (g goroutines) Name() string { return "goroutines" }
func (g goroutines) Close() error { return nil }

func (g goroutines) Launch(n int) (Process, error) {
	ours, theirs := net.Pipe()
	i := &inside{conn: ours, exited: make(chan struct{})}
	go func() {
		i.err = g.host.serve(theirs)
		close(i.exited)
	}()
	return i, nil
}

// inside is a worker inside this process.
type inside struct {
	conn   net.Conn
	exited chan struct{}
	err    error // set before exited is closed
}

func (i *inside) Conn() net.Conn          { return i.conn }
func (i *inside) PID() int                { return os.Getpid() }
func (i *inside) Exited() <-chan struct{} { return i.exited }
func (i *inside) Err() error              { return i.err }
func (i *inside) Stderr() string          { return "" }

func (i *inside) Stop() error {
	_ = i.conn.Close()
	if awaitClosed(context.Background(), i.exited, graceClose+graceTerm+graceKill) {
		return nil
	}
	return errors.New("trainer: a worker goroutine has not ended: a worker function does not return")
}
