package world

import (
	"context"
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

// A Rendezvous is the file that tells the other ranks of a job how to join rank 0.
// Only its user can read it, since it holds a secret.
//
// Rank 0 holds an flock on it, which the kernel drops with the process. Whoever removes
// the file, or makes it his, first takes that lock and then looks whether the path
// still leads to what he has locked. So a file is removed only if nobody lives who
// made it, and what rank 0 has just made, and not yet locked, may vanish: it makes
// another one.
//
// What another kernel wrote is an exception: some file systems that hosts share keep
// locks to one host. So ranks that wait never remove such a file. They believe it if it
// is of their job, and otherwise leave it to rank 0.
type Rendezvous struct {
	path string
	file *os.File
}

const (
	mostText   = 4096 // bytes that a rendezvous file has
	tryEvery   = 20 * time.Millisecond
	lockedOnce = 2 * time.Second // longer than any rank that waits holds the lock
)

const header = "ipcbench rendezvous\n"

var content = regexp.MustCompile("^" + header + `job (".*")\nboot (.*)\n(.*)\n$`)

// Private returns the path of the file through which the ranks of a job meet that are
// all on this host. Each user has files of his own.
func Private(job string) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", r) {
			return r
		}
		return '_'
	}, job)
	return filepath.Join(os.TempDir(), fmt.Sprintf("ipcbench-world-%d-%s", os.Geteuid(), name))
}

// Offer makes the file, with a text of one line in it. It replaces what a killed job of
// this user has left, and nothing else.
func Offer(ctx context.Context, path, job, text string) (*Rendezvous, error) {
	if err := folder(path); err != nil {
		return nil, err
	}
	for began := time.Now(); ; {
		r, err := create(path, fmt.Sprintf(header+"job %q\nboot %s\n%s\n", job, boot(), text))
		if !errors.Is(err, fs.ErrExist) {
			return r, err
		}
		switch other, err := look(path, true); {
		case errors.Is(err, fs.ErrNotExist): // by now
		case err != nil:
			return nil, err
		case other.living && time.Since(began) > lockedOnce:
			return nil, fmt.Errorf("%s: of job %s, which lives: want a file of its own for each job", path, other.job)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// create makes the file. If there is one, or a rank that waits has just taken this one
// for one that was left, that is fs.ErrExist.
func create(path, text string) (*Rendezvous, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	ours, err := locked(f, path)
	switch {
	case err != nil: // there are no locks
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	case !ours:
		return nil, errors.Join(fs.ErrExist, f.Close())
	}
	r := &Rendezvous{path, f}
	if _, err := f.WriteString(text); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close removes the file, if it is still there.
func (r *Rendezvous) Close() error {
	ours, err := locked(r.file, r.path)
	if ours {
		err = os.Remove(r.path)
	}
	return errors.Join(err, r.file.Close())
}

// Await returns the text of the job's file as soon as there is one.
func Await(ctx context.Context, path, job string) (string, error) {
	if err := folder(path); err != nil {
		return "", err
	}
	job = strconv.Quote(job)
	var before found
	for began := time.Now(); ; {
		f, err := look(path, false)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		case f.text == "" || !f.living && !f.foreign || f != before: // seen once, another rank may just be removing it
		case f.job == job:
			return f.text, nil
		case f.living && time.Since(began) > lockedOnce:
			return "", fmt.Errorf("%s: of job %s, which lives, and this one is %s: want a file of its own for each job", path, f.job, job)
		}
		before = f
		if err := pause(ctx); err != nil {
			return "", fmt.Errorf("%s: rank 0 has not written it: %w", path, err)
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(tryEvery):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// folder refuses one in which others could put files in the place of ours.
func folder(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	case info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("%s: everybody may replace files there (mode %v): want a folder of your own, or one like /tmp", dir, info.Mode())
	}
	return nil
}

// found is what stands in a file.
type found struct {
	job, text string // empty if nothing, or not all, is written yet
	living    bool   // who wrote it holds its lock
	foreign   bool   // another kernel's process wrote it
}

// look reads the file, and removes it if nobody lives who wrote it: those that another
// kernel wrote only with all set. A file that is gone is fs.ErrNotExist.
func look(path string, all bool) (l found, err error) {
	refuse := func(format string, args ...any) (found, error) {
		return found{}, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
	}
	// Without waiting: a pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return refuse("a link: want the file itself")
	}
	if err != nil {
		return l, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return l, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return refuse("no regular file (%v)", info.Mode())
	case !ok || int(st.Uid) != os.Geteuid():
		return refuse("of another user (%d): want one that this user (%d) has made", st.Uid, os.Geteuid())
	case info.Mode().Perm() != 0o600:
		return refuse("others may read or write it (mode %v): want %v", info.Mode(), fs.FileMode(0o600))
	case st.Nlink > 1:
		return refuse("has another name, too (a hard link)")
	case info.Size() > mostText:
		return refuse("%d bytes: no file that ipcbench wrote", info.Size())
	}
	text, err := io.ReadAll(io.LimitReader(f, mostText))
	if err != nil {
		return l, err
	}
	if m := content.FindSubmatch(text); m != nil {
		here := boot()
		l = found{job: string(m[1]), text: string(m[3]), foreign: string(m[2]) != here || here == ""}
	}
	if l.foreign && !all {
		return l, nil
	}
	free, err := locked(f, path)
	switch l.living = !free; {
	case err != nil || !free:
		return l, err
	case !strings.HasPrefix(string(text), header[:min(len(header), len(text))]):
		return refuse("no file that ipcbench wrote")
	}
	return l, os.Remove(path)
}

// locked takes the lock of a file, and reports whether it has it and the path still
// leads there.
func locked(f *os.File, path string) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: flock: %w: want a file system with locks", path, err)
	}
	own, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(own, there), err
}

// boot names the running kernel; empty if it does not say.
func boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // then no lock is trusted
	return strings.TrimSpace(string(id))
}
