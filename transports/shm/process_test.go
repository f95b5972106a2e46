package shm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// Tests with two processes run this binary again, which then plays a part: a
// worker that follows orders, or a server that lives until it is killed.
const (
	roleEnv = "IPCBENCH_TEST_SHM_ROLE"
	addrEnv = "IPCBENCH_TEST_SHM_ADDR" // of a server, a space and the secret; or a path
	nameEnv = "IPCBENCH_TEST_SHM_TRANSPORT"
)

// play is main of such a process.
func play(role string) {
	v, err := transports.Parse(os.Getenv(nameEnv), []driver.Transport{Slab(), PerTensor()})
	if err == nil {
		switch role {
		case "serve":
			err = playServer(v, os.Getenv(addrEnv))
		case "create":
			err = playCreator(os.Getenv(addrEnv))
		case "intrude":
			err = playIntruder(os.Getenv(addrEnv))
		default:
			err = playWorker(role, v, os.Getenv(addrEnv))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func playServer(v transports.Variant, dir string) error {
	e := driver.NewEndpoint(dir)
	s, err := transports.Listen(context.Background(), v, e, options(v))
	if err != nil {
		return err
	}
	if m, err := s.Reserve(); err != nil {
		return err
	} else if _, err := s.Publish(context.Background(), m); err != nil {
		return err
	}
	fmt.Println(e.Addr(), e.Secret())
	_, err = io.Copy(io.Discard, os.Stdin) // until killed
	return err
}

// endpointAt is that of a server which printed where.
func endpointAt(where string) *driver.Endpoint {
	addr, secret, _ := strings.Cut(strings.TrimSpace(where), " ")
	return driver.EndpointAt(addr, secret)
}

func playWorker(role string, v transports.Variant, where string) error {
	ctx := context.Background()
	w, err := transports.Dial(ctx, v, endpointAt(where), 0, options(v))
	if err != nil {
		return err
	}
	for {
		j, model, err := w.Receive(ctx)
		if errors.Is(err, io.EOF) {
			return w.Close()
		}
		if err != nil {
			return err
		}
		update, err := w.Reserve()
		if err != nil {
			return err
		}
		switch role {
		case "die": // in the middle of writing
			copy(update.View(0), model.View(0)[:100])
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				return err
			}
			select {}
		case "scribble":
			model.View(0)[0]++
		}
		update.Receipt = append(update.Receipt[:0], model.Receipt...)
		if err := tensor.Train(update, model, tensor.Key{Round: j.Round, Client: j.Client}); err != nil {
			return err
		}
		if err := w.Submit(ctx, update); err != nil {
			return err
		}
	}
}

// options are those of all tests in this package.
func options(v transports.Variant) driver.Options {
	l, err := tensor.NewLayout([]tensor.Spec{
		{Name: "weights", DType: tensor.F32, Shape: []int{100, 100}},
		{Name: "scalar", DType: tensor.I64},
		{Name: "empty", DType: tensor.Bool, Shape: []int{0, 3}},
	})
	if err != nil {
		panic(err)
	}
	return driver.Options{Down: l, Up: l, Lanes: 2, Clients: 4, Depth: 2, Settings: v.Settings}
}

func parse(t testing.TB, text string) (transports.Variant, driver.Options) {
	t.Helper()
	v, err := transports.Parse(text, []driver.Transport{Slab(), PerTensor()})
	check.Must(t, err)
	return v, options(v)
}

// A spied transport remembers what it made last, for tests that look inside.
type spied struct {
	driver.Transport
	server driver.Server
	worker driver.Worker
}

func (s *spied) Listen(ctx context.Context, e *driver.Endpoint, o driver.Options) (d driver.Server, err error) {
	d, err = s.Transport.Listen(ctx, e, o)
	s.server = d
	return d, err
}

func (s *spied) Dial(ctx context.Context, e *driver.Endpoint, lane int, o driver.Options) (d driver.Worker, err error) {
	d, err = s.Transport.Dial(ctx, e, lane, o)
	s.worker = d
	return d, err
}

// A session is a server and what it takes to dial it.
type session struct {
	*transports.Server
	v   transports.Variant
	o   driver.Options
	e   *driver.Endpoint
	spy *spied
}

// where is what a child needs to dial s.
func (s *session) where() string { return s.e.Addr() + " " + s.e.Secret() }

func (s *session) dial(ctx context.Context, lane int) (*transports.Worker, error) {
	return transports.Dial(ctx, s.v, s.e, lane, s.o)
}

// base returns what all servers have in common.
func (s *session) base() *server {
	switch d := s.spy.server.(type) {
	case *slabServer:
		return d.server
	case *copyingServer:
		return d.server
	case *slab.CloningServer:
		return d.Server.(*slabServer).server
	case *namedServer:
		return d.server
	case *passingServer:
		return d.server
	}
	panic("another server")
}

// private returns a directory of a session's own.
func private(t testing.TB) string {
	t.Helper()
	d, err := scratch.New(os.TempDir())
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, d.Close()) })
	return d.Path()
}

// listening returns a server whose model is published.
func listening(t testing.TB, v transports.Variant, o driver.Options) (*session, *tensor.Package) {
	t.Helper()
	s := &session{v: v, o: o, e: driver.NewEndpoint(private(t)), spy: &spied{Transport: v.Transport}}
	s.v.Transport = s.spy
	var err error
	s.Server, err = transports.Listen(t.Context(), s.v, s.e, o)
	check.Must(t, err)
	t.Cleanup(func() {
		_ = s.Shutdown(waiting.Context(t)) // tests that care have called it
	})
	return s, publish(t, s, 1)
}

func publish(t testing.TB, s *session, seed uint64) *tensor.Package {
	t.Helper()
	m, err := s.Reserve()
	check.Must(t, err)
	tensor.Fill(m, seed)
	m.Receipt = append(m.Receipt[:0], "receipt of the model"...)
	_, err = s.Publish(t.Context(), m)
	check.Must(t, err)
	return m
}

// child starts this binary in a role, and kills it at the end of the test if it
// is still there.
func child(t testing.TB, role, name, addr string) (c *exec.Cmd, out *bufio.Reader) {
	t.Helper()
	c, _, out = talking(t, role, name, addr)
	return c, out
}

// talking is child, with the process's standard input.
func talking(t testing.TB, role, name, addr string) (c *exec.Cmd, in io.Writer, out *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	check.Must(t, err)
	c = exec.Command(exe)
	c.Env = append(os.Environ(), roleEnv+"="+role, nameEnv+"="+name, addrEnv+"="+addr)
	c.Stderr = &strings.Builder{}
	stdin, err := c.StdinPipe()
	check.Must(t, err)
	pipe, err := c.StdoutPipe()
	check.Must(t, err)
	check.Must(t, c.Start())
	t.Cleanup(func() {
		stdin.Close()
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // or been waited for
	})
	return c, stdin, bufio.NewReader(pipe)
}

var variants = []string{
	"shm-slab", "shm-slab:wait=spin", "shm-slab:copy=in", "shm-tensor", "shm-tensor:reuse=on", "shm-tensor:pass=fd",
}

// each runs f for every variant.
func each(t *testing.T, f func(t *testing.T, name string)) {
	for _, name := range variants {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}

// A worker that dies while it writes: the server learns it at once, and nothing is
// left of either.
func TestWorkerKilled(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		before := segments(t)
		v, o := parse(t, name)
		s, _ := listening(t, v, o)
		c, _ := child(t, "die", name, s.where())
		died := make(chan struct{})
		go func() {
			defer close(died)
			_ = c.Wait() // signal: killed
		}()
		check.Must(t, s.Dispatch(t.Context(), 0, driver.Job{Client: 3}))
		waiting.Receive(t, "the death of the worker", died)
		waiting.Promise(t, "A23", time.Second, func() {
			_, err := s.Collect(t.Context(), 0)
			check.That(t, errors.Is(err, errGone), "collect: got %v, want %v", err, errGone)
		})
		err := s.Dispatch(t.Context(), 0, driver.Job{})
		check.That(t, errors.Is(err, errGone), "dispatch: got %v, want %v", err, errGone)
		check.Must(t, s.Shutdown(t.Context()))
		check.Equal(t, segments(t), before, before, "names before  after")
	})
}

// segments counts the names of this process's sessions under /dev/shm. Other
// test processes may have theirs there.
func segments(t testing.TB) (n int) {
	t.Helper()
	locks, err := filepath.Glob("/dev/shm/ipcbench-*/lock")
	check.Must(t, err)
	for _, lock := range locks {
		owner, err := os.ReadFile(lock)
		if err != nil || !strings.HasPrefix(string(owner), fmt.Sprintf("pid %d,", os.Getpid())) {
			continue // it may be gone by now
		}
		all, err := os.ReadDir(filepath.Dir(lock))
		check.Must(t, err)
		n += len(all)
	}
	return n
}

// A server that is killed: its worker learns it within a second. What it left
// is listed, harms no new session, and can be removed (A23, A28).
func TestServerKilled(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		v, o := parse(t, name)
		c, out := child(t, "serve", name, private(t))
		addr, err := out.ReadString('\n')
		check.Must(t, err)
		w, err := transports.Dial(t.Context(), v, endpointAt(addr), 0, o)
		check.Must(t, err)
		told := make(chan error, 1)
		go func() {
			_, _, err := w.Receive(context.Background())
			told <- err
		}()
		check.Must(t, c.Process.Kill())
		_ = c.Wait() // signal: killed
		waiting.Promise(t, "A23", time.Second, func() {
			if err := <-told; !errors.Is(err, errGone) {
				t.Errorf("receive: got %v, want %v", err, errGone)
			}
		})
		check.Must(t, w.Close())

		s, _ := listening(t, v, o)
		left, err := scratch.Leftovers(scratch.SharedMemory)
		check.Must(t, err)
		mine := 0
		for _, l := range left {
			if strings.Contains(l.Owner, "pid "+strconv.Itoa(c.Process.Pid)+",") {
				mine++
				check.Must(t, l.Remove())
			}
		}
		want := 0 // memfds leave nothing
		if strings.HasPrefix(name, "shm-tensor") {
			want = 1
		}
		check.Equal(t, mine, want, "leftovers of the killed server")
		w, err = s.dial(t.Context(), 0)
		check.Must(t, err)
		check.Must(t, w.Close())
	})
}

// A worker function that writes into the model is stopped by the hardware, and
// the model is unharmed.
func TestModelIsReadOnly(t *testing.T) {
	for _, name := range []string{"shm-slab", "shm-tensor"} {
		v, o := parse(t, name)
		s, m := listening(t, v, o)
		before := m.Hash()
		c, _ := child(t, "scribble", name, s.where())
		check.Must(t, s.Dispatch(t.Context(), 0, driver.Job{}))
		_, err := s.Collect(t.Context(), 0)
		check.That(t, errors.Is(err, errGone), "%s: collect: got %v, want %v", name, err, errGone)
		if err := c.Wait(); err == nil || !strings.Contains(fmt.Sprint(c.Stderr), "fault") {
			t.Errorf("%s: worker ended with %v, want a fault", name, err)
		}
		check.That(t, m.Hash() == before, "%s: the model changed", name)
	}
}

// Two processes exchange messages, each update proved byte by byte: 100,000 of
// them in a soak.
func TestExchange(t *testing.T) {
	n := 200
	if raceDetector {
		n = 20
	}
	if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
		n = 100_000
	}
	each(t, func(t *testing.T, name string) {
		v, o := parse(t, name)
		s, m := listening(t, v, o)
		c, _ := child(t, "echo", name, s.where())
		for i := range n {
			if i%10 == 9 {
				m = publish(t, s, uint64(i))
			}
			j := driver.Job{Round: i / 10, Client: i}
			check.Must(t, s.Dispatch(t.Context(), 0, j))
			p, err := s.Collect(t.Context(), 0)
			check.Must(t, err)
			check.Must(t, tensor.Prove(p, m, tensor.Key{Round: j.Round, Client: j.Client}))
			check.Need(t, string(p.Receipt) == string(m.Receipt), "receipt %q, want %q", p.Receipt, m.Receipt)
			p.Release()
		}
		check.Must(t, s.Shutdown(t.Context()))
		err := c.Wait()
		check.That(t, err == nil, "worker: %v: %s", err, c.Stderr)
	})
}

// Workers that are killed at random moments: the server always learns it, and
// nothing is left (200 kills in a soak).
func TestKilledAtAnyMoment(t *testing.T) {
	skip.Long(t)
	kills, seed := 3, uint64(1)
	if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
		kills, seed = 200, uint64(time.Now().UnixNano())
	}
	random := rand.New(rand.NewPCG(seed, 0))
	each(t, func(t *testing.T, name string) {
		before := segments(t)
		for range kills {
			v, o := parse(t, name)
			s, m := listening(t, v, o)
			c, _ := child(t, "echo", name, s.where())
			ctx := waiting.Context(t)
			turn := func(i int) error {
				if err := s.Dispatch(ctx, 0, driver.Job{Client: i}); err != nil {
					return err
				}
				p, err := s.Collect(ctx, 0)
				if err == nil {
					check.Must(t, tensor.Prove(p, m, tensor.Key{Client: i}))
					p.Release()
				}
				return err
			}
			err := turn(0) // it is there
			waiting.Later(t, time.Duration(random.IntN(10_000))*time.Microsecond, func() { _ = c.Process.Kill() })
			for i := 1; err == nil; i++ {
				err = turn(i)
			}
			check.That(t, errors.Is(err, errGone), "got %v, want %v", err, errGone)
			_ = c.Wait() // signal: killed
			check.Must(t, s.Shutdown(t.Context()))
		}
		check.Equal(t, segments(t), before, before, "names before  after")
	})
}
