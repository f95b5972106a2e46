package shm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// spawn starts a worker process for lane 0.
func spawn(t testing.TB, r drivertest.Remote) *drivertest.Child {
	t.Helper()
	return check.Value(drivertest.Spawn(t, "work", r, nil))(t)
}

// options returns the options of most tests in this package.
func options() driver.Options {
	l, _ := tensor.NewLayout([]tensor.Spec{
		{Name: "weights", DType: tensor.F32, Shape: []int{100, 100}},
		{Name: "scalar", DType: tensor.I64},
		{Name: "empty", DType: tensor.Bool, Shape: []int{0, 3}},
	})
	return driver.Options{Down: l, Up: l, Lanes: 2, Clients: 4, Depth: 2}
}

func parse(t testing.TB, name string) transports.Variant {
	t.Helper()
	return drivertest.Parse(t, name, Slab(), PerTensor())
}

// listen opens a session without workers, and publishes a model.
func listen(t testing.TB, name string, o driver.Options) *drivertest.Session {
	t.Helper()
	s := drivertest.Listen(t, parse(t, name), o)
	s.Publish(1)
	return s
}

// open is listen with a worker in this process on lane 0.
func open(t testing.TB, name string, o driver.Options) *drivertest.Session {
	t.Helper()
	s := listen(t, name, o)
	s.Dial(0)
	return s
}

// private returns a directory that only the test uses.
func private(t testing.TB) string {
	t.Helper()
	d := check.Value(scratch.New(os.TempDir()))(t)
	t.Cleanup(func() { check.Must(t, d.Close()) })
	return d.Path()
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

// descriptors returns a check that this process has no more descriptors than now.
func descriptors(t *testing.T) (noMore func(context ...any)) {
	before := proc.Descriptors(os.Getpid())
	return func(context ...any) {
		t.Helper()
		after := proc.Descriptors(os.Getpid())
		check.That(t, after <= before, "%v: %d descriptors before, %d after", context, before, after)
	}
}

// segments returns the number of names of this process's sessions under /dev/shm. Other
// test processes may have sessions there.
func segments(t testing.TB) (n int) {
	t.Helper()
	locks := check.Value(filepath.Glob("/dev/shm/ipcbench-*/lock"))(t)
	for _, lock := range locks {
		owner, err := os.ReadFile(lock)
		if err != nil || !strings.HasPrefix(string(owner), fmt.Sprintf("pid %d,", os.Getpid())) {
			continue
		}
		all := check.Value(os.ReadDir(filepath.Dir(lock)))(t)
		n += len(all)
	}
	return n
}

func isGone(t testing.TB, what string, err error) {
	t.Helper()
	check.Is(t, err, errGone, what)
}

// TestWorkerKilled: two processes exchange updates, each proved byte by byte, until the
// worker is killed at a random moment. The server notices, and both leave nothing behind. A
// soak has 200 kills per variant, with 100,000 updates before them.
func TestWorkerKilled(t *testing.T) {
	kills, updates, seed := 1, 50, uint64(1)
	if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
		kills, updates, seed = 200, 500, uint64(time.Now().UnixNano())
	}
	random := rand.New(rand.NewPCG(seed, 0))
	each(t, func(t *testing.T, name string) {
		before := segments(t)
		for range kills {
			s := listen(t, name, options())
			c := spawn(t, s.Remote())
			for i := range updates {
				if i%10 == 9 {
					s.Publish(uint64(i))
				}
				check.Must(t, s.Carry(0, driver.Job{Round: i / 10, Client: i}))
			}
			waiting.Later(t, time.Duration(random.IntN(10_000))*time.Microsecond, func() { _ = c.Signal(syscall.SIGKILL) })
			var err error
			for i := 0; err == nil; i++ {
				err = s.Carry(0, driver.Job{Client: i})
			}
			isGone(t, "a job", err)
			isGone(t, "dispatch", s.Server.Dispatch(t.Context(), 0, driver.Job{}))
			check.Must(t, s.Server.Shutdown(t.Context()))
		}
		check.Equal(t, segments(t), before, "names")
	})
}

// TestModelIsReadOnly: a worker function that writes into the model faults, and the model
// is unchanged.
func TestModelIsReadOnly(t *testing.T) {
	for _, name := range []string{"shm-slab", "shm-tensor"} {
		s := listen(t, name, options())
		before := s.Model.Hash()
		r := s.Remote()
		r.Scribbles = true
		c := spawn(t, r)
		isGone(t, name, s.Carry(0, driver.Job{}))
		<-c.Exited()
		check.That(t, c.Err() != nil && strings.Contains(c.Stderr.String(), "fault"), "%s: the worker says %q, want a fault", name, c.Stderr)
		check.That(t, s.Model.Hash() == before, "%s: the model changed", name)
	}
}
