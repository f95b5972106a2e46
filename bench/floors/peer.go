package floors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
)

// A role is what one process of a measurement does. What it returns goes to the
// process that measures; the second role returns nothing.
type role func(*peer) ([]Series, error)

// A peer is what a process of a measurement is given.
type peer struct {
	Params
	link      // to the other process, if there is one
	far  bool // that process is on another host
}

// An order says what a process has to do. It comes on stdin.
type order struct {
	Floor  string `json:"floor"`
	Role   int    `json:"role"`
	Params Params `json:"params"`
	Far    bool   `json:"far,omitempty"` // the other role plays on another host
}

// A reply is what a process says on stdout before it exits.
type reply struct {
	Series []Series `json:"series,omitempty"`
	Error  string   `json:"error,omitempty"`
}

const (
	peerEnv = "_IPCBENCH_FLOOR" // marks a peer

	// The descriptors of a peer, which is gone when its stdin ends.
	linkFD = reexec.ControlFD
	pageFD = reexec.ControlFD + 1

	pageSize = 4096

	maxReply = 1 << 20
)

// patience is for how long a measurement may last that takes a few tenths of a second, because
// a busy machine may be slow. Tests have less.
var patience = time.Minute

const (
	slowTimes = 20 // how often a measurement may take what its bytes take on a link with a rate
	farTimes  = 5  // patience between hosts, whose rate nobody knows
)

func limit(p Params) time.Duration {
	if p.Far != nil {
		return farTimes * patience
	}
	return patience + slowTimes*p.Takes
}

// MaybePeer plays the part of a peer, and exits, if this process was started as
// one. It is called before anything else in main and in TestMain.
func MaybePeer() {
	if os.Getenv(peerEnv) == "" {
		return
	}
	var o order
	var r reply
	err := json.NewDecoder(os.Stdin).Decode(&o)
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // nothing follows the order: this is the end
		os.Exit(1)
	}()
	if err == nil {
		r.Series, err = obey(o)
	}
	if err != nil {
		r = reply{Error: err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// obey does what the order says.
func obey(o order) ([]Series, error) {
	f, err := named(o.Floor)
	if err != nil || o.Role < 0 || o.Role >= len(f.roles) {
		return nil, fmt.Errorf("no role %d of floor %q", o.Role, o.Floor)
	}
	series, err := f.play(o)
	switch {
	case !errors.Is(err, errGone):
		return series, err
	case o.Role > 0:
		return nil, nil // the first process has what it wanted
	}
	// The other process failed. Why, is for that one to say, or for its exit
	// status; whoever started both learns of it and ends this one.
	select {}
}

// play does what a role of the floor does.
func (f *Floor) play(o order) ([]Series, error) {
	p := &peer{Params: o.Params, link: socket(linkFD), far: o.Far}
	if f.TLS {
		var err error
		if p.link, err = secure(linkFD, o.Role > 0); err != nil {
			return nil, err
		}
	}
	return f.roles[o.Role](p)
}

// busy computes for d.
func busy(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

// measure starts the floor's processes and waits until all of them are gone.
func (f *Floor) measure(ctx context.Context, p Params) ([]Series, error) {
	if os.Getenv(peerEnv) != "" {
		return nil, errors.New("this is a peer: its main does not begin with floors.MaybePeer()")
	}
	late := fmt.Errorf("no result after %v", limit(p))
	ctx, cancel := context.WithTimeoutCause(ctx, limit(p), late)
	defer cancel()
	all, ctx := errgroup.WithContext(ctx)
	children, played, err := f.start(ctx, p)
	if err != nil {
		all.Go(func() error { return err }) // ends those that were started
	}
	if played != nil {
		all.Go(func() error { return <-played })
	}
	results := make([][]Series, len(children))
	for i, c := range children {
		all.Go(func() (err error) {
			if results[i], err = c.wait(); err != nil {
				err = fmt.Errorf("process %d of %d: %w", i+1, len(f.roles), err)
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
				err = fmt.Errorf("%w; process %d of %d (pid %d) was %s", err, i+1, len(f.roles), c.PID(), c.Killed())
			}
		}
		return nil, err
	}
	return results[0], nil
}

// start starts one process for each role that is played here. If it fails, it returns
// those that run already; they end with ctx, and so does what plays elsewhere.
func (f *Floor) start(ctx context.Context, p Params) (children []*child, played <-chan error, err error) {
	var shared [2][]*os.File // for each process
	here := len(f.roles)
	if len(f.roles) > 1 {
		var pair [2]*os.File
		switch {
		case p.Far != nil:
			here = 1
			pair[0], played, err = p.Far.connect(ctx, f.Name)
		case f.TCP:
			pair, err = connection(ctx, cmp.Or(p.Address, "127.0.0.1"))
		default:
			pair, err = socketpair()
		}
		if err != nil {
			return nil, played, err
		}
		defer pair[0].Close()
		defer pair[1].Close()
		page, err := sharedPage()
		if err != nil {
			return nil, played, err
		}
		defer page.Close()
		shared = [2][]*os.File{{pair[0], page}, {pair[1], page}}
	}
	for i := range here {
		c, err := startChild(ctx, order{Floor: f.Name, Role: i, Params: p, Far: p.Far != nil}, shared[i])
		if err != nil {
			return children, played, fmt.Errorf("start process %d of %d: %w", i+1, len(f.roles), err)
		}
		children = append(children, c)
	}
	return children, played, nil
}

// connection returns the ends of a TCP connection. The second one is the server's,
// whose address is that of the link.
func connection(ctx context.Context, address string) (pair [2]*os.File, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return pair, fmt.Errorf("link: %w", err)
	}
	defer l.Close()
	for i, open := range []func() (net.Conn, error){
		func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String()) },
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

// socketpair returns the link.
func socketpair() (pair [2]*os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return pair, fmt.Errorf("link: socketpair: %w", err)
	}
	for i, fd := range fds {
		// The kernel's default makes writer and reader take turns, and a floor is
		// the fastest there is. A smaller buffer, if no more is granted, is no error.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer)
		pair[i] = os.NewFile(uintptr(fd), "link")
	}
	return pair, nil
}

func sharedPage() (*os.File, error) {
	fd, err := unix.MemfdCreate("ipcbench-floor", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("shared page: memfd_create: %w", err)
	}
	page := os.NewFile(uintptr(fd), "page")
	if err := page.Truncate(pageSize); err != nil {
		page.Close()
		return nil, fmt.Errorf("shared page: %w", err)
	}
	return page, nil
}

// A child is a started peer, as its starter sees it.
type child struct {
	*reexec.Asked
	stderr *reexec.Excerpt
}

func startChild(ctx context.Context, o order, shared []*os.File) (*child, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := reexec.Command{
		Args: []string{"(floor)", o.Floor, fmt.Sprint(o.Role)}, // only for ps
		Env:  []string{peerEnv + "=1"}, Files: shared, Stderr: &reexec.Excerpt{Most: 1 << 10, Head: true},
	}
	if cpus := o.Params.CPUs; len(cpus) > 0 {
		if o.Role >= len(cpus) {
			return nil, fmt.Errorf("only %d processors are named", len(cpus))
		}
		c.CPUs = cpus[o.Role : o.Role+1]
	}
	a, err := reexec.Ask(ctx, ctx, c, text, maxReply)
	return &child{a, c.Stderr}, err
}

// wait returns what the process measured, after it has ended.
func (c *child) wait() ([]Series, error) {
	said, err := c.Answer()
	if err == nil {
		return parseReply(said)
	}
	if text := c.stderr.String(); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return nil, err
}

// parseReply checks what came from another process.
func parseReply(text []byte) ([]Series, error) {
	var r reply
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	for _, s := range r.Series {
		if len(s.Samples) == 0 {
			return nil, fmt.Errorf("reply: %s: no samples", s.Variant)
		}
		for i, v := range s.Samples {
			if !(v > 0) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("reply: %s: sample %d is %v", s.Variant, i, v)
			}
		}
	}
	return r.Series, nil
}
