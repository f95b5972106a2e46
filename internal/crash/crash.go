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
	"slices"

	"github.com/prometheus/procfs"
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
		if text := mapped(fault.Addr()); text != "" {
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
func mapped(at uintptr) string {
	var maps []*procfs.ProcMap
	if self, err := procfs.Self(); err == nil {
		maps, _ = self.ProcMaps() // nil with an error
	}
	i := slices.IndexFunc(maps, func(m *procfs.ProcMap) bool { return at >= m.StartAddr && at < m.EndAddr })
	if i < 0 || maps[i].Pathname == "" || maps[i].Pathname[0] == '[' {
		return "" // stack or heap: a bug of the program
	}
	m := maps[i]
	offset := m.Offset + int64(at-m.StartAddr)
	text := fmt.Sprintf("%s, at byte %d: ", m.Pathname, offset)
	info, err := os.Stat(m.Pathname)
	switch {
	case err == nil && info.Size() <= offset:
		return text + fmt.Sprintf("the file was truncated to %d bytes while it was mapped", info.Size())
	case !m.Perms.Read || !m.Perms.Write:
		return text + "it is mapped read-only, or was truncated while it was mapped"
	}
	return text + "it was truncated while it was mapped, or its pages are not available"
}

// stack returns the stack of the panic, without the frames between the panic and this
// function.
func stack() []byte {
	all := debug.Stack()
	rest := all
	for _, end := range []string{"\npanic(", "\n\t", "\n"} {
		_, after, ok := bytes.Cut(rest, []byte(end))
		if !ok {
			return all
		}
		rest = after
	}
	return bytes.TrimSpace(rest)
}
