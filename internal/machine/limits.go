package machine

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Limits are what the kernel allows this process and those that it starts, besides
// memory and processors. What is unlimited, or not told, is math.MaxInt64.
type Limits struct {
	Descriptors int64  // open in one process. The Go runtime has raised it to the hard limit, as it will in workers
	Mappings    int64  // of one process
	Threads     int64  // more that may be started
	ThreadsBy   string // who says so
	ClockSource string // what the kernel reads the time from
}

// ReadLimits returns the limits of this process.
func ReadLimits() Limits { return readLimits("/", rlimit) }

func readLimits(root string, rlimit func(resource int) int64) Limits {
	l := Limits{
		Descriptors: rlimit(unix.RLIMIT_NOFILE), Mappings: math.MaxInt64,
		ClockSource: text(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
	}
	if n, ok := number(root, "proc/sys/vm/max_map_count"); ok {
		l.Mappings = n
	}
	l.Threads, l.ThreadsBy = threads(root, rlimit(unix.RLIMIT_NPROC))
	return l
}

// threads takes a user's limit as if the user had no process yet: to count them
// means to read all processes, and root is not bound by it.
func threads(root string, user int64) (left int64, source string) {
	left, source = math.MaxInt64, "nothing"
	if os.Geteuid() != 0 && user < left {
		left, source = user, "ulimit -u"
	}
	for _, g := range groups(root, "pids") {
		limit, ok := number(root, g.dir+"/pids.max") // "max" is no number
		if !ok {
			continue
		}
		used, _ := number(root, g.dir+"/pids.current")
		if n := max(0, limit-used); n < left {
			left, source = n, "the cgroup's pids.max"
		}
	}
	return left, source
}

func rlimit(resource int) int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil || limit.Cur > unlimited {
		return math.MaxInt64
	}
	return int64(limit.Cur)
}
