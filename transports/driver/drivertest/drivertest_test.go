package drivertest

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/waiting"
)

// TestLeftovers: what this process forgets is found although it holds the lock;
// what was there before is nobody's fault.
func TestLeftovers(t *testing.T) {
	for _, root := range scratch.Roots() {
		before := names()
		dir, err := scratch.New(root)
		check(t, err)
		for _, c := range []struct {
			when   string
			before []string
			want   bool
		}{{"made meanwhile", before, true}, {"there before", names(), false}} {
			if got := slices.Contains(leftovers(c.before), dir.Path()); got != c.want {
				t.Errorf("%s: %s: told %v, want %v", dir.Path(), c.when, got, c.want)
			}
		}
		check(t, dir.Close())
		if slices.Contains(leftovers(before), dir.Path()) {
			t.Errorf("%s: told, though it was closed", dir.Path())
		}
	}
}

// TestThings: descriptors, mappings and children that are left are found, and
// are no more once they are given up.
func TestThings(t *testing.T) {
	for what, take := range map[string]func() (giveUp func() error){
		"descriptor of /dev/null": func() func() error {
			f, err := os.Open(os.DevNull)
			check(t, err)
			return f.Close
		},
		"mapping of /memfd:ipcbench-left (deleted)": func() func() error {
			fd, err := unix.MemfdCreate("ipcbench-left", unix.MFD_CLOEXEC)
			check(t, err)
			check(t, unix.Ftruncate(fd, 4096))
			b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
			check(t, errors.Join(err, unix.Close(fd)))
			return func() error { return unix.Munmap(b) }
		},
		"child process": func() func() error {
			cmd := exec.Command("/proc/self/exe", "-test.run=^$")
			check(t, cmd.Start())
			return cmd.Wait // until then it is a zombie, at least
		},
	} {
		before := hold()
		giveUp := take()
		found := 0
		for name, n := range things() {
			if n > before.things[name] && strings.HasPrefix(name, what) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: found %d, want 1, among %v", what, found, things())
		}
		check(t, giveUp())
		if left := before.left(); len(left) > 0 {
			t.Errorf("%s: left after it was given up: %q", what, left)
		}
	}
}

// TestLeftWaits: what ends by itself is waited for, as long as net/http's server
// keeps a connection that it has closed, and longer.
func TestLeftWaits(t *testing.T) {
	before := hold()
	f, err := os.Open(os.DevNull)
	check(t, err)
	closed := make(chan error, 1)
	waiting.Later(t, time.Second, func() { closed <- f.Close() })
	if left := before.left(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	check(t, <-closed)
}
