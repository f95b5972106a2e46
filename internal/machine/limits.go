package machine

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Limits are the kernel's limits for this process and its children, except memory and
// processors. A limit that is absent or unknown is math.MaxInt64.
type Limits struct {
	Descriptors int64  // open files per process; the Go runtime raises it to the hard limit, also in workers
	Mappings    int64  // memory mappings per process
	Addresses   int64  // bytes of address space per process
	Threads     int64  // number of further threads that can be started
	ThreadsBy   string // source of Threads
	ClockSource string // the kernel's clock source
}

// ReadLimits returns the limits of this process.
func ReadLimits() Limits { return readLimits("/", rlimit) }

func readLimits(root string, rlimit func(resource int) int64) Limits {
	l := Limits{
		Descriptors: rlimit(unix.RLIMIT_NOFILE), Mappings: math.MaxInt64, Addresses: rlimit(unix.RLIMIT_AS),
		ClockSource: text(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
	}
	if n, ok := number(root, "proc/sys/vm/max_map_count"); ok {
		l.Mappings = n
	}
	l.Threads, l.ThreadsBy = threads(root, rlimit(unix.RLIMIT_NPROC))
	return l
}

// threads returns how many further threads can be started, and the source of that
// limit. It ignores the user's existing threads, because counting them would mean reading
// all processes. The user's limit does not apply to root.
func threads(root string, user int64) (left int64, source string) {
	left, source = math.MaxInt64, "nothing"
	if os.Geteuid() != 0 && user < left {
		left, source = user, "ulimit -u"
	}
	for _, g := range groups(root, "pids") {
		limit, ok := number(root, g.dir+"/pids.max") // "max" is not a number
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
