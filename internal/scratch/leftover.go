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
	// settle is how long a directory without a lock is taken for one that is
	// just being made.
	settle = time.Minute

	// foreign is how long a directory of another kernel is left alone: its locks
	// do not reach us, so we cannot know whether its owner lives.
	foreign = 7 * 24 * time.Hour
)

var (
	dirName = regexp.MustCompile(`^ipcbench-[0-9a-f]{16}(\.gone)?$`)
	owner   = regexp.MustCompile(`^pid ([0-9]{1,9}), parent ([0-9]{1,9}), of ipcbench since ([0-9TZ:+-]{1,32}), boot ([0-9a-f-]{36}|unknown)\n$`)
)

// ownerText is what this process writes into its locks. Who asks whether a
// directory is ours looks for it.
func ownerText() string {
	return fmt.Sprintf("pid %d, parent %d, of ipcbench since %s, boot %s\n",
		os.Getpid(), os.Getppid(), time.Now().Format(time.RFC3339), boot())
}

// boot names the running kernel. It changes with every boot, and a virtual
// machine has its own.
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// A Leftover is a directory of a session whose owner is gone.
type Leftover struct {
	Path        string
	Owner       string // for display
	PID, Parent int    // of the owner, and of the process that had started it; 0 if unknown
	Bytes       int64  // of all files in it
}

// Leftovers returns the directories under roots that are certainly left behind:
// those for which Inspect has no error. A root that does not exist has none.
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

// Inspect returns the leftover at path. Anything else, and anything doubtful, is
// an error that says why it is none.
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

// Remove deletes the directory, unless it is none that is left behind by now.
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

// claim is Inspect that keeps the lock, if there is one.
func claim(path string) (Leftover, *os.File, error) {
	l := Leftover{Path: path, Owner: "never got its lock"}
	if !dirName.MatchString(filepath.Base(path)) {
		return l, nil, errors.New("has not the name of a session's directory")
	}
	info, err := os.Lstat(path)
	if err != nil {
		return l, nil, err
	}
	if info.Mode() != fs.ModeDir|0o700 {
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

// unfinished returns an error unless path is a directory that never got its
// lock, or is empty since it has lost it.
func unfinished(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != newLock || !e.Type().IsRegular() {
			return fmt.Errorf("has no lock, but %s", e.Name())
		}
		if info, err := e.Info(); err != nil || info.Size() > 0 && !wrote(filepath.Join(path, newLock), info.Size()) {
			return fmt.Errorf("has no lock, but %s, which was not written by ipcbench", newLock)
		}
	}
	// It is being made or being removed, unless nothing has changed in it for
	// long. The time is asked for last: the removal of the lock is a change.
	info, err := os.Lstat(path)
	if err == nil && time.Since(info.ModTime()) < settle {
		err = fmt.Errorf("has no lock, and changed less than %v ago", settle)
	}
	return err
}

// wrote reports whether the file, a regular one of that size, says who made it as
// a lock does.
func wrote(path string, size int64) bool {
	if size > mostOwner {
		return false
	}
	text, err := os.ReadFile(path)
	return err == nil && owner.Match(text)
}

// hold takes the lock, which fails if the owner lives, and reads who it was. A
// file that was removed between the opening and the locking is no lock any
// more: it does not exist. The file is kept open only without an error.
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
		return f, errors.New("its lock is no regular file")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return f, errors.New("in use: its owner lives and holds the lock")
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
	l.PID, _ = strconv.Atoi(m[1]) // the pattern has few digits there
	l.Parent, _ = strconv.Atoi(m[2])
	l.Owner = fmt.Sprintf("pid %d, since %s", l.PID, m[3])
	if here := boot(); (m[4] != here || here == "unknown") && time.Since(info.ModTime()) < foreign {
		return f, fmt.Errorf("made under another kernel, or before this one booted, less than %v days ago: its owner may still live",
			foreign.Hours()/24)
	}
	return f, nil
}

// extent returns the bytes of all files in dir. It is an error if something is
// mounted there, which a removal would reach: it is not ours.
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
			if info, err := e.Info(); err == nil { // or it is gone
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

// mount returns the number of the mount that a directory lies in, or of its
// device on kernels that do not tell (before 5.8). A bind mount within one file
// system has the same device, but a mount of its own.
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
