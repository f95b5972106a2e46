package drivertest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/goleak"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase/usage"
)

// settle is the number of times that left looks, 10 ms apart, before it reports. Some
// things end by themselves: net/http's server keeps a goroutine for half a second after an
// answer that closes its connection.
const settle = 3000

// A holding lists the session directories, and this process's descriptors, children and
// mappings of session files and memory files.
type holding struct {
	names  []string
	things map[string]int // number of each
}

func hold() holding { return holding{names(), things()} }

// left returns the things that exist in addition to h, or nil once there are none.
func (h holding) left() (found []string) {
	for range settle {
		found = leftovers(h.names)
		if err := goleak.Find(); err != nil {
			found = append(found, err.Error())
		}
		now := things()
		for _, what := range slices.Sorted(maps.Keys(now)) {
			if n := now[what] - h.things[what]; n > 0 {
				found = append(found, fmt.Sprintf("%s (%d times)", what, n))
			}
		}
		if len(found) == 0 {
			return nil
		}
		waiting.Pause(10 * time.Millisecond)
	}
	return found
}

// names returns the paths of all session directories.
func names() []string {
	var all []string
	for _, root := range scratch.Roots() {
		found, _ := filepath.Glob(filepath.Join(root, "ipcbench-*")) // the pattern is well-formed
		all = append(all, found...)
	}
	return all
}

// leftovers returns the session directories that are not in before and were left by this
// process or by a killed child of it. Directories of other processes are ignored.
func leftovers(before []string) []string {
	var left []string
	stale, _ := scratch.Leftovers(scratch.Roots()...) // a root that cannot be read hides nothing of ours
	for _, l := range stale {
		if l.Parent == os.Getpid() && !slices.Contains(before, l.Path) {
			left = append(left, l.Path)
		}
	}
	ours := []byte(fmt.Sprintf("pid %d,", os.Getpid()))
	for _, path := range names() {
		if slices.Contains(before, path) || slices.Contains(left, path) {
			continue
		}
		owner, err := os.ReadFile(filepath.Join(path, "lock"))
		if err == nil && bytes.HasPrefix(owner, ours) {
			left = append(left, path)
		}
	}
	return left
}

// things returns this process's descriptors, mappings and children, with the number of
// each.
func things() map[string]int {
	all := map[string]int{}
	fds, _ := os.ReadDir("/proc/self/fd") // TestThings fails if this is unreadable
	for _, fd := range fds {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && !ofRuntime(target) {
			all["descriptor of "+target]++
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps") // TestThings fails if this is unreadable
	for line := range strings.Lines(string(maps)) {
		if i := strings.IndexByte(line, '/'); i >= 0 && ofSession(line[i:]) {
			all["mapping of "+strings.TrimSpace(line[i:])]++
		}
	}
	children, _ := usage.ChildrenOf(os.Getpid()) // TestThings fails if this is unreadable
	for _, pid := range children {
		all[fmt.Sprint("child process ", pid)]++
	}
	return all
}

// ofRuntime reports whether a descriptor belongs to Go's runtime, which opens it on first
// use and keeps it, or to the listing of descriptors itself.
func ofRuntime(target string) bool {
	return target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]" ||
		strings.HasPrefix(target, "/sys/fs/cgroup/") || strings.HasPrefix(target, "/proc/") && strings.HasSuffix(target, "/fd")
}

// ofSession reports whether a mapped file is a session's.
func ofSession(path string) bool {
	if strings.HasPrefix(path, "/memfd:") {
		return true
	}
	return slices.ContainsFunc(scratch.Roots(), func(root string) bool {
		return strings.HasPrefix(path, filepath.Join(root, "ipcbench-"))
	})
}
