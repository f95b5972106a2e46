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
	try, _ := found.LoadOrStore(dir, sync.OnceValue(func() error { return available(dir) }))
	return try.(func() error)()
}

// Fallocates reports whether fallocate(2) reserves pages of that size for files in dir or, if dir is
// empty, for memory without a name. It tries that for huge pages, once. Otherwise only a mapping can ask
// for them, and the kernel then clears the pages at once instead of at the first access.
func (s Size) Fallocates(dir string) bool {
	if s != Huge {
		return s == System // small mappings do not show whether the file has huge pages
	}
	try, _ := reserves.LoadOrStore(dir, sync.OnceValue(func() bool {
		whole, huge, err := shared(dir, func(f *os.File, b []byte) error {
			return unix.Fallocate(int(f.Fd()), 0, 0, int64(len(b)))
		})
		return err == nil && huge == whole
	}))
	return try.(func() bool)()
}

// What this machine does, by directory: functions that find it once.
var found, reserves sync.Map

func available(dir string) error {
	private := Huge.Heap(2 * Bytes)
	write(private)
	const settings = "/sys/kernel/mm/transparent_hugepage/"
	whole, huge, err := observed(map[uintptr]int{address(private): len(private)})
	if err != nil || huge < whole {
		return fmt.Errorf("private memory is not in huge pages%w: echo madvise >%senabled", reason{err}, settings)
	}
	populate := func(_ *os.File, b []byte) error { return Populate(b) }
	if whole, huge, err = shared("", populate); err != nil || huge < whole {
		return fmt.Errorf("shared memory is not in huge pages%w: echo advise >%sshmem_enabled", reason{err}, settings)
	}
	if whole, huge, err = shared(dir, populate); err != nil || huge < whole {
		return fmt.Errorf("files in %s are not in huge pages%w: mount -o remount,huge=advise %[1]s", dir, reason{err})
	}
	return nil
}

// shared makes a little shared memory, reserves its pages, writes it, and observes it.
func shared(dir string, reserve func(f *os.File, b []byte) error) (whole, huge int64, err error) {
	var fd int
	if dir == "" {
		fd, err = unix.MemfdCreate("ipcbench-pages", unix.MFD_CLOEXEC)
	} else {
		fd, err = unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return 0, 0, err
	}
	f := os.NewFile(uintptr(fd), "pages")
	defer f.Close()
	if err := f.Truncate(2 * Bytes); err != nil {
		return 0, 0, err
	}
	b, err := Huge.Map(fd, 2*Bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return 0, 0, err
	}
	if err = reserve(f, b); err == nil {
		write(b)
		whole, huge, err = observed(map[uintptr]int{address(b): len(b)})
	}
	return whole, huge, errors.Join(err, Unmap(b))
}

func write(b []byte) {
	for at := 0; at < len(b); at += pageSize {
		b[at] = 1
	}
}

// A reason says why memory is not in huge pages, as the middle of a sentence.
type reason struct{ error }

func (r reason) Error() string {
	if r.error == nil {
		return ""
	}
	return " (" + r.error.Error() + ")"
}
