package usage

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

func read(t testing.TB) Usage {
	t.Helper()
	return check.Value(Read())(t)
}

// between returns the usage of act.
func between(t testing.TB, act func()) Usage {
	t.Helper()
	before := read(t)
	act()
	return read(t).Since(before)
}

// burn computes until this process has spent d of CPU time.
func burn(t testing.TB, d time.Duration) {
	t.Helper()
	before := read(t)
	waiting.Do(t, "computing for "+d.String(), func() {
		for read(t).Since(before).CPU() < d {
		}
	})
}

// share maps fresh shared memory and writes a byte into each page.
func share(t testing.TB, size int) []byte {
	t.Helper()
	fd := check.Value(unix.MemfdCreate("usage-test", unix.MFD_CLOEXEC))(t)
	defer unix.Close(fd)
	check.Must(t, unix.Ftruncate(fd, int64(size)))
	mem := check.Value(unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(t)
	t.Cleanup(func() { unix.Munmap(mem) })
	for i := 0; i < size; i += os.Getpagesize() {
		mem[i] = 1
	}
	return mem
}

// TestCostsAreCounted: each kind of usage is counted in its own field, at least in the amount spent.
func TestCostsAreCounted(t *testing.T) {
	const size = 4 << 20
	var keep []byte
	tests := []struct {
		name string
		act  func()
		got  func(Usage) int64
		want int64
	}{
		{"cpu", func() { burn(t, 10*time.Millisecond) }, func(u Usage) int64 { return int64(u.CPU()) }, int64(10 * time.Millisecond)},
		{"voluntary switches", func() { waiting.Pause(time.Millisecond) }, func(u Usage) int64 { return u.VoluntarySwitches }, 1},
		{"allocated bytes", func() { keep = make([]byte, size) }, func(u Usage) int64 { return u.AllocBytes }, size},
		{"allocated objects", func() { keep = make([]byte, size) }, func(u Usage) int64 { return u.AllocObjects }, 1},
		{"collections", runtime.GC, func(u Usage) int64 { return u.GCCycles }, 1},
		{"time of collections", runtime.GC, func(u Usage) int64 { return int64(u.GCTime) }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.got(between(t, tt.act))
			check.That(t, got >= tt.want, "got %d, want at least %d", got, tt.want)
		})
	}
	runtime.KeepAlive(keep)
}

func TestInputAndOutputAreCounted(t *testing.T) {
	if read(t).IO == nil {
		skip.Refused(t, "I/O accounting: it keeps none")
	}
	r, w, err := os.Pipe()
	check.Must(t, err)
	defer r.Close()
	defer w.Close()
	buf := make([]byte, 5000)
	spent := between(t, func() {
		for range 3 {
			w.Write(buf)
			r.Read(buf)
		}
	})
	own := between(t, func() {})
	got := *spent.Since(own).IO
	// The Go runtime wakes a thread in epoll_wait(2) by writing 8 bytes to an eventfd(2); these writes may come in
	// addition.
	check.That(t, got.WrittenBytes-8*(got.WriteCalls-3) == 15_000, "got %d bytes in %d writes, want 15000 in 3, and 8 for each one more", got.WrittenBytes, got.WriteCalls)
	// Read itself reads a file per thread, and threads come and go.
	check.That(t, got.ReadBytes >= 14_500 && got.ReadBytes <= 17_000, "got %d bytes read, want about 15000", got.ReadBytes)
}

// TestWhatPassesByInputAndOutput: shared memory and sendmsg do not count as I/O; shared memory shows as minor faults.
func TestWhatPassesByInputAndOutput(t *testing.T) {
	if read(t).IO == nil {
		skip.Refused(t, "I/O accounting: it keeps none")
	}
	const size = 4 << 20
	pair := check.Value(unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	spent := between(t, func() {
		share(t, size)
		for range 4 {
			check.Must(t, unix.Sendmsg(pair[0], make([]byte, 30_000), nil, nil, 0))
		}
	})
	got := spent.IO.ReadBytes + spent.IO.WrittenBytes
	check.That(t, got <= 20_000, "got %d bytes of I/O, want none but Read's own", got)
	check.That(t, spent.MinorFaults >= int64(size/os.Getpagesize()), "got %d minor faults for %d bytes", spent.MinorFaults, size)
}

// TestQueueSeesAllThreads: a thread that waits for a processor is counted even if it is not the main thread, which is
// all that /proc/self/schedstat covers.
func TestQueueSeesAllThreads(t *testing.T) {
	if read(t).Queue == nil {
		skip.Refused(t, "scheduler statistics: it keeps none")
	}
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("the Go scheduler alone would queue the goroutines")
	}
	// While both threads compute on one processor, one of them waits.
	spent := between(t, func() {
		done := make(chan error, 2)
		var together sync.WaitGroup
		together.Add(cap(done))
		for range cap(done) {
			go func() { done <- crowd(&together, 20*time.Millisecond) }()
		}
		for range cap(done) {
			check.OK(t, <-done)
		}
	})
	check.That(t, spent.Queue.Wait >= 5*time.Millisecond, "got %v of waiting for a processor, want at least 5ms", spent.Queue.Wait)
}

// crowd waits until all callers are on the first processor that this process may use, and then computes there for d of
// its thread's CPU time.
func crowd(together *sync.WaitGroup, d time.Duration) error {
	arrive := sync.OnceFunc(together.Done)
	defer arrive() // even after an error
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, err := Processors(0)
	if err != nil {
		return err
	}
	return Restricted(all[:1], func() error {
		arrive()
		together.Wait()
		var start, now unix.Rusage
		err := unix.Getrusage(unix.RUSAGE_THREAD, &start)
		for now = start; err == nil && now.Utime.Nano()+now.Stime.Nano() < start.Utime.Nano()+start.Stime.Nano()+int64(d); {
			err = unix.Getrusage(unix.RUSAGE_THREAD, &now)
		}
		return err
	})
}

// numbered returns a Usage in which every number is different and a multiple of step.
func numbered(step int64) Usage {
	u := Usage{Queue: &Queue{}, IO: &IO{}}
	n := int64(0)
	for _, group := range []any{&u, u.Queue, u.IO} {
		v := reflect.ValueOf(group).Elem()
		for i := range v.NumField() {
			if v.Field(i).CanInt() {
				n++
				v.Field(i).SetInt(n * step)
			}
		}
	}
	return u
}

func TestArithmeticMissesNoField(t *testing.T) {
	check.Same(t, cmp.Diff(numbered(3), numbered(1).Add(numbered(2))), "Add")
	check.Same(t, cmp.Diff(numbered(1), numbered(3).Since(numbered(2))), "Since")
}

func TestAbsentStaysAbsent(t *testing.T) {
	whole, part := numbered(1), numbered(1)
	part.IO, part.Queue = nil, nil
	for name, got := range map[string]Usage{
		"whole+part": whole.Add(part), "part+whole": part.Add(whole), "whole-part": whole.Since(part), "part-whole": part.Since(whole),
	} {
		check.That(t, got.IO == nil && got.Queue == nil, "%s: got IO %v and queue %v, want neither", name, got.IO, got.Queue)
	}
	check.Same(t, cmp.Diff(whole, Usage{}.Add(whole).Add(Usage{})), "the zero Usage is not neutral")
}

func TestAThreadThatEndedTakesNothingBack(t *testing.T) {
	before, after := Usage{Queue: &Queue{Wait: 5}}, Usage{Queue: &Queue{Wait: 3}}
	check.Equal(t, after.Since(before).Queue.Wait, 0)
}

func TestJSON(t *testing.T) {
	want := numbered(1)
	text := check.Value(json.Marshal(want))(t)
	var got Usage
	check.Must(t, json.Unmarshal(text, &got))
	check.Same(t, cmp.Diff(want, got))
	want.IO, want.Queue = nil, nil
	text = check.Value(json.Marshal(want))(t)
	check.That(t, !bytes.Contains(text, []byte("queue")) && !bytes.Contains(text, []byte("io")), "got %s, want neither queue nor io in it", text)
}

// TestReadAllocatesLittle: Read runs between rounds, so it must not allocate much itself.
func TestReadAllocatesLittle(t *testing.T) {
	threads := check.Value(os.ReadDir("/proc/self/task"))(t)
	n := testing.AllocsPerRun(20, func() { read(t) })
	check.That(t, n <= float64(10+4*len(threads)), "got %v allocations for %d threads", n, len(threads))
}
