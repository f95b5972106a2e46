// Package crash turns panics and faults of mapped memory into errors.
//
// Any process that may write to a mapped file can truncate it. Access to a page beyond the
// new end causes SIGBUS, which ends a Go process at once, without cleaning up and without
// naming the file. Memory whose size is sealed cannot shrink, but a file with a name
// cannot be sealed. So code that accesses mapped files, or calls a user's functions, must
// run in [Guard].
//
// Guard covers only the goroutine that calls it. A fault in a system call is not a signal;
// the call returns EFAULT.
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

// Guard calls f and returns its error. If f panics or a memory access of f fails, it
// returns the error from [Error] instead.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = Error(v)
		}
	}()
	return f()
}

// Error returns an error for v, the result of recover. It must be called in the deferred
// function that called recover, which still has the stack of the panic. For a fault of
// mapped memory, the error names the mapped file. For any other panic, it contains the
// value and the stack.
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

// mapped returns the file that is mapped at an address and the likely cause of a fault
// there, or "" if no file is mapped there.
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
			return "" // stack or heap: a bug of the program
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
		return text + "it was truncated while it was mapped, or its pages are not available"
	}
	return ""
}

// stack returns the stack of the panic, without the frames between the panic and this
// function.
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
