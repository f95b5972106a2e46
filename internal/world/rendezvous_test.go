package world

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// file returns a path in a folder of this user.
func file(t *testing.T) string { return filepath.Join(t.TempDir(), "meet") }

// offer calls Offer. A file that is never removed is like one that a killed rank 0 leaves.
func offer(t *testing.T, path, job, text string) (remove func() error) {
	t.Helper()
	return check.Value(Offer(path, job, text))(t)
}

// gone checks that nothing is left in path's folder.
func gone(t *testing.T, path string) {
	t.Helper()
	check.Equal(t, len(check.Value(os.ReadDir(filepath.Dir(path)))(t)), 0, "files left")
}

// TestRendezvous: all waiting ranks get the text of rank 0, not the text of a killed job,
// and no file is left.
func TestRendezvous(t *testing.T) {
	for turn := range 20 {
		path := file(t)
		offer(t, path, "11.0", "stale")
		want := fmt.Sprint("line ", turn)
		var ranks sync.WaitGroup
		for range 8 {
			ranks.Go(func() {
				got, err := Await(waiting.Context(t), path, "12.0")
				check.OK(t, err)
				check.Equal(t, got, want)
			})
		}
		remove := offer(t, path, "12.0", want)
		ranks.Wait()
		check.Must(t, remove())
		gone(t, path)
		check.Must(t, remove()) // it has been removed already
	}
}

// TestTwoJobs: a job does not get the text of another one, and does not remove its file.
func TestTwoJobs(t *testing.T) {
	path := file(t)
	remove, other := offer(t, path, "12.0", "line"), offer(t, path, "11.0", "other")
	err := check.Err(Await(waiting.Ending(t, 5*tryEvery), path, "12.0"))
	check.Fails(t, err, `it belongs to job "11.0", but this job is "12.0"`)
	check.Must(t, remove())
	check.Equal(t, check.Value(Await(waiting.Context(t), path, "11.0"))(t), "other")
	check.Must(t, other())
	gone(t, path)
}

// TestRefused: all ranks reject a file that rank 0 of this job has not just made, and do
// not change it.
func TestRefused(t *testing.T) {
	const text = header + "job \"12.0\"\nline\n"
	write := func(t *testing.T, path string, text string, mode fs.FileMode) {
		check.Must(t, os.WriteFile(path, []byte(text), mode))
		check.Must(t, os.Chmod(path, mode))
	}
	for _, c := range []struct {
		name, why string
		make      func(t *testing.T, path string)
	}{
		{"a link", "symbolic links", func(t *testing.T, path string) {
			write(t, path+".real", text, 0o600)
			check.Must(t, os.Symlink(path+".real", path))
		}},
		{"a link to nothing", "symbolic links", func(t *testing.T, path string) { check.Must(t, os.Symlink(path+".real", path)) }},
		{"a hard link", "another name", func(t *testing.T, path string) {
			write(t, path+".real", text, 0o600)
			check.Must(t, os.Link(path+".real", path))
		}},
		{"a folder", "its mode is", func(t *testing.T, path string) { check.Must(t, os.Mkdir(path, 0o700)) }},
		{"a pipe", "its mode is", func(t *testing.T, path string) { check.Must(t, unix.Mkfifo(path, 0o600)) }},
		{"readable by all", "its mode is", func(t *testing.T, path string) { write(t, path, text, 0o644) }},
		{"writable by the group", "its mode is", func(t *testing.T, path string) { write(t, path, text, 0o620) }},
		{"huge", "was not written by ipcbench", func(t *testing.T, path string) { write(t, path, text+strings.Repeat("x", 10000-len(text)), 0o600) }},
		{"a file of the user's", "was not written by ipcbench", func(t *testing.T, path string) { write(t, path, "thesis\n", 0o600) }},
		{"of another user", "belongs to another user (65534)", func(t *testing.T, path string) {
			write(t, path, text, 0o600)
			if err := os.Chown(path, 65534, 65534); err != nil {
				skip.Refused(t, "files of other users: this needs root: %v", err)
			}
		}},
		{"a folder of everybody", "every user can replace", func(t *testing.T, path string) { check.Must(t, os.Chmod(filepath.Dir(path), 0o777)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "folder", "meet")
			check.Must(t, os.Mkdir(filepath.Dir(path), 0o700))
			c.make(t, path)
			before, _ := os.Lstat(path)
			check.Fails(t, check.Err(Offer(path, "12.0", "line")), c.why, "rank 0")
			check.Fails(t, check.Err(Await(waiting.Context(t), path, "12.0")), c.why, "another rank")
			after, _ := os.Lstat(path)
			check.That(t, before == nil || os.SameFile(before, after), "it was replaced")
		})
	}
}

// TestAwaitEnds: if a rank waits in vain, its error names the file that is missing.
func TestAwaitEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting.Later(t, tryEvery, func() { cancel(errors.New("too late")) })
	check.Fails(t, check.Err(Await(ctx, "/tmp/ipcbench-none", "12.0")), "/tmp/ipcbench-none: rank 0 has not written it: too late")
}

// TestPrivate: a job's name cannot become a path.
func TestPrivate(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	check.Equal(t, Private("../a b@1"), fmt.Sprintf("/tmp/ipcbench-world-%d-.._a_b_1", os.Geteuid()))
}
