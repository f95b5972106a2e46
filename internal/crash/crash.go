// Package crash turns what would end the process into an error: a panic, and a
// fault of mapped memory.
//
// A file that is mapped may be truncated by anybody who may write to it. Whoever
// touches a page beyond its new end gets SIGBUS, which ends a Go process at once:
// without cleaning up, and without naming the file. Memory whose size is sealed
// cannot shrink; a file with a name cannot be sealed. So whoever touches mapped
// memory of that kind, or calls a function that its users wrote, does so inside of
// [Guard].
//
// Guard covers the goroutine that calls it, and no other one that it starts. A
// fault inside of a system call is no signal but the call's own error, EFAULT.
package crash

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Guard calls f and returns its error, or if f panics or touches memory that is
// not there, an error as [Error] makes it.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = Error(v)
		}
	}()
	return f()
}

// Error returns the error for v, what recover returned; only the deferred function
// that called recover may ask, since the stack is still that of the panic there. For
// a fault of mapped memory the error names the mapped file; for any other panic it
// holds the value and the stack.
func Error(v any) error {
	if fault, ok := v.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		if text := mapped(uint64(fault.Addr())); text != "" {
			return fmt.Errorf("memory fault in %s", text)
		}
	}
	if err, ok := v.(error); ok {
		return fmt.Errorf("panic: %w\n%s", err, stack())
	}
	return fmt.Errorf("panic: %v\n%s", v, stack())
}

// mapped says which file is mapped at an address, and what is wrong with it. It
// returns nothing if there is none.
func mapped(at uint64) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		// 7f0000000000-7f0000100000 rw-s 00001000 00:1a 42    /dev/shm/name of the file
		area, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		first, last, _ := strings.Cut(area, "-")
		start, err1 := strconv.ParseUint(first, 16, 64)
		end, err2 := strconv.ParseUint(last, 16, 64)
		f := strings.SplitN(rest, " ", 5)
		if err1 != nil || err2 != nil || at < start || at >= end || len(f) < 5 {
			continue
		}
		path := strings.TrimSpace(f[4])
		offset, err := strconv.ParseUint(f[1], 16, 64)
		if err != nil || path == "" || path[0] == '[' {
			return "" // the stack or the heap: a fault of the program's own
		}
		offset += at - start
		text := fmt.Sprintf("%s, at byte %d: ", path, offset)
		info, err := os.Stat(path)
		switch {
		case err == nil && uint64(info.Size()) <= offset:
			return text + fmt.Sprintf("the file was truncated to %d bytes while it was mapped", info.Size())
		case f[0][0] != 'r' || f[0][1] != 'w':
			return text + "it is mapped with the rights " + f[0] + " only, or was truncated while it was mapped"
		}
		return text + "it was truncated while it was mapped, or its pages cannot be had"
	}
	return ""
}

// stack returns the stack of the panic, without what led from the panic here.
func stack() []byte {
	all := debug.Stack()
	if _, after, ok := bytes.Cut(all, []byte("\npanic(")); ok {
		if _, after, ok = bytes.Cut(after, []byte("\n\t")); ok {
			if _, after, ok = bytes.Cut(after, []byte("\n")); ok {
				all = after
			}
		}
	}
	return bytes.TrimSpace(all)
}
