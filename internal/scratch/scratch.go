// Package scratch makes private directories for sessions, and finds directories left by crashes.
//
// All named objects of a session (sockets, files, segments) are in such a directory. It has
// mode 0700 and a random name. Its owner holds an flock on the file "lock" in it while
// the owner is alive. The kernel releases the lock when the owner ends, even by SIGKILL.
// So detecting use does not depend on process ids, which differ between containers.
//
// Package scratch imports no other package of ipcbench.
package scratch

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	lockName = "lock"
	newLock  = "lock.new" // the lock's name until it is locked

	mostOwner = 512 // limit of a lock file's size, in bytes

	// goneSuffix marks a directory that its owner is removing.
	goneSuffix = ".gone"

	// longest is the limit of a directory's path, in bytes. A Unix socket in it can have
	// a name of 20 bytes, because sun_path holds 108 bytes and ends with a zero.
	longest = 108 - 1 - 1 - 20
)

// SharedMemory is the directory of named shared-memory segments on Linux.
const SharedMemory = "/dev/shm"

// Roots returns the parent directories of sessions' directories: the temporary directory
// and, for named shared memory, /dev/shm.
func Roots() []string { return []string{os.TempDir(), SharedMemory} }

// A Dir is a private directory that this process owns.
type Dir struct {
	path string
	lock *os.File
}

// Named reports whether name has the form of the names that New gives to directories.
func Named(name string) bool {
	return dirName.MatchString(name) && !strings.HasSuffix(name, goneSuffix)
}

// New makes a private directory in root, with an absolute path. The caller must close it.
func New(root string) (*Dir, error) {
	var id [8]byte
	rand.Read(id[:]) // never fails
	path, err := filepath.Abs(filepath.Join(root, "ipcbench-"+hex.EncodeToString(id[:])))
	if err != nil {
		return nil, fmt.Errorf("scratch: %w", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, fmt.Errorf("scratch: %w", err)
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("scratch: lock %s: %w", path, err), os.RemoveAll(path))
	}
	return &Dir{path: path, lock: lock}, nil
}

// Try returns the error of making and removing a directory for Unix sockets in root.
func Try(root string) error {
	dir, err := New(root)
	if err == nil {
		err = dir.Close()
	}
	if err == nil && len(dir.path) > longest {
		err = fmt.Errorf("scratch: %s is too long for Unix sockets in it (%d bytes, at most %d): choose a shorter TMPDIR",
			dir.path, len(dir.path), longest)
	}
	return err
}

// takeLock makes the lock file under another name and renames it when it is locked, so
// that other processes never see it unlocked while its owner is alive.
func takeLock(dir string) (*os.File, error) {
	newborn, text := filepath.Join(dir, newLock), ownerText() // first, because it needs a descriptor for a moment
	f, err := os.OpenFile(newborn, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(newborn, filepath.Join(dir, lockName))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// Close removes the directory with all files, and releases the lock. A second call does
// nothing. Close renames it first, so that other processes cannot find it to add files.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	path := d.path + goneSuffix
	if os.Rename(d.path, path) != nil {
		path = d.path
	}
	_, err := extent(path)
	if errors.Is(err, unix.EMFILE) { // the lock has the last descriptor
		_ = d.lock.Close()
		_, err = extent(path)
	}
	if err == nil {
		err = remove(path)
	}
	_ = d.lock.Close() // may be closed already
	d.lock = nil
	if err != nil {
		return fmt.Errorf("scratch: remove %s: %w", d.path, err)
	}
	return nil
}

// remove deletes a directory and its files, the lock last. If that is interrupted, the
// rest can still be recognized as a leftover.
func remove(dir string) error {
	for try := 1; ; try++ {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, e := range entries {
			if e.Name() != lockName {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
		}
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(dir, lockName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err = os.Remove(dir)
		// If not empty, a process has added a file that opened dir before Close renamed it.
		if !errors.Is(err, syscall.ENOTEMPTY) || try == 3 {
			return err
		}
	}
}
