package futex

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

func TestAt(t *testing.T) {
	mem := sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE)
	size := len(mem)
	tests := []struct {
		name   string
		mem    []byte
		offset int
		want   string // text in the error; empty means success
	}{
		{"first", mem, 0, ""},
		{"second", mem, 4, ""},
		{"last", mem, size - 4, ""},
		{"exactly one", mem[8:12], 0, ""},
		{"capacity is not length", mem[8:11], 0, "outside memory of 3 bytes"},
		{"negative", mem, -4, "outside"},
		{"most negative", mem, math.MinInt, "outside"},
		{"straddles the end", mem, size - 3, "outside"},
		{"the end", mem, size, "outside"},
		{"most positive", mem, math.MaxInt, "outside"},
		{"nil", nil, 0, "outside memory of 0 bytes"},
		{"odd offset", mem, 2, "not a multiple of 4"},
		{"odd base", mem[1:], 0, "not a multiple of 4"},
		{"odd base, odd offset", mem[1:], 3, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := At(tt.mem, tt.offset)
			if tt.want != "" {
				check.Fails(t, err, tt.want)
				return
			}
			check.Must(t, err)
			w.Store(0x04030201)
			check.Equal(t, string(tt.mem[tt.offset:tt.offset+4]), "\x01\x02\x03\x04")
		})
	}
}

func TestWaitForAValueThatIsGone(t *testing.T) {
	w := fresh(t)
	w.Store(7)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a change that has already happened counts, even if the context has ended
	for name, wait := range waits(w) {
		check.OK(t, wait(ctx, 6), name)
	}
}

func TestContextEndsWaiting(t *testing.T) {
	w := fresh(t)
	for name, wait := range waits(w) {
		t.Run(name+"/cancel", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			waiting.Later(t, 5*time.Millisecond, cancel)
			check.Is(t, returns(t, func() error { return wait(ctx, 0) }), context.Canceled)
		})
		t.Run(name+"/deadline", func(t *testing.T) {
			ctx := waiting.Ending(t, 5*time.Millisecond)
			check.Is(t, returns(t, func() error { return wait(ctx, 0) }), context.DeadlineExceeded)
		})
	}
}

// TestWakeWithoutAChange: Wait continues to wait after a wake-up if the value has not
// changed.
func TestWakeWithoutAChange(t *testing.T) {
	w := fresh(t)
	ctx := waiting.Ending(t, 20*time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- w.Wait(ctx, 0) }()
	for ctx.Err() == nil {
		check.Must(t, w.Wake(All))
		runtime.Gosched()
	}
	check.Is(t, returns(t, func() error { return <-done }), context.DeadlineExceeded)
}

func TestWakeAll(t *testing.T) {
	w := fresh(t)
	var waiters sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		waiters.Go(func() { errs[i] = w.Wait(t.Context(), 0) })
	}
	w.Add(1)
	check.Must(t, w.Wake(All))
	check.OK(t, returns(t, func() error { waiters.Wait(); return errors.Join(errs...) }))
}

// TestReadOnlyMapping: a process can wait on a peer's page that it has mapped read-only.
func TestReadOnlyMapping(t *testing.T) {
	file := sharedFile(t)
	ours := word(t, sharedMemory(t, file, unix.PROT_READ|unix.PROT_WRITE))
	theirs := word(t, sharedMemory(t, file, unix.PROT_READ))
	for name, wait := range waits(theirs) {
		t.Run(name, func(t *testing.T) {
			old := ours.Load()
			waiting.Later(t, 5*time.Millisecond, func() {
				ours.Add(1)
				check.OK(t, ours.Wake(1))
			})
			check.OK(t, returns(t, func() error { return wait(t.Context(), old) }))
			check.OK(t, theirs.Wake(1))
		})
	}
}

func TestErrorsHaveACause(t *testing.T) {
	mem := sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE)
	w := word(t, mem)
	check.Must(t, unix.Mprotect(mem, unix.PROT_NONE))
	err := w.Wake(1)
	check.Is(t, err, unix.EFAULT)
	check.Fails(t, err, "futex: wake: ")
}

func TestWaitingAllocatesNothing(t *testing.T) {
	w := fresh(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for name, act := range map[string]func(){
		"wait that ends at once": func() { _ = w.Wait(ctx, 0) },
		"wait for what is there": func() { _ = w.Wait(context.Background(), 1) },
		"wake":                   func() { _ = w.Wake(1) },
		"add":                    func() { w.Add(0) },
	} {
		check.Equal(t, testing.AllocsPerRun(100, act), 0, name, " allocations")
	}
	check.Equal(t, testing.AllocsPerRun(100, func() { _ = w.wait(0, 1000) }), 0, "sleep  allocations")
}

// waits returns the two ways to wait.
func waits(w Word) map[string]func(context.Context, uint32) error {
	return map[string]func(context.Context, uint32) error{"wait": w.Wait, "spin": w.Spin}
}

// returns returns the error of act, which must not hang.
func returns(t *testing.T, act func() error) (err error) {
	t.Helper()
	waiting.Do(t, "a wait", func() { err = act() })
	return err
}

// sharedFile returns a file descriptor for one page of memory.
func sharedFile(t testing.TB) *os.File {
	t.Helper()
	fd := check.Value(unix.MemfdCreate("futex-test", unix.MFD_CLOEXEC))(t)
	file := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { file.Close() })
	check.Must(t, file.Truncate(4096))
	return file
}

func sharedMemory(t testing.TB, file *os.File, prot int) []byte {
	t.Helper()
	mem := check.Value(unix.Mmap(int(file.Fd()), 0, 4096, prot, unix.MAP_SHARED))(t)
	t.Cleanup(func() { unix.Munmap(mem) })
	return mem
}

// fresh returns a word of memory of its own.
func fresh(t testing.TB) Word {
	t.Helper()
	return word(t, sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE))
}

func word(t testing.TB, mem []byte) Word {
	t.Helper()
	return check.Value(At(mem, 64))(t)
}

// TestLinger: Linger reports whether a word changes, and gives up after a while.
func TestLinger(t *testing.T) {
	w := fresh(t)
	old := w.Load()
	check.That(t, !w.Linger(old), "nothing has changed, and it says so")
	go w.Add(1)
	for !w.Linger(old) { // hangs if Linger never sees the change
	}
}
