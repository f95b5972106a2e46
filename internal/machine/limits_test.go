package machine

import (
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
)

func TestLimits(t *testing.T) {
	limits := map[int]int64{unix.RLIMIT_NOFILE: 64, unix.RLIMIT_MEMLOCK: 65536, unix.RLIMIT_NPROC: 4000}
	rlimit := func(resource int) int64 { return limits[resource] }
	user := func(l Limits) Limits { // a user who is subject to ulimit -u
		if os.Geteuid() != 0 && l.Threads > limits[unix.RLIMIT_NPROC] {
			l.Threads, l.ThreadsBy = limits[unix.RLIMIT_NPROC], "ulimit -u"
		}
		return l
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  Limits
	}{
		{"nothing is told", nil, user(Limits{Descriptors: 64, Mappings: math.MaxInt64, Threads: math.MaxInt64, ThreadsBy: "nothing"})},
		{"v2", map[string]string{
			"proc/sys/vm/max_map_count":                                       "65530\n",
			"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
			"proc/self/mountinfo":                                             v2Mounts,
			"proc/self/cgroup":                                                "0::/slice/job\n",
			"sys/fs/cgroup/slice/job/pids.max":                                "max\n",
			"sys/fs/cgroup/slice/pids.max":                                    "100\n",
			"sys/fs/cgroup/slice/pids.current":                                "30\n",
			"sys/fs/cgroup/other/job/pids.max":                                "1\n",
		}, Limits{Descriptors: 64, Mappings: 65530, Threads: 70, ThreadsBy: "the cgroup's pids.max", ClockSource: "hpet"}},
		{"v1, more than allowed", map[string]string{
			"proc/self/mountinfo":                 "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n",
			"proc/self/cgroup":                    "8:pids:/job\n",
			"sys/fs/cgroup/pids/job/pids.max":     "10\n",
			"sys/fs/cgroup/pids/job/pids.current": "12\n",
			"sys/fs/cgroup/pids/pids.max":         "nonsense\n",
			"sys/fs/cgroup/unified/job/pids.max":  "1\n",
		}, Limits{Descriptors: 64, Mappings: math.MaxInt64, Threads: 0, ThreadsBy: "the cgroup's pids.max"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Same(t, cmp.Diff(tt.want, readLimits(files(t, tt.files), rlimit)))
		})
	}
}

// TestLimitsOfThisMachine: ReadLimits returns the kernel's limits.
func TestLimitsOfThisMachine(t *testing.T) {
	var files unix.Rlimit
	check.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	l := ReadLimits()
	t.Logf("%+v", l)
	check.That(t, l.Descriptors == int64(min(files.Cur, math.MaxInt64)) && l.Descriptors >= 8 && l.Mappings >= 1000 && l.Threads >= 1 && l.ThreadsBy != "",
		"got %+v, want at least what this test uses", l)
}
