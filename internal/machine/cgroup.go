package machine

import (
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// A Cgroup holds the limits of this process's control groups and the groups that
// enclose them.
type Cgroup struct {
	Version    string   `json:"version"`                                                     // `v1`, `v2`, or `hybrid` if both are mounted
	CPUs       *float64 `json:"cpu_limit" diff:"cgroup's processor limit" unit:"processors"` // limit of CPU time in processors; null if there is none
	Memory     *int64   `json:"memory_limit_bytes" diff:"cgroup's memory limit"`             // limit of memory; null if there is none
	MemoryUsed int64    `json:"memory_used_bytes"`                                           // memory in use by the innermost group, files in the page cache included
}

// readCgroup returns nil if no control groups are mounted.
func readCgroup(root string) *Cgroup {
	kinds := map[string]bool{}
	for _, m := range mounts(root) {
		kinds[m.FSType] = true
	}
	var c Cgroup
	switch v1, v2 := kinds["cgroup"], kinds["cgroup2"]; {
	case v1 && v2:
		c.Version = "hybrid"
	case v1:
		c.Version = "v1"
	case v2:
		c.Version = "v2"
	default:
		return nil
	}
	for _, g := range groups(root, "cpu") {
		if n, ok := g.cpus(root); ok && (c.CPUs == nil || n < *c.CPUs) {
			c.CPUs = &n
		}
	}
	for i, g := range groups(root, "memory") {
		if n, ok := g.memoryLimit(root); ok && (c.Memory == nil || n < *c.Memory) {
			c.Memory = &n
		}
		if i == 0 {
			c.MemoryUsed, _ = number(root, g.dir+"/"+g.used)
		}
	}
	return &c
}

// mounts returns all mounts in the order of mounting, or nil if they cannot be read.
func mounts(root string) []*procfs.MountInfo {
	proc, err := procfs.NewFS(filepath.Join(root, "proc"))
	if err != nil {
		return nil
	}
	all, _ := proc.GetMounts() // nil with an error
	return all
}

// A group is a control group.
type group struct {
	dir string
	*memoryFiles
}

// memoryFiles are the names of a group's files, which differ by version.
type memoryFiles struct {
	limit, used string
	reclaimable string // key in memory.stat: page cache that the kernel drops first
}

var (
	filesV1 = &memoryFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"} // total_: with subgroups, as usage
	filesV2 = &memoryFiles{"memory.max", "memory.current", "inactive_file"}
)

// groups returns the groups by which a controller limits this process, the innermost
// first. Each of them counts, because a limit holds for all groups below it.
func groups(root, controller string) []group {
	var found *procfs.MountInfo
	files := filesV2
	for _, m := range mounts(root) {
		// A controller belongs to v1 or to v2. If v1 has it, v2 must be ignored.
		if _, ok := m.SuperOptions[controller]; ok && m.FSType == "cgroup" {
			found, files = m, filesV1
			break
		}
		if m.FSType == "cgroup2" && found == nil {
			found = m
		}
	}
	if found == nil {
		return nil
	}
	for line := range strings.Lines(text(root, "proc/self/cgroup")) {
		// 4:memory:/user.slice, or 0::/user.slice for v2
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (files == filesV2 && f[0] == "0" && f[1] == "" ||
			files == filesV1 && slices.Contains(strings.Split(f[1], ","), controller)) {
			return enclosing(found, f[2], files)
		}
	}
	return nil
}

// enclosing returns the group at path p and all groups around it, up to the mount
// point. In a container, the mount's root may be the container's own group, and p may
// still begin with the host's path of it.
func enclosing(m *procfs.MountInfo, p string, files *memoryFiles) []group {
	inside, ok := strings.CutPrefix(p, strings.TrimSuffix(m.Root, "/"))
	if !ok || slices.Contains(strings.Split(inside, "/"), "..") { // outside of this cgroup namespace
		inside = ""
	}
	top := strings.TrimPrefix(path.Clean(m.MountPoint), "/")
	var all []group
	for p = path.Clean("/" + inside); p != "/"; p = path.Dir(p) {
		all = append(all, group{top + p, files})
	}
	return append(all, group{top, files})
}

// cpus returns the limit in processors, if there is one: the quota of time divided by
// the period. They are in one file of v2, or in two files of v1.
func (g group) cpus(root string) (float64, bool) {
	f := strings.Fields(text(root, g.dir+"/cpu.max") + " " + text(root, g.dir+"/cpu.cfs_quota_us") + " " + text(root, g.dir+"/cpu.cfs_period_us"))
	if len(f) != 2 {
		return 0, false
	}
	quota, err1 := strconv.ParseUint(f[0], 10, 64) // "max" in v2 and -1 in v1 mean no limit
	period, err2 := strconv.ParseUint(f[1], 10, 64)
	return float64(quota) / float64(period), err1 == nil && err2 == nil && quota > 0 && period > 0
}

// unlimited is the smallest limit that means none. In v1, the kernel writes the largest
// multiple of the page size if there is no limit.
const unlimited = 1 << 60

// memoryLimit returns the limit in bytes, if there is one.
func (g group) memoryLimit(root string) (int64, bool) {
	n, ok := number(root, g.dir+"/"+g.limit) // "max" in v2 is not a number
	return n, ok && n >= 0 && n < unlimited
}

// free returns the bytes left of the limit. Page cache that the kernel can drop is free.
func (g group) free(root string, limit int64) int64 {
	used, _ := number(root, g.dir+"/"+g.used)
	stat, _ := value(text(root, g.dir+"/memory.stat"), g.reclaimable, " ")
	cache, err := strconv.ParseInt(stat, 10, 64)
	if err != nil {
		cache = 0
	}
	return max(0, limit-max(0, used-max(0, cache)))
}

// MemoryLimit returns the bytes of memory that this process and its children can still
// use before the machine or a control group has no more, and the source of that limit.
// It ignores swap space and counts page cache that can be dropped as free. Shared
// memory, including memfd, uses up this limit too.
//
// Callers must check it before they allocate: beyond the limit of a control group, the
// kernel kills the process instead of returning an error.
func MemoryLimit() (bytes int64, source string) { return memoryLimit("/") }

func memoryLimit(root string) (bytes int64, source string) {
	bytes, source = math.MaxInt64, "nothing"
	if _, available := memory(root); available > 0 {
		bytes, source = available, "MemAvailable"
	}
	for _, g := range groups(root, "memory") {
		limit, ok := g.memoryLimit(root)
		if left := g.free(root, limit); ok && left < bytes {
			bytes, source = left, "the memory cgroup's "+g.limit
		}
	}
	return bytes, source
}
