package capture_test

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"ipcbench/internal/profile/capture"
	"ipcbench/internal/test/check"
)

func TestUnknownKind(t *testing.T) {
	check.Fails(t, check.Err(capture.New("cpu", "goroutine")), `unknown kind of profile "goroutine": must be one of cpu, heap,`)
}

var sink []byte

// processorTime returns the CPU time that this process has used.
func processorTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

// work does a little of everything that each kind of profile shows. It uses 100 ms of CPU
// time, ten samples of the CPU profile, however busy the machine is.
func work() {
	for start := processorTime(); processorTime()-start < 100*time.Millisecond; {
		sink = make([]byte, 1<<20)
		runtime.Gosched()
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				mu.Lock()
				for range 50 {
					runtime.Gosched()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// TestPieces: each kind yields a profile for every Start and Stop, except traces, which
// yield one. Kinds that count from the start of the process yield a pair.
func TestPieces(t *testing.T) {
	var kinds []string
	for _, k := range capture.Kinds() {
		kinds = append(kinds, k.Name)
	}
	c := check.Value(capture.New(kinds...))(t)
	for range 2 {
		if err := c.Start(); err != nil {
			t.Skip(err) // go test -cpuprofile or -trace is active
		}
		work()
		check.Must(t, c.Stop())
		check.Must(t, c.Stop()) // has no effect
	}
	count := map[string]int{}
	for _, p := range c.Pieces() {
		count[p.Kind]++
		if p.Kind == capture.Trace {
			check.That(t, bytes.HasPrefix(p.Data, []byte("go 1.")), "trace begins with %q", p.Data[:min(16, len(p.Data))])
			continue
		}
		after := check.Value(profile.ParseData(p.Data))(t)
		paired := slices.Contains([]string{"allocs", "mutex", "block"}, p.Kind)
		check.Equal(t, p.Before != nil, paired, p.Kind, "has a profile of the start")
		check.That(t, len(after.Sample) != 0, "%s: no samples", p.Kind)
	}
	for _, kind := range kinds {
		want := 2
		if kind == capture.Trace {
			want = 1
		}
		check.Equal(t, count[kind], want, "pieces of", kind)
	}
	check.Equal(t, len(c.Pieces()), 0, "pieces returned twice")
}

// TestNothing: a nil Capture and one without kinds do nothing and allocate nothing.
func TestNothing(t *testing.T) {
	none := check.Value(capture.New())(t)
	for _, c := range []*capture.Capture{nil, none} {
		n := testing.AllocsPerRun(10, func() {
			check.OK(t, c.Start())
			check.OK(t, c.Stop())
		})
		check.That(t, n == 0 && c.Pieces() == nil, "%v allocations, want none", n)
	}
}

// TestCPUInUse: a second CPU profile is rejected, and the first is unaffected.
func TestCPUInUse(t *testing.T) {
	first := check.Value(capture.New(capture.CPU))(t)
	second := check.Value(capture.New(capture.CPU))(t)
	if err := first.Start(); err != nil {
		t.Skip(err)
	}
	check.Fails(t, second.Start(), "cpu profiling already in use")
	err := second.Stop()
	check.That(t, err == nil && len(second.Pieces()) == 0, "got %v and pieces", err)
	work()
	check.Must(t, first.Stop())
	check.Equal(t, len(first.Pieces()), 1, "pieces")
}
