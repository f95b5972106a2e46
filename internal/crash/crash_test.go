package crash_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/crash"
	"ipcbench/internal/test/check"
)

// mapped returns a mapping of a new file of some pages, and its path.
func mapped(t *testing.T, pages, prot int) ([]byte, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a file")
	f := check.Value(os.Create(path))(t)
	defer f.Close()
	size := pages * os.Getpagesize()
	check.Must(t, f.Truncate(int64(size)))
	b := check.Value(unix.Mmap(int(f.Fd()), 0, size, prot, unix.MAP_SHARED))(t)
	t.Cleanup(func() {
		check.OK(t, unix.Munmap(b))
	})
	return b, path
}

var sink byte

// TestTruncated: if a mapped file is truncated, the error names it, whichever code touches
// the mapping.
func TestTruncated(t *testing.T) {
	page := os.Getpagesize()
	for name, touch := range map[string]func(b []byte){
		"read":    func(b []byte) { sink = b[page] },
		"write":   func(b []byte) { b[page] = 1 },
		"copy":    func(b []byte) { copy(make([]byte, len(b)), b) },
		"clear":   func(b []byte) { clear(b) },
		"compare": func(b []byte) { _ = string(b) == string(make([]byte, len(b))) },
	} {
		b, path := mapped(t, 3, unix.PROT_READ|unix.PROT_WRITE)
		check.Must(t, crash.Guard(func() error { touch(b); return nil }))
		check.Must(t, os.Truncate(path, int64(page)))
		err := crash.Guard(func() error { touch(b); return nil })
		check.Fails(t, err, "memory fault in "+path+", at byte ", name)
		check.Fails(t, err, fmt.Sprintf(": the file was truncated to %d bytes while it was mapped", page), name)
	}
}

// TestReadOnly: the error of a write to a read-only mapping names the file.
func TestReadOnly(t *testing.T) {
	b, path := mapped(t, 1, unix.PROT_READ)
	err := crash.Guard(func() error { b[7] = 1; return nil })
	check.Fails(t, err, path+", at byte 7: ")
	check.Fails(t, err, "it is mapped read-only")
}

var errMine = errors.New("mine")

func panics(v any) { panic(v) }

// TestPanic: any other panic keeps its value and its stack, starting where it occurred.
func TestPanic(t *testing.T) {
	var none []int
	for name, c := range map[string]struct {
		f    func() error
		want string
	}{
		"value":  {func() error { panics("a word"); return nil }, "panic: a word\nipcbench/internal/crash_test.panics("},
		"error":  {func() error { panics(errMine); return nil }, "panic: mine\nipcbench/internal/crash_test.panics("},
		"index":  {func() error { sink = byte(none[len(none)]); return nil }, "panic: runtime error: index out of range"},
		"nil":    {func() error { var p *int; *p = 1; return nil }, "panic: runtime error: invalid memory address"},
		"panic2": {func() error { defer panics("second"); panic("first") }, "second"},
	} {
		err := crash.Guard(c.f)
		check.Fails(t, err, c.want, name)
		check.Fails(t, err, "crash_test.go:", name)
		if name == "error" {
			check.Is(t, err, errMine)
		}
		check.That(t, !strings.Contains(fmt.Sprint(err), "debug.Stack"), "%s: the stack begins inside of Guard:\n%v", name, err)
	}
}

// TestTransparent: Guard returns f's error, allocates nothing, and afterwards restores the
// goroutine's handling of faults.
func TestTransparent(t *testing.T) {
	check.Equal(t, crash.Guard(func() error { return errMine }), errMine)
	n := 0
	check.Equal(t, testing.AllocsPerRun(100, func() {
		check.Must(t, crash.Guard(func() error { n++; return nil }))
	}), 0, "allocations")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = crash.Guard(func() error { runtime.Goexit(); return nil }) // is not a panic
		t.Error("Goexit came back")
	}()
	<-ended
}

func BenchmarkGuard(b *testing.B) {
	for b.Loop() {
		check.Must(b, crash.Guard(func() error { return nil }))
	}
}
