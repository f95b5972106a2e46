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

// settle is how often the check of what is left looks, while it waits for what ends by
// itself. The server of net/http, for one, keeps a goroutine for half a second
// after an answer that closes its connection.
const settle = 3000

// A holding is what stands in the directories of sessions, and what this process
// has: descriptors, mappings of files and memory files, and children.
type holding struct {
	names  []string
	things map[string]int // how often
}

func hold() holding { return holding{names(), things()} }

// left returns what there is beyond h, once nothing of it ends by itself.
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

// names returns what stands in the directories where sessions make theirs.
func names() []string {
	var all []string
	for _, root := range scratch.Roots() {
		found, _ := filepath.Glob(filepath.Join(root, "ipcbench-*")) // the pattern is well-formed
		all = append(all, found...)
	}
	return all
}

// leftovers returns the names that were not there before and that either a child
// of this process left when it was killed, or this process made, which still
// holds what it forgot. Other processes may be making theirs, or be killed.
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

// things returns what this process has, and how often.
func things() map[string]int {
	all := map[string]int{}
	fds, _ := os.ReadDir("/proc/self/fd") // an empty list is noticed: there is always one
	for _, fd := range fds {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && !ofRuntime(target) {
			all["descriptor of "+target]++
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps") // likewise
	for line := range strings.Lines(string(maps)) {
		if i := strings.IndexByte(line, '/'); i >= 0 && ofSession(line[i:]) {
			all["mapping of "+strings.TrimSpace(line[i:])]++
		}
	}
	children, _ := usage.ChildrenOf(os.Getpid()) // likewise
	for _, pid := range children {
		all[fmt.Sprint("child process ", pid)]++
	}
	return all
}

// ofRuntime reports whether a descriptor belongs to Go's runtime, which opens it
// when it first needs it and keeps it, or to the listing of descriptors itself.
func ofRuntime(target string) bool {
	return target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]" ||
		strings.HasPrefix(target, "/sys/fs/cgroup/") || strings.HasPrefix(target, "/proc/") && strings.HasSuffix(target, "/fd")
}

// ofSession reports whether a mapped file is one of those that sessions make.
func ofSession(path string) bool {
	if strings.HasPrefix(path, "/memfd:") {
		return true
	}
	return slices.ContainsFunc(scratch.Roots(), func(root string) bool {
		return strings.HasPrefix(path, filepath.Join(root, "ipcbench-"))
	})
}
