package futex

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/waiting"
)

func TestAt(t *testing.T) {
	mem := sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE)
	size := len(mem)
	tests := []struct {
		name   string
		mem    []byte
		offset int
		want   string // in the error; "" is success
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
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("got error %v, want one with %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.Store(0x04030201)
			if got, want := tt.mem[tt.offset:tt.offset+4], "\x01\x02\x03\x04"; string(got) != want {
				t.Errorf("got bytes %q, want %q", got, want)
			}
		})
	}
}

func TestWaitForAValueThatIsGone(t *testing.T) {
	w := word(t, sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE))
	w.Store(7)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what has happened counts, even if nobody wanted to wait any more
	for name, wait := range waits(w) {
		if err := wait(ctx, 6); err != nil {
			t.Errorf("%s: got %v, want nil", name, err)
		}
	}
}

func TestContextEndsWaiting(t *testing.T) {
	w := word(t, sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE))
	for name, wait := range waits(w) {
		t.Run(name+"/cancel", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			waiting.Later(t, 5*time.Millisecond, cancel)
			if err := returns(t, func() error { return wait(ctx, 0) }); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
		})
		t.Run(name+"/deadline", func(t *testing.T) {
			ctx := waiting.Ending(t, 5*time.Millisecond)
			if err := returns(t, func() error { return wait(ctx, 0) }); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
		})
	}
}

// A wake-up without a change is none: Wait goes on waiting.
func TestWakeWithoutAChange(t *testing.T) {
	w := word(t, sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE))
	ctx := waiting.Ending(t, 20*time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- w.Wait(ctx, 0) }()
	for ctx.Err() == nil {
		if err := w.Wake(All); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	if err := returns(t, func() error { return <-done }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestWakeAll(t *testing.T) {
	w := word(t, sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE))
	var waiters sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		waiters.Go(func() { errs[i] = w.Wait(t.Context(), 0) })
	}
	w.Add(1)
	if err := w.Wake(All); err != nil {
		t.Fatal(err)
	}
	err := returns(t, func() error { waiters.Wait(); return errors.Join(errs...) })
	if err != nil {
		t.Error(err)
	}
}

// Whoever only reads a peer's page maps it read-only, and waits there.
func TestReadOnlyMapping(t *testing.T) {
	file := sharedFile(t)
	ours := word(t, sharedMemory(t, file, unix.PROT_READ|unix.PROT_WRITE))
	theirs := word(t, sharedMemory(t, file, unix.PROT_READ))
	for name, wait := range waits(theirs) {
		t.Run(name, func(t *testing.T) {
			old := ours.Load()
			waiting.Later(t, 5*time.Millisecond, func() {
				ours.Add(1)
				if err := ours.Wake(1); err != nil {
					t.Error(err)
				}
			})
			if err := returns(t, func() error { return wait(t.Context(), old) }); err != nil {
				t.Error(err)
			}
			if err := theirs.Wake(1); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestErrorsHaveACause(t *testing.T) {
	mem := sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE)
	w := word(t, mem)
	if err := unix.Mprotect(mem, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	err := w.Wake(1)
	if !errors.Is(err, unix.EFAULT) || !strings.HasPrefix(err.Error(), "futex: wake: ") {
		t.Errorf("got %v, want futex: wake: %v", err, unix.EFAULT)
	}
}

func TestWaitingAllocatesNothing(t *testing.T) {
	w := word(t, sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for name, act := range map[string]func(){
		"wait that ends at once": func() { _ = w.Wait(ctx, 0) },
		"wait for what is there": func() { _ = w.Wait(context.Background(), 1) },
		"wake":                   func() { _ = w.Wake(1) },
		"add":                    func() { w.Add(0) },
	} {
		if n := testing.AllocsPerRun(100, act); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = w.wait(0, 1000) }); n != 0 {
		t.Errorf("sleep: got %v allocations, want 0", n)
	}
}

// waits returns both ways to wait.
func waits(w Word) map[string]func(context.Context, uint32) error {
	return map[string]func(context.Context, uint32) error{"wait": w.Wait, "spin": w.Spin}
}

// returns returns what act does, which must not hang.
func returns(t *testing.T, act func() error) (err error) {
	t.Helper()
	waiting.Do(t, "a wait", func() { err = act() })
	return err
}

// sharedFile returns a page of memory that has a descriptor.
func sharedFile(t testing.TB) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("futex-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { file.Close() })
	if err := file.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	return file
}

// sharedMemory maps what sharedFile returned.
func sharedMemory(t testing.TB, file *os.File, prot int) []byte {
	t.Helper()
	mem, err := unix.Mmap(int(file.Fd()), 0, 4096, prot, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	return mem
}

func word(t testing.TB, mem []byte) Word {
	t.Helper()
	w, err := At(mem, 64)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Linger says that a word has changed, and gives up on one that does not.
func TestLinger(t *testing.T) {
	w := word(t, sharedMemory(t, sharedFile(t), unix.PROT_READ|unix.PROT_WRITE))
	old := w.Load()
	if w.Linger(old) {
		t.Error("nothing has changed, and it says so")
	}
	go w.Add(1)
	for !w.Linger(old) { // hangs if it never sees the change
	}
}
