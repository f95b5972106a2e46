package machine

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Cgroup is what the control groups of this process, and those that enclose
// them, allow it.
type Cgroup struct {
	Version    string   `json:"version"`            // v1, v2, or hybrid: both are mounted
	CPUs       *float64 `json:"cpu_limit"`          // processors' worth of time; null: no limit
	Memory     *int64   `json:"memory_limit_bytes"` // null: no limit
	MemoryUsed int64    `json:"memory_used_bytes"`  // by the innermost group, its page cache included
}

// readCgroup returns nil if no control groups are to be seen.
func readCgroup(root fs.FS) *Cgroup {
	var c Cgroup
	switch v1, v2 := mounted(root, "cgroup"), mounted(root, "cgroup2"); {
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
			c.MemoryUsed, _ = g.memoryUsed(root)
		}
	}
	return &c
}

// A mount is a line of /proc/self/mountinfo, as far as it matters here.
type mount struct {
	root    string   // what of the file system is mounted
	point   string   // where
	kind    string   // "cgroup", "cgroup2"
	options []string // of the file system: the controllers, for cgroup
}

func mounts(root fs.FS) []mount {
	var all []mount
	for line := range strings.Lines(text(root, "proc/self/mountinfo")) {
		// 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if ok && len(l) >= 6 && len(r) >= 3 {
			all = append(all, mount{root: l[3], point: l[4], kind: r[0], options: strings.Split(r[2], ",")})
		}
	}
	return all
}

func mounted(root fs.FS, kind string) bool {
	return slices.ContainsFunc(mounts(root), func(m mount) bool { return m.kind == kind })
}

// A group is the directory of a control group.
type group struct {
	dir string
	v2  bool
}

// groups returns the groups that bound what this process gets of a controller,
// the innermost first. Each of them counts: a limit holds for all below it.
func groups(root fs.FS, controller string) []group {
	var found *mount
	for _, m := range mounts(root) {
		// A controller belongs to v1 or to v2. Where v1 has it, v2 does not count.
		if m.kind == "cgroup" && slices.Contains(m.options, controller) {
			found = &m
			break
		}
		if m.kind == "cgroup2" && found == nil {
			found = &m
		}
	}
	if found == nil {
		return nil
	}
	v2 := found.kind == "cgroup2"
	for line := range strings.Lines(text(root, "proc/self/cgroup")) {
		// 4:memory:/user.slice, or 0::/user.slice for v2
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || v2 != (f[0] == "0" && f[1] == "") || !v2 && !slices.Contains(strings.Split(f[1], ","), controller) {
			continue
		}
		return enclosing(found, f[2], v2)
	}
	return nil
}

// enclosing returns the directories of the group at p and of all around it, up
// to the mount point. A container may see its own group only: as the root of
// the mount, with or without a path that starts where the host's does.
func enclosing(m *mount, p string, v2 bool) []group {
	if m.root != "/" {
		inside, ok := strings.CutPrefix(p, m.root)
		if !ok {
			inside = ""
		}
		p = inside
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		p = "" // outside of this cgroup namespace
	}
	top := strings.TrimPrefix(path.Clean(m.point), "/")
	var all []group
	for p = path.Clean("/" + p); p != "/"; p = path.Dir(p) {
		all = append(all, group{dir: top + p, v2: v2})
	}
	return append(all, group{dir: top, v2: v2})
}

// cpus returns the limit in processors, if there is one.
func (g group) cpus(root fs.FS) (float64, bool) {
	var quota, period string
	if g.v2 {
		quota, period, _ = strings.Cut(text(root, g.dir+"/cpu.max"), " ")
	} else {
		quota, period = text(root, g.dir+"/cpu.cfs_quota_us"), text(root, g.dir+"/cpu.cfs_period_us")
	}
	q, err1 := strconv.ParseFloat(quota, 64) // "max" in v2, -1 in v1: no limit
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || !(q > 0) || !(p > 0) || math.IsInf(q, 0) || math.IsInf(p, 0) {
		return 0, false
	}
	return q / p, true
}

// unlimited is where v1's limits lose their meaning: none is the largest
// multiple of the page size.
const unlimited = 1 << 60

// memoryLimit returns the limit in bytes, if there is one.
func (g group) memoryLimit(root fs.FS) (int64, bool) {
	n, ok := number(root, g.dir+"/"+g.limitFile()) // "max" in v2 is no number
	return n, ok && n >= 0 && n < unlimited
}

func (g group) limitFile() string {
	if g.v2 {
		return "memory.max"
	}
	return "memory.limit_in_bytes"
}

func (g group) memoryUsed(root fs.FS) (int64, bool) {
	if g.v2 {
		return number(root, g.dir+"/memory.current")
	}
	return number(root, g.dir+"/memory.usage_in_bytes")
}

// reclaimable returns how much of what the group uses is page cache that the
// kernel would drop first.
func (g group) reclaimable(root fs.FS) int64 {
	key := "inactive_file"
	if !g.v2 {
		key = "total_inactive_file" // with the groups inside
	}
	v, _ := value(text(root, g.dir+"/memory.stat"), key, " ")
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0
	}
	return max(0, n)
}

// MemoryLimit returns how much more memory this process and those it starts may
// take before the machine or a control group runs out of it, and who says so.
// Swap space does not count, and page cache that can be dropped counts as free.
// Shared memory, memfd or not, is part of it.
//
// It has to be asked before memory is made: reserving pages beyond the limit of
// a control group wakes the kernel's killer, and is no error that anybody could
// report.
func MemoryLimit() (bytes int64, source string) { return memoryLimit(os.DirFS("/")) }

func memoryLimit(root fs.FS) (bytes int64, source string) {
	bytes, source = math.MaxInt64, "nothing"
	if _, available := memory(root); available > 0 {
		bytes, source = available, "MemAvailable"
	}
	for _, g := range groups(root, "memory") {
		limit, ok := g.memoryLimit(root)
		if !ok {
			continue
		}
		used, _ := g.memoryUsed(root)
		if left := max(0, limit-max(0, used-g.reclaimable(root))); left < bytes {
			bytes, source = left, "the memory cgroup's "+g.limitFile()
		}
	}
	return bytes, source
}
