// Package scratch makes the private directories of ipcbench's sessions and
// finds those that a crash has left behind.
//
// Everything that has a name (sockets, files, named segments) lives in such a
// directory: mode 0700, with a random name. The owner holds an flock on the
// file "lock" in it for as long as it lives. So whether a directory is in use does
// not depend on process ids, which differ from container to container. The kernel
// drops the lock with the owner, also after SIGKILL.
//
// Package scratch imports nothing of ours.
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
	newLock  = "lock.new" // it is locked before it gets its name

	mostOwner = 512 // bytes of a lock

	// goneSuffix marks a directory that its owner is removing.
	goneSuffix = ".gone"

	// longest path of a directory in which a Unix socket with a name of up to
	// 20 bytes still fits: sun_path holds 108 bytes and ends with a zero.
	longest = 108 - 1 - 1 - 20
)

// SharedMemory is where named shared-memory segments live on Linux.
const SharedMemory = "/dev/shm"

// Roots returns the directories in which sessions make their own: the temporary
// directory and, for named shared memory, /dev/shm.
func Roots() []string { return []string{os.TempDir(), SharedMemory} }

// A Dir is a private directory that this process owns.
type Dir struct {
	path string
	lock *os.File
}

// Named reports whether name is one that New gives a directory.
func Named(name string) bool {
	return dirName.MatchString(name) && !strings.HasSuffix(name, goneSuffix)
}

// New makes a private directory under root.
func New(root string) (*Dir, error) {
	var id [8]byte
	rand.Read(id[:]) // never fails
	path := filepath.Join(root, "ipcbench-"+hex.EncodeToString(id[:]))
	if len(path) > longest {
		return nil, fmt.Errorf("scratch: %s is too long for Unix sockets in it (%d bytes, at most %d): choose a shorter TMPDIR",
			path, len(path), longest)
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

// Try returns why New would fail.
func Try(root string) error {
	dir, err := New(root)
	if err == nil {
		err = dir.Close()
	}
	return err
}

// takeLock makes the lock file under another name and renames it only when it
// is locked, so that nobody ever sees it unlocked while its owner lives.
func takeLock(dir string) (*os.File, error) {
	newborn := filepath.Join(dir, newLock)
	f, err := os.OpenFile(newborn, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(ownerText())
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

// Close removes the directory and everything in it, then lets go of the lock.
// A second call does nothing. What another process is about to create in the
// directory cannot keep it alive: its name goes first.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	path := d.path + goneSuffix
	if os.Rename(d.path, path) != nil {
		path = d.path
	}
	_, err := extent(path)
	if err == nil {
		err = remove(path)
	}
	err = errors.Join(err, d.lock.Close())
	d.lock = nil
	if err != nil {
		return fmt.Errorf("scratch: remove %s: %w", d.path, err)
	}
	return nil
}

// remove deletes a directory, the lock last: if it is broken off, what remains
// is still known to be ours.
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
		// Not empty: a file whose creator had found the directory before it lost its name.
		if !errors.Is(err, syscall.ENOTEMPTY) || try == 3 {
			return err
		}
	}
}
