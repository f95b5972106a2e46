package pages

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Available returns an error if some kind of memory cannot be in huge pages here: private memory,
// shared memory without a name, or files in dir. The error has the command that changes that. It makes
// a little memory of each kind and observes it, once.
func Available(dir string) error {
	mu.Lock()
	try := tried[dir]
	if try == nil {
		try = sync.OnceValue(func() error { return available(dir) })
		tried[dir] = try
	}
	mu.Unlock()
	return try()
}

var tried = map[string]func() error{} // guarded by mu

func available(dir string) error {
	private := Huge.Heap(2 * Bytes)
	for at := 0; at < len(private); at += pageSize {
		private[at] = 0
	}
	const settings = "/sys/kernel/mm/transparent_hugepage/"
	if err := inHuge(private, nil); err != nil {
		return fmt.Errorf("private memory is not in huge pages%w: echo madvise >%senabled", err, settings)
	}
	fd, err := unix.MemfdCreate("ipcbench-pages", unix.MFD_CLOEXEC)
	if err := sharedInHuge(fd, err); err != nil {
		return fmt.Errorf("shared memory is not in huge pages%w: echo advise >%sshmem_enabled", err, settings)
	}
	fd, err = unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err := sharedInHuge(fd, err); err != nil {
		return fmt.Errorf("files in %s are not in huge pages%w: mount -o remount,huge=within_size %[1]s", dir, err)
	}
	return nil
}

// sharedInHuge takes ownership of fd.
func sharedInHuge(fd int, err error) error {
	if err != nil {
		return inHuge(nil, err)
	}
	f := os.NewFile(uintptr(fd), "pages")
	defer f.Close()
	if err := f.Truncate(2 * Bytes); err != nil {
		return inHuge(nil, err)
	}
	b, err := Huge.Map(fd, 2*Bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return inHuge(nil, err)
	}
	return errors.Join(inHuge(b, Huge.Populate(b)), Unmap(b))
}

// A reason says why memory is not in huge pages, as the middle of a sentence.
type reason struct{ error }

func (r reason) Error() string {
	if r.error == nil {
		return ""
	}
	return " (" + r.error.Error() + ")"
}

// inHuge returns a reason unless all of b is in huge pages.
func inHuge(b []byte, err error) error {
	if err == nil {
		var whole, huge int64
		if whole, huge, err = observed(map[uintptr]int{address(b): len(b)}); err == nil && whole == huge {
			return nil
		}
	}
	return reason{err}
}
