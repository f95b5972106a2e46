package shm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/internal/slab"
)

// A part is what a process of these tests is given: a variant, and a server or a path.
type part struct{ Variant, Addr, Secret, Path string }

// roles are what this test's program does in other processes.
var roles = map[string]drivertest.Role{
	"serve": playServer, "create": playCreator, "intrude": playIntruder,
	"echo": playWorker(echo),
	"die": playWorker(func(_ driver.Job, model, update *tensor.Package) error { // in the middle of writing
		copy(update.View(0), model.View(0)[:100])
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		select {}
	}),
	"scribble": playWorker(func(j driver.Job, model, update *tensor.Package) error {
		model.View(0)[0]++
		return echo(j, model, update)
	}),
}

// echo is the stock training, with the model's receipt.
func echo(j driver.Job, model, update *tensor.Package) error {
	update.Receipt = append(update.Receipt[:0], model.Receipt...)
	return tensor.Train(update, model, drivertest.Key(j))
}

func playServer(ctx context.Context, given *json.Decoder) error {
	var p part
	v, err := p.read(given)
	if err != nil {
		return err
	}
	e := driver.NewEndpoint(p.Path)
	s, err := transports.Listen(ctx, v, e, options(v))
	if err != nil {
		return err
	}
	m, err := s.Reserve()
	if err == nil {
		_, err = s.Publish(ctx, m)
	}
	fmt.Println(e.Addr(), e.Secret())
	<-ctx.Done() // or killed
	return err
}

func playWorker(fill drivertest.Fill) drivertest.Role {
	return func(_ context.Context, given *json.Decoder) error {
		var p part
		v, err := p.read(given)
		if err != nil {
			return err
		}
		ctx := context.Background()
		w, err := transports.Dial(ctx, v, driver.EndpointAt(p.Addr, p.Secret), 0, options(v))
		if err != nil {
			return err
		}
		return drivertest.Serve(ctx, w, fill)
	}
}

func (p *part) read(given *json.Decoder) (v transports.Variant, err error) {
	if err := given.Decode(p); err != nil || p.Variant == "" {
		return v, err
	}
	return transports.Parse(p.Variant, []driver.Transport{Slab(), PerTensor()})
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
	v := drivertest.Parse(t, text, Slab(), PerTensor())
	return v, options(v)
}

// A session is one of the suite's, into which these tests look.
type session struct{ *drivertest.Session }

// play starts a worker of s in another process.
func (s *session) play(role string) *drivertest.Child {
	s.T.Helper()
	c, err := drivertest.Spawn(s.T, role, part{Variant: s.Variant.String(), Addr: s.Endpoint.Addr(), Secret: s.Endpoint.Secret()}, nil)
	check.Must(s.T, err)
	return c
}

// dial is Dial, which may fail.
func (s *session) dial(lane int) (*drivertest.Worker, error) {
	return drivertest.Dial(s.T.Context(), s.Variant, s.Endpoint, lane, s.Options)
}

// counts returns what the server and the workers that were dialled have counted.
func (s *session) counts() map[string]int64 {
	all, workers := s.Counts()
	for name, n := range workers {
		all[name] += n
	}
	return all
}

// base returns what all servers have in common.
func (s *session) base() *server {
	switch d := s.Driver.(type) {
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
	d := check.Value(scratch.New(os.TempDir()))(t)
	t.Cleanup(func() { check.Must(t, d.Close()) })
	return d.Path()
}

// listening returns a session without workers whose model is published.
func listening(t testing.TB, v transports.Variant, o driver.Options) (*session, *tensor.Package) {
	t.Helper()
	s := &session{drivertest.Listen(t, v, o)}
	return s, s.Publish(1)
}

// spawn starts this program in a role for which it needs a path.
func spawn(t testing.TB, role, variant, path string) *drivertest.Child {
	t.Helper()
	c := check.Value(drivertest.Spawn(t, role, part{Variant: variant, Path: path}, nil))(t)
	return c
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
		c := s.play("die")
		died := make(chan struct{})
		go func() {
			defer close(died)
			_ = c.Cmd.Wait() // signal: killed
		}()
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{Client: 3}))
		waiting.Receive(t, "the death of the worker", died)
		waiting.Promise(t, "A23", time.Second, func() {
			_, err := s.Server.Collect(t.Context(), 0)
			check.That(t, errors.Is(err, errGone), "collect: got %v, want %v", err, errGone)
		})
		err := s.Server.Dispatch(t.Context(), 0, driver.Job{})
		check.That(t, errors.Is(err, errGone), "dispatch: got %v, want %v", err, errGone)
		check.Must(t, s.Server.Shutdown(t.Context()))
		check.Equal(t, segments(t), before, "names in shared memory")
	})
}

// segments counts the names of this process's sessions under /dev/shm. Other
// test processes may have theirs there.
func segments(t testing.TB) (n int) {
	t.Helper()
	locks := check.Value(filepath.Glob("/dev/shm/ipcbench-*/lock"))(t)
	for _, lock := range locks {
		owner, err := os.ReadFile(lock)
		if err != nil || !strings.HasPrefix(string(owner), fmt.Sprintf("pid %d,", os.Getpid())) {
			continue // it may be gone by now
		}
		all := check.Value(os.ReadDir(filepath.Dir(lock)))(t)
		n += len(all)
	}
	return n
}

// A server that is killed: its worker learns it within a second. What it left
// is listed, harms no new session, and can be removed (A23, A28).
func TestServerKilled(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		v, o := parse(t, name)
		c := spawn(t, "serve", name, private(t))
		addr, secret, _ := strings.Cut(c.Line(t), " ")
		w := check.Value(drivertest.Dial(t.Context(), v, driver.EndpointAt(addr, secret), 0, o))(t)
		told := make(chan error, 1)
		go func() {
			_, _, err := w.Receive(context.Background())
			told <- err
		}()
		check.Must(t, c.Cmd.Process.Kill())
		_ = c.Cmd.Wait() // signal: killed
		waiting.Promise(t, "A23", time.Second, func() {
			err := <-told
			check.That(t, errors.Is(err, errGone), "receive: got %v, want %v", err, errGone)
		})
		check.Must(t, w.Close())

		s, _ := listening(t, v, o)
		left := check.Value(scratch.Leftovers(scratch.SharedMemory))(t)
		mine := 0
		for _, l := range left {
			if strings.Contains(l.Owner, "pid "+strconv.Itoa(c.Cmd.Process.Pid)+",") {
				mine++
				check.Must(t, l.Remove())
			}
		}
		want := 0 // memfds leave nothing
		if strings.HasPrefix(name, "shm-tensor") {
			want = 1
		}
		check.Equal(t, mine, want, "leftovers of the killed server")
		w = check.Value(s.dial(0))(t)
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
		c := s.play("scribble")
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
		_, err := s.Server.Collect(t.Context(), 0)
		check.That(t, errors.Is(err, errGone), "%s: collect: got %v, want %v", name, err, errGone)
		if err := c.Cmd.Wait(); err == nil || !strings.Contains(fmt.Sprint(c.Err), "fault") {
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
		c := s.play("echo")
		for i := range n {
			if i%10 == 9 {
				m = s.Publish(uint64(i))
			}
			j := driver.Job{Round: i / 10, Client: i}
			check.Must(t, s.Server.Dispatch(t.Context(), 0, j))
			p := check.Value(s.Server.Collect(t.Context(), 0))(t)
			check.Must(t, tensor.Prove(p, m, drivertest.Key(j)))
			check.Need(t, string(p.Receipt) == string(m.Receipt), "receipt %q, want %q", p.Receipt, m.Receipt)
			p.Release()
		}
		check.Must(t, s.Server.Shutdown(t.Context()))
		err := c.Cmd.Wait()
		check.That(t, err == nil, "worker: %v: %s", err, c.Err)
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
			c := s.play("echo")
			ctx := waiting.Context(t)
			turn := func(i int) error {
				if err := s.Server.Dispatch(ctx, 0, driver.Job{Client: i}); err != nil {
					return err
				}
				p, err := s.Server.Collect(ctx, 0)
				if err == nil {
					check.Must(t, tensor.Prove(p, m, drivertest.Key(driver.Job{Client: i})))
					p.Release()
				}
				return err
			}
			err := turn(0) // it is there
			waiting.Later(t, time.Duration(random.IntN(10_000))*time.Microsecond, func() { _ = c.Cmd.Process.Kill() })
			for i := 1; err == nil; i++ {
				err = turn(i)
			}
			check.That(t, errors.Is(err, errGone), "got %v, want %v", err, errGone)
			_ = c.Cmd.Wait() // signal: killed
			check.Must(t, s.Server.Shutdown(t.Context()))
		}
		check.Equal(t, segments(t), before, "names in shared memory")
	})
}
