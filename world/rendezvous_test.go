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

	"ipcbench/internal/skip"
	"ipcbench/internal/waiting"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file returns a path in a folder of this user.
func file(t *testing.T) string { return filepath.Join(t.TempDir(), "meet") }

// offer makes a file. What ends without Close is what a killed rank 0 leaves.
func offer(t *testing.T, path, job, text string) *Rendezvous {
	t.Helper()
	r, err := Offer(waiting.Context(t), path, job, text)
	check(t, err)
	return r
}

// gone reports that nothing is at the path, nor beside it.
func gone(t *testing.T, path string) {
	t.Helper()
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestRendezvous: all ranks that wait get what rank 0 wrote, and not what a killed one
// of the same job has left; nothing is left then.
func TestRendezvous(t *testing.T) {
	for turn := range 20 {
		path := file(t)
		check(t, offer(t, path, "12.0", "stale").file.Close())
		want := fmt.Sprint("line ", turn)
		var ranks sync.WaitGroup
		for range 8 {
			ranks.Go(func() {
				if got, err := Await(waiting.Context(t), path, "12.0"); got != want || err != nil {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			})
		}
		if turn%2 == 0 {
			waiting.Until(t, "the end of what nobody holds", func() bool {
				_, err := os.Stat(path)
				return errors.Is(err, fs.ErrNotExist)
			})
		}
		r := offer(t, path, "12.0", want)
		ranks.Wait()
		check(t, r.Close())
		gone(t, path)
	}
}

// TestNoRace: what rank 0 has made stays until it removes it, however hard others try
// to remove what is left.
func TestNoRace(t *testing.T) {
	path := file(t)
	ctx, end := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for ctx.Err() == nil {
				if _, err := look(path, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			}
		})
	}
	for turn := range 50 {
		r := offer(t, path, "12.0", "line")
		for range 20 {
			if f, err := look(path, true); err != nil || !f.living || f.text != "line" {
				t.Fatalf("turn %d: got %+v, %v", turn, f, err)
			}
		}
		if turn%2 == 0 {
			check(t, r.Close())
		} else { // killed
			check(t, r.file.Close())
		}
	}
	end()
	others.Wait()
}

// TestAnotherKernel: locks may not reach from one kernel to the other. Ranks that wait
// believe a file of their job, and remove none; rank 0 replaces one.
func TestAnotherKernel(t *testing.T) {
	path := file(t)
	foreign := func(job string) {
		check(t, os.WriteFile(path, []byte(header+fmt.Sprintf("job %q\nboot elsewhere\nline\n", job)), 0o600))
	}
	foreign("12.0")
	if got, err := Await(waiting.Context(t), path, "12.0"); got != "line" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	foreign("11.0")
	if got, err := Await(waiting.Ending(t, 5*tryEvery), path, "12.0"); err == nil {
		t.Errorf("got %q of another job", got)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	check(t, offer(t, path, "12.0", "line").Close())
	gone(t, path)
}

// TestRefused: what is no file that rank 0 of this job has just made is refused by all
// ranks, and stays as it is.
func TestRefused(t *testing.T) {
	text := fmt.Sprintf(header+"job \"12.0\"\nboot %s\nline\n", boot())
	write := func(t *testing.T, path string, text string, mode fs.FileMode) {
		check(t, os.WriteFile(path, []byte(text), mode))
		check(t, os.Chmod(path, mode))
	}
	for _, c := range []struct {
		name, why string
		make      func(t *testing.T, path string)
	}{
		{"a link", "a link", func(t *testing.T, path string) {
			write(t, path+".real", text, 0o600)
			check(t, os.Symlink(path+".real", path))
		}},
		{"a link to nothing", "a link", func(t *testing.T, path string) { check(t, os.Symlink(path+".real", path)) }},
		{"a hard link", "another name", func(t *testing.T, path string) {
			write(t, path+".real", text, 0o600)
			check(t, os.Link(path+".real", path))
		}},
		{"a folder", "no regular file", func(t *testing.T, path string) { check(t, os.Mkdir(path, 0o700)) }},
		{"a pipe", "no regular file", func(t *testing.T, path string) { check(t, unix.Mkfifo(path, 0o600)) }},
		{"readable by all", "others may read", func(t *testing.T, path string) { write(t, path, text, 0o644) }},
		{"writable by the group", "others may read or write", func(t *testing.T, path string) { write(t, path, text, 0o620) }},
		{"huge", "10000 bytes", func(t *testing.T, path string) { write(t, path, text+strings.Repeat("x", 10000-len(text)), 0o600) }},
		{"a file of the user's", "no file that ipcbench wrote", func(t *testing.T, path string) { write(t, path, "thesis\n", 0o600) }},
		{"of another user", "of another user (65534)", func(t *testing.T, path string) {
			write(t, path, text, 0o600)
			if err := os.Chown(path, 65534, 65534); err != nil {
				skip.Refused(t, "files of other users: this needs root: %v", err)
			}
		}},
		{"of a job that lives", `of job "11.0", which lives`, func(t *testing.T, path string) {
			r := offer(t, path, "11.0", "line")
			t.Cleanup(func() { check(t, r.Close()) })
		}},
		{"a folder of everybody", "everybody may replace", func(t *testing.T, path string) { check(t, os.Chmod(filepath.Dir(path), 0o777)) }},
		{"no folder", "no such file", func(t *testing.T, path string) { check(t, os.Remove(filepath.Dir(path))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // one that lives is looked at for a while
			path := filepath.Join(t.TempDir(), "folder", "meet")
			check(t, os.Mkdir(filepath.Dir(path), 0o700))
			c.make(t, path)
			before, _ := os.Lstat(path)
			if r, err := Offer(waiting.Context(t), path, "12.0", "line"); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("rank 0: got %v, %v, want an error with %q", r, err, c.why)
			}
			if got, err := Await(waiting.Context(t), path, "12.0"); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("another rank: got %q, %v, want an error with %q", got, err, c.why)
			}
			if after, _ := os.Lstat(path); before != nil && !os.SameFile(before, after) {
				t.Error("it was replaced")
			}
		})
	}
}

// TestAwaitEnds: a rank that waits in vain says for what.
func TestAwaitEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting.Later(t, tryEvery, func() { cancel(errors.New("too late")) })
	if _, err := Await(ctx, "/tmp/ipcbench-none", "12.0"); err == nil || !strings.Contains(err.Error(), "/tmp/ipcbench-none: rank 0 has not written it: too late") {
		t.Errorf("got %v", err)
	}
}

// TestPrivate: a job's name is no path.
func TestPrivate(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	if got, want := Private("../a b@1"), fmt.Sprintf("/tmp/ipcbench-world-%d-.._a_b_1", os.Geteuid()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
