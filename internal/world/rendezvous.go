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
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ranks of a job meet through a file: rank 0 writes the join line to it. The line is
// secret, so only the user may read the file. The file also has the job's name, which is
// unique. So ranks ignore the file of a killed job, and rank 0 replaces it.

const (
	header   = "ipcbench rendezvous\n"
	mostText = 4096 // limit of the file's size, in bytes
	tryEvery = 20 * time.Millisecond
)

var content = regexp.MustCompile("^" + header + `job (".*")\n(.*)\n$`)

// Private returns the path of a user's file for a job whose ranks are all on this host.
func Private(job string) string {
	name := regexp.MustCompile(`[^a-zA-Z0-9.-]`).ReplaceAllString(job, "_")
	return filepath.Join(os.TempDir(), fmt.Sprintf("ipcbench-world-%d-%s", os.Geteuid(), name))
}

// Offer writes text, which must be one line, to the job's file, and returns a function that
// removes it. Offer replaces another job's file, but no file that ipcbench did not write.
func Offer(path, job, text string) (remove func() error, err error) {
	if _, _, err := read(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(f, header+"job %q\n%s\n", job, text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	return func() error {
		if is, _, err := read(path); err != nil || is != strconv.Quote(job) {
			return nil // another job has replaced it
		}
		return os.Remove(path)
	}, nil
}

// Await returns the text of the job's file when rank 0 has written it. It fails at once if
// the file is not safe to read.
func Await(ctx context.Context, path, job string) (string, error) {
	for {
		is, text, err := read(path)
		why := "rank 0 has not written it"
		switch {
		case err == nil && is == strconv.Quote(job):
			return text, nil
		case err == nil:
			why = fmt.Sprintf("it belongs to job %s, but this job is %q: each job needs its own file", is, job)
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		select {
		case <-time.After(tryEvery):
		case <-ctx.Done():
			return "", fmt.Errorf("%s: %s: %w", path, why, context.Cause(ctx))
		}
	}
}

// read returns the quoted name of the job and the text of a file. It fails if another user
// can read the file, or could have written it.
func read(path string) (job, text string, err error) {
	dir, err := os.Stat(filepath.Dir(path))
	if err == nil && dir.Mode().Perm()&0o002 != 0 && dir.Mode()&fs.ModeSticky == 0 {
		err = fmt.Errorf("%s: every user can replace files in this folder (mode %v): use a private folder, or one with the sticky bit, such as /tmp", filepath.Dir(path), dir.Mode())
	}
	if err != nil {
		return "", "", err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // a pipe would wait for a writer
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", "", err
	}
	switch st, ok := info.Sys().(*syscall.Stat_t); {
	case !ok || int(st.Uid) != os.Geteuid():
		return "", "", fmt.Errorf("%s: belongs to another user (%d), not to this one (%d)", path, st.Uid, os.Geteuid())
	case info.Mode() != 0o600:
		return "", "", fmt.Errorf("%s: its mode is %v but must be %v, so that no other user can read or write it", path, info.Mode(), fs.FileMode(0o600))
	case st.Nlink > 1:
		return "", "", fmt.Errorf("%s: has another name (a hard link): remove one of them", path)
	}
	said, err := io.ReadAll(io.LimitReader(f, mostText))
	if err != nil {
		return "", "", err
	}
	found := content.FindSubmatch(said)
	if found == nil {
		return "", "", fmt.Errorf("%s: was not written by ipcbench", path)
	}
	return string(found[1]), string(found[2]), nil
}
