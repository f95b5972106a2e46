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
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

// TestLeftovers: a session directory that this process forgets is found although the
// process holds its lock. A directory that existed before is ignored.
func TestLeftovers(t *testing.T) {
	for _, root := range scratch.Roots() {
		before := names()
		dir := check.Value(scratch.New(root))(t)
		for _, c := range []struct {
			when   string
			before []string
			want   bool
		}{{"made meanwhile", before, true}, {"there before", names(), false}} {
			check.Equal(t, slices.Contains(leftovers(c.before), dir.Path()), c.want, dir.Path(), c.when, "told")
		}
		check.Must(t, dir.Close())
		check.That(t, !slices.Contains(leftovers(before), dir.Path()), "%s: told, though it was closed", dir.Path())
	}
}

// TestThings: descriptors, mappings and children that are left are found until they are
// closed or ended.
func TestThings(t *testing.T) {
	for what, take := range map[string]func() (giveUp func() error){
		"descriptor of /dev/null": func() func() error {
			f := check.Value(os.Open(os.DevNull))(t)
			return f.Close
		},
		"mapping of /memfd:ipcbench-left (deleted)": func() func() error {
			fd := check.Value(unix.MemfdCreate("ipcbench-left", unix.MFD_CLOEXEC))(t)
			check.Must(t, unix.Ftruncate(fd, 4096))
			b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
			check.Must(t, errors.Join(err, unix.Close(fd)))
			return func() error { return unix.Munmap(b) }
		},
		"child process": func() func() error {
			cmd := exec.Command("/proc/self/exe", "-test.run=^$")
			check.Must(t, cmd.Start())
			return cmd.Wait // until then the child is at least a zombie
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
		check.Must(t, giveUp())
		left := before.left()
		check.That(t, len(left) <= 0, "%s: left after it was given up: %q", what, left)
	}
}

// TestLeftWaits: left waits for a descriptor that is closed a second later, which is longer
// than net/http's server keeps a closed connection.
func TestLeftWaits(t *testing.T) {
	before := hold()
	f := check.Value(os.Open(os.DevNull))(t)
	closed := make(chan error, 1)
	waiting.Later(t, time.Second, func() { closed <- f.Close() })
	left := before.left()
	check.That(t, len(left) <= 0, "left: %q", left)
	check.Must(t, <-closed)
}
