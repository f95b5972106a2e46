package floors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
)

// A part is the function that one process of a measurement runs. The first part returns
// the series of the measurement, the second returns none.
type part func(*peer) ([]Series, error)

// A peer is the argument of a part: the parameters and the connection to the other process.
type peer struct {
	Params
	link      // to the other process, if there is one
	far  bool // the other process is on another host
}

// An order names the part to run.
type order struct {
	Floor  string
	Part   int
	Params Params
	Far    bool // the other part runs on another host
}

const (
	// File descriptors.
	linkFD = reexec.ControlFD
	pageFD = reexec.ControlFD + 1

	pageSize = 4096
)

// patience is the time limit of a measurement, which normally takes a few tenths of a second.
// Tests lower it.
var patience = time.Minute

const (
	slowTimes = 20 // multiple of Params.Takes added to the limit on a link with a rate
	farTimes  = 5  // multiple of patience between hosts, because their rate is unknown
)

func limit(p Params) time.Duration {
	if p.Far != nil {
		return farTimes * patience
	}
	return patience + slowTimes*p.Takes
}

// Work is the role of a process that was started for a measurement.
func Work(question []byte) (answer any, err error) {
	var o order
	if err := json.Unmarshal(question, &o); err != nil {
		return nil, err
	}
	f, err := named(o.Floor)
	if err != nil {
		return nil, err
	}
	p := &peer{Params: o.Params, link: socket(linkFD), far: o.Far}
	if f.TLS {
		p.link, err = secure(linkFD, o.Part > 0)
	}
	var series []Series
	if err == nil {
		series, err = f.parts[o.Part](p)
	}
	if errors.Is(err, errGone) {
		if o.Part > 0 {
			return nil, nil // the first process has finished and closed the connection
		}
		// The other process failed. The parent gets the reason from its answer or exit
		// status, and ends this process.
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	return series, err
}

// measure starts the floor's processes and waits until all have ended.
func (f *Floor) measure(ctx context.Context, p Params) ([]Series, error) {
	late := fmt.Errorf("no result after %v", limit(p))
	ctx, cancel := context.WithTimeoutCause(ctx, limit(p), late)
	defer cancel()
	all, ctx := errgroup.WithContext(ctx)
	children, played, err := f.start(ctx, p)
	if err != nil {
		all.Go(func() error { return err }) // cancels ctx, which ends the processes that have started
	}
	if played != nil {
		all.Go(func() error { return <-played })
	}
	results := make([][]Series, len(children))
	for i, c := range children {
		all.Go(func() (err error) {
			if err = c.Answer(&results[i]); err != nil {
				err = fmt.Errorf("process %d of %d: %w", i+1, len(f.parts), err)
			}
			return err
		})
	}
	switch waited := all.Wait(); {
	case err != nil:
		return nil, err
	case waited != nil:
		err := context.Cause(ctx) // the first failure, or why ctx ended
		if errors.Is(err, late) {
			for i, c := range children {
				err = fmt.Errorf("%w; process %d of %d (pid %d) was %s", err, i+1, len(f.parts), c.PID(), c.Killed())
			}
		}
		return nil, err
	}
	return results[0], nil
}

// start starts one process for each part of this host, and the second part on another host if
// p.Far is set; played receives its error. If start fails, it returns the processes started so
// far. All parts end when ctx is done.
func (f *Floor) start(ctx context.Context, p Params) (children []*reexec.Called, played <-chan error, err error) {
	var shared [2][]*os.File // files that each process inherits
	here := len(f.parts)
	if len(f.parts) > 1 {
		var pair [2]*os.File
		switch {
		case p.Far != nil:
			here = 1
			pair[0], played, err = p.Far.connect(ctx, f.Name)
		case f.TCP:
			pair, err = connection(ctx, cmp.Or(p.Address, "127.0.0.1"), p.Via)
		default:
			pair, err = socketpair()
		}
		if err != nil {
			return nil, played, err
		}
		defer pair[0].Close()
		defer pair[1].Close()
		page, err := sharedMemory(pageSize)
		if err != nil {
			return nil, played, err
		}
		defer page.Close()
		shared = [2][]*os.File{{pair[0], page}, {pair[1], page}}
	}
	for i := range here {
		c, err := startChild(ctx, order{Floor: f.Name, Part: i, Params: p, Far: p.Far != nil}, shared[i])
		if err != nil {
			return children, played, fmt.Errorf("start process %d of %d: %w", i+1, len(f.parts), err)
		}
		children = append(children, c)
	}
	return children, played, nil
}

// connection returns both ends of a TCP connection; the second is the server's, at address,
// which is reached via another one if that is not empty.
func connection(ctx context.Context, address, via string) (pair [2]*os.File, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return pair, fmt.Errorf("link: %w", err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String()) // an address has a port
	to := net.JoinHostPort(cmp.Or(via, address), port)
	for i, open := range []func() (net.Conn, error){
		func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", to) },
		l.Accept,
	} {
		c, err := open()
		if err != nil {
			return pair, fmt.Errorf("link: %w", err)
		}
		defer c.Close()
		if pair[i], err = c.(*net.TCPConn).File(); err != nil {
			return pair, fmt.Errorf("link: %w", err)
		}
	}
	return pair, nil
}

// socketpair returns both ends of a Unix stream socket.
func socketpair() (pair [2]*os.File, err error) {
	if pair, err = reexec.Socketpair(); err != nil {
		return pair, fmt.Errorf("link: %w", err)
	}
	for _, end := range pair {
		// With the kernel's default size, writer and reader take turns, which is slower.
		// A smaller size than requested is not an error.
		_ = unix.SetsockoptInt(int(end.Fd()), unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer)
	}
	return pair, nil
}

// sharedMemory returns fresh memory that processes can share.
func sharedMemory(size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("ipcbench-floor", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("memfd of %d bytes: %w", size, err)
	}
	return f, nil
}

// startChild starts a process that runs a part.
func startChild(ctx context.Context, o order, shared []*os.File) (*reexec.Called, error) {
	c := reexec.Command{
		Role: reexec.Floor, Question: o, Files: shared,
		Args: []string{"(floor)", o.Floor, fmt.Sprint(o.Part)}, // only for ps
	}
	if cpus := o.Params.CPUs; len(cpus) > 0 {
		if o.Part >= len(cpus) {
			return nil, fmt.Errorf("only %d processors are named", len(cpus))
		}
		c.CPUs = cpus[o.Part : o.Part+1]
	}
	return reexec.Call(ctx, c)
}
