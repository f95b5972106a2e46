package slab

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
)

// TestMemoryIsTouched: pages are reserved and mapped when the memory is made, so later
// writes do not fault. Neither do reads of a read-only mapping.
func TestMemoryIsTouched(t *testing.T) {
	const pages = 1000
	dir, err := os.MkdirTemp("/dev/shm", "slab-test-") // on a tmpfs, because file systems on disks fault to track writes
	check.Must(t, err)
	defer os.RemoveAll(dir)
	for name, open := range map[string]func() (*Memory, error){
		"anonymous": func() (*Memory, error) { return Anonymous(pages*4096, "") },
		"memfd":     func() (*Memory, error) { return Memfd("test", pages*4096, ReadWrite, Touched) },
		"file":      func() (*Memory, error) { return CreateFile(filepath.Join(dir, "f"), pages*4096, Touched) },
		"opened": func() (*Memory, error) {
			m, err := Memfd("test", pages*4096, ReadWrite, Touched)
			if err != nil {
				return nil, err
			}
			return Open(dup(t, m.File()), pages*4096, ReadWrite, Touched)
		},
		"read": func() (*Memory, error) { return Memfd("test", pages*4096, ReadOnly, Touched) },
	} {
		m := check.Value(open())(t)
		absent := proc.Absent(t, m.Bytes())
		check.That(t, absent <= pages/32, "%s: %d of %d pages are absent", name, absent, pages) // the kernel may take some away
		check.Must(t, m.Close())
	}
}

func dup(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd := check.Value(unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0))(t)
	return os.NewFile(uintptr(fd), f.Name())
}

// TestOpenChecksDescriptor: a descriptor without the required seals or size is refused
// before it is mapped, each with its own error.
func TestOpenChecksDescriptor(t *testing.T) {
	unsealed := func(size int64) *os.File {
		fd := check.Value(unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))(t)
		f := os.NewFile(uintptr(fd), "unsealed")
		check.Must(t, f.Truncate(size))
		return f
	}
	half := unsealed(4096)
	check.Must(t, check.Err(unix.FcntlInt(half.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW)))
	m := check.Value(Memfd("good", 4096, ReadWrite, Touched))(t)
	defer m.Close()
	plain := check.Value(os.Create(filepath.Join(t.TempDir(), "plain")))(t)
	check.Must(t, plain.Truncate(4096))
	r, w, err := os.Pipe()
	check.Must(t, err)
	defer w.Close()

	for name, c := range map[string]struct {
		f    *os.File
		size int
		want error
	}{
		"no seals":    {unsealed(4096), 4096, ErrSeals},
		"may shrink":  {half, 4096, ErrSeals},
		"a file":      {plain, 4096, ErrSeals},
		"a pipe":      {r, 4096, ErrNotRegular},
		"smaller":     {dup(t, m.File()), 8192, ErrSize},
		"larger":      {dup(t, m.File()), 64, ErrSize},
		"not a size":  {dup(t, m.File()), -1, ErrSize},
		"as it seems": {dup(t, m.File()), 4096, nil},
	} {
		got, err := Open(c.f, c.size, ReadOnly, Touched)
		check.That(t, errors.Is(err, c.want), "%s: got %v, want %v", name, err, c.want)
		if err == nil {
			check.Must(t, got.Close())
		}
	}
}

// TestFreeze: A25: frozen memory cannot be mapped for writing any more. An existing
// writable mapping stays.
func TestFreeze(t *testing.T) {
	m := check.Value(Memfd("frozen", 4096, ReadWrite, Touched))(t)
	check.Must(t, m.Freeze())
	_, err := Open(dup(t, m.File()), 4096, ReadWrite, Touched)
	refused(t, err, unix.EPERM)
	r := check.Value(Open(dup(t, m.File()), 4096, ReadOnly, Touched))(t)
	m.Bytes()[7] = 42
	check.That(t, r.Bytes()[7] == 42, "mappings are not of the same memory")
	check.Must(t, r.Close())
	check.Must(t, m.Close())
}

// TestKeep: memory that is kept outlives its owner's Close.
func TestKeep(t *testing.T) {
	m, err := Memfd("kept", 0, ReadWrite, Touched) // a size of 0 is allowed
	check.Must(t, err)
	check.That(t, m.Len() == 0, "got %d bytes, want none", m.Len())
	m.Keep()
	check.Must(t, m.Close())
	check.That(t, m.File() != nil && m.bytes != nil, "unmapped under a keeper")
	check.Must(t, m.Close())
	defer func() {
		check.That(t, recover() != nil, "closed once more than kept")
	}()
	m.Close()
}

// TestTooLarge: memory that does not fit is an error, and leaves no file behind.
func TestTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge")
	_, err := CreateFile(path, 1<<60, Untouched)
	check.That(t, err != nil, "made a file of an exabyte")
	_, err = os.Stat(path)
	refused(t, err, os.ErrNotExist)
}
