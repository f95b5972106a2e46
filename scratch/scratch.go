// Package scratch makes the private directories of ipcbench's sessions and
// finds those that a crash has left behind.
//
// Everything that has a name (sockets, files, named segments) lives in such a
// directory: mode 0700, with a random name. The owner holds an flock on the
// file "lock" in it for as long as it lives, so whether a directory is in use
// does not depend on process ids, which mean different things in different
// containers. The kernel drops the lock with the owner, also after SIGKILL.
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
	"time"

	"golang.org/x/sys/unix"
)

const (
	prefix   = "ipcbench-"
	lockName = "lock"

	// goneSuffix marks a directory that its owner is removing.
	goneSuffix = ".gone"

	// longest path of a directory in which a Unix socket with a name of up to
	// 20 bytes still fits: sun_path holds 108 bytes and ends with a zero.
	longest = 108 - 1 - 1 - 20

	// settle is how long a directory without a lock is taken for one that is
	// just being made.
	settle = time.Minute
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

// New makes a private directory under root.
func New(root string) (*Dir, error) {
	var id [8]byte
	rand.Read(id[:]) // never fails
	path := filepath.Join(root, prefix+hex.EncodeToString(id[:]))
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

// takeLock makes the lock file under another name and renames it only when it
// is locked, so that nobody ever sees it unlocked while its owner lives.
func takeLock(dir string) (*os.File, error) {
	newborn := filepath.Join(dir, lockName+".new")
	f, err := os.OpenFile(newborn, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(f, "pid %d, started %s\n", os.Getpid(), time.Now().Format(time.RFC3339)) // for display only
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
	err := os.RemoveAll(path)
	if errors.Is(err, syscall.ENOTEMPTY) { // a file whose creator had found the directory before it lost its name
		err = os.RemoveAll(path)
	}
	err = errors.Join(err, d.lock.Close())
	d.lock = nil
	if err != nil {
		return fmt.Errorf("scratch: remove %s: %w", d.path, err)
	}
	return nil
}

// A Leftover is a directory of a session whose owner is gone.
type Leftover struct {
	Path  string
	Owner string // what the owner wrote about itself, for display
	Bytes int64  // of all files in it
	lock  string
}

// Leftovers returns the directories under roots that nobody holds and that
// belong to this user. A root that does not exist has none.
func Leftovers(roots ...string) ([]Leftover, error) {
	var found []Leftover
	var errs error
	for _, root := range roots {
		entries, err := os.ReadDir(root)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, fmt.Errorf("scratch: %w", err))
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), prefix) || !e.IsDir() {
				continue
			}
			if l, ok := inspect(filepath.Join(root, e.Name())); ok {
				found = append(found, l)
			}
		}
	}
	return found, errs
}

// inspect reports whether path is a leftover. Anything doubtful is not.
func inspect(path string) (Leftover, bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return Leftover{}, false
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return Leftover{}, false
	}
	l := Leftover{Path: path, lock: filepath.Join(path, lockName)}
	held, err := l.hold()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// It is being made or being removed, unless nothing has changed in it
		// for long: look at the time again, for the removal of the lock is a change.
		if info, err = os.Lstat(path); err != nil || time.Since(info.ModTime()) < settle {
			return Leftover{}, false
		}
		l.Owner = "unknown"
	case err != nil:
		return Leftover{}, false
	default:
		defer held.Close()
		text := make([]byte, 256)
		n, _ := held.ReadAt(text, 0) // for display only
		l.Owner = strings.TrimSpace(string(text[:n]))
	}
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error { // a size for display: best effort
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				l.Bytes += info.Size()
			}
		}
		return nil
	})
	return l, true
}

// hold takes the lock, which fails if the owner lives. A file that was removed
// between the opening and the locking is no lock any more: it does not exist.
func (l Leftover) hold() (*os.File, error) {
	f, err := os.OpenFile(l.lock, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, err
	}
	if st.Nlink == 0 {
		f.Close()
		return nil, fs.ErrNotExist
	}
	return f, nil
}

// Remove deletes the directory, unless somebody holds it by now.
func (l Leftover) Remove() error {
	held, err := l.hold()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("scratch: %s: in use: %w", l.Path, err)
	}
	if held != nil {
		defer held.Close()
	}
	if err := os.RemoveAll(l.Path); err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	return nil
}
