package scratch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settle is the age up to which a directory without a lock may still be under
	// construction.
	settle = time.Minute

	// foreign is the age up to which a directory from another kernel is not a leftover.
	// Its locks are not visible here, so its owner may be alive.
	foreign = 7 * 24 * time.Hour
)

var (
	dirName = regexp.MustCompile(`^ipcbench-[0-9a-f]{16}(\.gone)?$`)
	owner   = regexp.MustCompile(`^pid ([0-9]{1,9}), parent ([0-9]{1,9}), of ipcbench since ([0-9TZ:+-]{1,32}), boot ([0-9a-f-]{36}|unknown)\n$`)
)

// ownerText returns the contents of this process's lock files. A directory
// whose lock has other contents is never a leftover.
func ownerText() string {
	return fmt.Sprintf("pid %d, parent %d, of ipcbench since %s, boot %s\n",
		os.Getpid(), os.Getppid(), time.Now().Format(time.RFC3339), boot())
}

// boot returns the id of the running kernel. Each boot and each virtual machine has
// another one.
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// A Leftover is a session's directory whose owner has ended without removing it.
type Leftover struct {
	Path        string
	Owner       string // description of the owner, for display
	PID, Parent int    // process ids of the owner and its parent; 0 if unknown
	Bytes       int64  // size of all its files
}

// Leftovers returns all leftovers in the directories roots, as found by [Inspect]. A root
// that does not exist is not an error.
func Leftovers(roots ...string) ([]Leftover, error) {
	var found []Leftover
	var errs error
	for _, root := range roots {
		entries, err := os.ReadDir(root)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, fmt.Errorf("scratch: %w", err))
		}
		for _, e := range entries {
			if l, err := Inspect(filepath.Join(root, e.Name())); err == nil {
				found = append(found, l)
			}
		}
	}
	return found, errs
}

// Inspect returns the leftover at path. If path is not certainly a leftover, the error
// states the reason.
func Inspect(path string) (Leftover, error) {
	l, held, err := claim(path)
	if held != nil {
		held.Close()
	}
	if err != nil {
		return Leftover{}, fmt.Errorf("scratch: %s: %w", path, err)
	}
	return l, nil
}

// Remove deletes the directory. It first checks again that it is a leftover.
func (l Leftover) Remove() error {
	_, held, err := claim(l.Path)
	if held != nil {
		defer held.Close()
	}
	if err == nil {
		err = remove(l.Path)
	}
	if err != nil {
		return fmt.Errorf("scratch: %s: %w", l.Path, err)
	}
	return nil
}

// claim is like Inspect, but also returns the locked lock file, or nil if there is none.
// The caller must close the file, even after an error.
func claim(path string) (Leftover, *os.File, error) {
	l := Leftover{Path: path, Owner: "never got its lock"}
	if !dirName.MatchString(filepath.Base(path)) {
		return l, nil, errors.New("does not have the name of a session's directory")
	}
	info, err := os.Lstat(path)
	if err != nil {
		return l, nil, err
	}
	if info.Mode().Type() != fs.ModeDir || info.Mode().Perm() != 0o700 { // a setgid bit may be inherited
		return l, nil, fmt.Errorf("mode %v, a session's directory has %v", info.Mode(), fs.ModeDir|0o700)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return l, nil, errors.New("belongs to another user")
	}
	held, err := l.hold()
	if errors.Is(err, fs.ErrNotExist) {
		err = unfinished(path)
	}
	if err == nil {
		l.Bytes, err = extent(path)
	}
	return l, held, err
}

// unfinished returns an error unless path is a directory whose construction or removal was
// interrupted: it is empty or has only an unfinished lock, and has not changed recently.
func unfinished(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != newLock || !e.Type().IsRegular() {
			return fmt.Errorf("has no lock, but contains %s", e.Name())
		}
		if info, err := e.Info(); err != nil || info.Size() > 0 && !wrote(filepath.Join(path, newLock), info.Size()) {
			return fmt.Errorf("has no lock, but contains %s, which was not written by ipcbench", newLock)
		}
	}
	// After a recent change, it may be under construction or removal. The time must be
	// read last, because removing the lock is a change.
	info, err := os.Lstat(path)
	if err == nil && time.Since(info.ModTime()) < settle {
		err = fmt.Errorf("has no lock, and changed less than %v ago", settle)
	}
	return err
}

// wrote reports whether a regular file of that size has the contents of a lock.
func wrote(path string, size int64) bool {
	if size > mostOwner {
		return false
	}
	text, err := os.ReadFile(path)
	return err == nil && owner.Match(text)
}

// hold locks the lock file, which fails if the owner is alive, and reads the owner from
// it. If the file was removed before it could be locked, the error is fs.ErrNotExist. The
// returned file is open; with an error, it is nil.
func (l *Leftover) hold() (f *os.File, err error) {
	const flags = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK // a pipe would wait for a writer
	if f, err = os.OpenFile(filepath.Join(l.Path, lockName), flags, 0); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
			f = nil
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return f, err
	}
	if !info.Mode().IsRegular() {
		return f, errors.New("its lock is not a regular file")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return f, errors.New("in use: its owner is alive and holds the lock")
	} else if err != nil {
		return f, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return f, err
	}
	if st.Nlink == 0 {
		return f, fs.ErrNotExist
	}
	text, err := io.ReadAll(io.LimitReader(f, mostOwner))
	if err != nil {
		return f, err
	}
	m := owner.FindStringSubmatch(string(text))
	if m == nil {
		return f, errors.New("its lock was not written by ipcbench")
	}
	l.PID, _ = strconv.Atoi(m[1]) // cannot fail: the pattern has at most 9 digits
	l.Parent, _ = strconv.Atoi(m[2])
	l.Owner = fmt.Sprintf("pid %d, since %s", l.PID, m[3])
	if here := boot(); (m[4] != here || here == "unknown") && time.Since(info.ModTime()) < foreign {
		return f, fmt.Errorf("made under another kernel, or before this one booted, less than %v days ago: its owner may still be alive",
			foreign.Hours()/24)
	}
	return f, nil
}

// extent returns the size of all files in dir. A mount in dir is an error, because
// removing dir would delete files of another owner.
func extent(dir string) (bytes int64, err error) {
	here, err := mount(filepath.Dir(dir))
	if err != nil {
		return 0, err
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !e.IsDir() {
			if info, err := e.Info(); err == nil { // skip files removed since
				bytes += info.Size()
			}
			return nil
		}
		m, err := mount(path)
		if err == nil && m != here {
			err = fmt.Errorf("%s is a mount", path)
		}
		return err
	})
	return bytes, err
}

// mount returns the id of the mount that contains dir. Kernels before 5.8 do not report
// it; there it returns the device, which does not reveal bind mounts within one file
// system.
func mount(dir string) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &st); err != nil {
		return 0, &fs.PathError{Op: "statx", Path: dir, Err: err}
	}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id, nil
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor), nil
}
