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

// Private returns the path of the file for a job whose ranks are all on this host. The
// path contains the user's id and the job's name.
func Private(job string) string {
	name := regexp.MustCompile(`[^a-zA-Z0-9.-]`).ReplaceAllString(job, "_")
	return filepath.Join(os.TempDir(), fmt.Sprintf("ipcbench-world-%d-%s", os.Geteuid(), name))
}

// Offer writes the job's file with text, which must be one line. It returns a function
// that removes the file. Offer replaces the file of another job, but fails if ipcbench has
// not written the existing file.
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

// Await waits until rank 0 has written the job's file, and returns its text. It fails
// when ctx is done, or at once if the file is not safe to read.
func Await(ctx context.Context, path, job string) (string, error) {
	for {
		is, text, err := read(path)
		why := "rank 0 has not written it"
		switch {
		case err == nil && is == strconv.Quote(job):
			return text, nil
		case err == nil:
			why = fmt.Sprintf("it is of job %s, and this job is %q: each job needs a file of its own", is, job)
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
		err = fmt.Errorf("%s: everybody may replace files there (mode %v): use a folder of your own, or one like /tmp", filepath.Dir(path), dir.Mode())
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
		return "", "", fmt.Errorf("%s: of another user (%d): this user is %d", path, st.Uid, os.Geteuid())
	case info.Mode() != 0o600:
		return "", "", fmt.Errorf("%s: its mode is %v, and must be %v: nobody else may read or write it", path, info.Mode(), fs.FileMode(0o600))
	case st.Nlink > 1:
		return "", "", fmt.Errorf("%s: has another name, too (a hard link)", path)
	}
	said, err := io.ReadAll(io.LimitReader(f, mostText))
	if err != nil {
		return "", "", err
	}
	found := content.FindSubmatch(said)
	if found == nil {
		return "", "", fmt.Errorf("%s: no file that ipcbench wrote", path)
	}
	return string(found[1]), string(found[2]), nil
}
