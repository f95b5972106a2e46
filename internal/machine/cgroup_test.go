package machine

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
)

const (
	v1Mounts = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:13 master:4 - cgroup cgroup rw,memory
`
	v1Groups = "9:name=systemd:/\n4:memory:/slice/job\n3:cpuset:/\n2:cpu,cpuacct:/slice\n"

	v2Mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"

	// Docker with cgroup version 1 mounts the group itself, but shows the host's path.
	dockerMounts = `40 31 0:29 /docker/f00 /sys/fs/cgroup/cpu,cpuacct ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,cpu,cpuacct
41 31 0:32 /docker/f00 /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime - cgroup cgroup rw,memory
`
)

func TestCgroup(t *testing.T) {
	const available = "MemAvailable: 16777216 kB\n" // 16 GiB
	cpus := func(n float64) *float64 { return &n }
	memory := func(n int64) *int64 { return &n }
	for _, tt := range []struct {
		name   string
		files  map[string]string
		want   *Cgroup
		limit  int64
		source string
	}{
		{"none", map[string]string{"proc/meminfo": available}, nil, 16 << 30, "MemAvailable"},
		{"nothing is known", nil, nil, math.MaxInt64, "nothing"},
		{"v1 unlimited", map[string]string{
			"proc/meminfo":        available,
			"proc/self/mountinfo": v1Mounts,
			"proc/self/cgroup":    v1Groups,
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":           "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":          "100000\n",
			"sys/fs/cgroup/memory/slice/job/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/slice/job/memory.usage_in_bytes": "193167360\n",
		}, &Cgroup{Version: "v1", MemoryUsed: 193167360}, 16 << 30, "MemAvailable"},
		{"v1 limited further out", map[string]string{
			"proc/meminfo":        available,
			"proc/self/mountinfo": v1Mounts,
			"proc/self/cgroup":    v1Groups,
			"sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_quota_us":     "150000\n",
			"sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_period_us":    "100000\n",
			"sys/fs/cgroup/memory/slice/job/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/slice/job/memory.usage_in_bytes": "1000\n",
			"sys/fs/cgroup/memory/slice/memory.limit_in_bytes":     "1073741824\n",
			"sys/fs/cgroup/memory/slice/memory.usage_in_bytes":     "600000000\n",
			"sys/fs/cgroup/memory/slice/memory.stat":               "cache 1\ninactive_file 5\ntotal_inactive_file 100000000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":           "9223372036854771712\n",
		}, &Cgroup{Version: "v1", CPUs: cpus(1.5), Memory: memory(1 << 30), MemoryUsed: 1000},
			1<<30 - 500_000_000, "the memory cgroup's memory.limit_in_bytes"},
		{"v1 in a container", map[string]string{
			"proc/meminfo":        available,
			"proc/self/mountinfo": dockerMounts,
			"proc/self/cgroup":    "4:memory:/docker/f00\n2:cpu,cpuacct:/docker/f00\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":        "200000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":       "100000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":        "536870912\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":        "0\n",
			"sys/fs/cgroup/memory/docker/memory.limit_in_bytes": "1\n", // another group's
		}, &Cgroup{Version: "v1", CPUs: cpus(2), Memory: memory(512 << 20)}, 512 << 20, "the memory cgroup's memory.limit_in_bytes"},
		{"v2 unlimited", map[string]string{
			"proc/meminfo":                               available,
			"proc/self/mountinfo":                        v2Mounts,
			"proc/self/cgroup":                           "0::/user.slice/session-1.scope\n",
			"sys/fs/cgroup/user.slice/cpu.max":           "max 100000\n",
			"sys/fs/cgroup/user.slice/memory.max":        "max\n",
			"sys/fs/cgroup/user.slice/memory.current":    "7\n",
			"sys/fs/cgroup/user.slice/session-1.scope/x": "",
		}, &Cgroup{Version: "v2"}, 16 << 30, "MemAvailable"},
		{"v2 nested, the tightest counts", map[string]string{
			"proc/meminfo":                      available,
			"proc/self/mountinfo":               v2Mounts,
			"proc/self/cgroup":                  "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max":         "400000 100000\n",
			"sys/fs/cgroup/a/cpu.max":           "50000 100000\n",
			"sys/fs/cgroup/a/b/memory.max":      "2147483648\n",
			"sys/fs/cgroup/a/b/memory.current":  "1073741824\n",
			"sys/fs/cgroup/a/b/memory.stat":     "anon 1\nfile 2\ninactive_file 1000\nactive_file 9\n",
			"sys/fs/cgroup/a/memory.max":        "4294967296\n",
			"sys/fs/cgroup/a/memory.current":    "4294000000\n",
			"sys/fs/cgroup/memory.current":      "9\n",
			"sys/fs/cgroup/a/b/cgroup.procs":    "1\n",
			"sys/fs/cgroup/a/b/memory.events":   "max 0\n",
			"sys/fs/cgroup/a/b/memory.swap.max": "0\n",
		}, &Cgroup{Version: "v2", CPUs: cpus(0.5), Memory: memory(2 << 30), MemoryUsed: 1 << 30}, 967_296, "the memory cgroup's memory.max"},
		{"v2 over its limit", map[string]string{
			"proc/meminfo":                 available,
			"proc/self/mountinfo":          v2Mounts,
			"proc/self/cgroup":             "0::/\n",
			"sys/fs/cgroup/memory.max":     "1000\n",
			"sys/fs/cgroup/memory.current": "2000\n",
		}, &Cgroup{Version: "v2", Memory: memory(1000), MemoryUsed: 2000}, 0, "the memory cgroup's memory.max"},
		{"v2 outside of the namespace", map[string]string{
			"proc/meminfo":             available,
			"proc/self/mountinfo":      v2Mounts,
			"proc/self/cgroup":         "0::/../other\n",
			"sys/fs/cgroup/memory.max": "1000\n",
		}, &Cgroup{Version: "v2", Memory: memory(1000)}, 1000, "the memory cgroup's memory.max"},
		{"hybrid, memory in v1", map[string]string{
			"proc/meminfo":        available,
			"proc/self/mountinfo": "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n" + v1Mounts,
			"proc/self/cgroup":    v1Groups + "0::/elsewhere\n",
			"sys/fs/cgroup/unified/elsewhere/memory.max":           "1\n",
			"sys/fs/cgroup/memory/slice/job/memory.limit_in_bytes": "4096\n",
			"sys/fs/cgroup/memory/slice/job/memory.usage_in_bytes": "96\n",
		}, &Cgroup{Version: "hybrid", Memory: memory(4096), MemoryUsed: 96}, 4000, "the memory cgroup's memory.limit_in_bytes"},
		{"hybrid, memory in v2", map[string]string{
			"proc/meminfo": available,
			"proc/self/mountinfo": "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
			"proc/self/cgroup":                           "3:cpuset:/\n0::/here\n",
			"sys/fs/cgroup/unified/here/memory.max":      "4096\n",
			"sys/fs/cgroup/unified/here/memory.current":  "96\n",
			"sys/fs/cgroup/unified/here/cpu.max":         "300000 100000\n",
			"sys/fs/cgroup/unified/here/cgroup.subtree_": "",
		}, &Cgroup{Version: "hybrid", CPUs: cpus(3), Memory: memory(4096), MemoryUsed: 96}, 4000, "the memory cgroup's memory.max"},
		{"nonsense", map[string]string{
			"proc/meminfo":             available,
			"proc/self/mountinfo":      v2Mounts,
			"proc/self/cgroup":         "::\n0::\n",
			"sys/fs/cgroup/memory.max": "-5\n",
			"sys/fs/cgroup/cpu.max":    "NaN 0\n",
		}, &Cgroup{Version: "v2"}, 16 << 30, "MemAvailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := files(t, tt.files)
			check.Same(t, cmp.Diff(tt.want, readCgroup(root)))
			limit, source := memoryLimit(root)
			check.That(t, limit == tt.limit && source == tt.source, "got a limit of %d by %s, want %d by %s", limit, source, tt.limit, tt.source)
		})
	}
}

func TestMemoryLimitOfThisMachine(t *testing.T) {
	limit, source := MemoryLimit()
	check.That(t, limit >= 0 && limit <= Read().MemTotal, "got %d by %s, want at most the machine's", limit, source)
}
