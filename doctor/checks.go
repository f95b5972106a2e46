package doctor

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"ipcbench/link"
	"ipcbench/machine"
	"ipcbench/scratch"
)

// checks are all of them, in the order in which they are shown: what a run cannot do
// without, processors, memory pages and clocks, and what is good to have. Whether a
// check has failed is decided here and nowhere else.
var checks = []struct {
	name, why string
	judge     func(f *facts, n Needs) Check
}{
	{scratch.SharedMemory, "Transports with named shared memory keep their tensors in files there. Cells that do not fit are left out.", sharedMemory},
	{"memory", "Cells that need more than there is are left out: the kernel would end their processes.", memory},
	{"address space", "Cells that need more than one process may take are left out.", addressSpace},
	{"temporary files", "Sockets and the files of transports lie there. What is on a tmpfs is memory, and no disk is measured.", temporaryFiles},
	{"locked memory", "Memory that is locked is never moved to a disk. No transport of today locks any; those for network cards do.", lockedMemory},
	{"descriptors", "Sockets, shared memory and each worker take some in the server. A cell that has too few is left out, or ends the run.", descriptors},
	{"mappings", "A transport that keeps each tensor in a segment of its own has a mapping for each. Cells that have too few are left out.", mappings},
	{"threads", "Each worker is a process with threads of its own. One that cannot be started ends the run.", threads},
	{"processors", "Workers and server take turns where there are too few. Then a round is longer, and how long depends on the turns.", processors},
	{"processor quota", "A group that has used its share is stopped until the next period, 100 ms as a rule. Rounds hold such stops, whatever the transport.", quota},
	{"socket buffers", "A sender whose buffer is small waits for its reader more often: transports that move bytes through sockets are slower.", socketBuffers},
	{"huge pages", "Memory in huge pages is touched faster. If some memory has them and other has not, transports differ by that too.", hugePages},
	{"governor", "A processor whose frequency follows the load is slow when a round begins: how slow depends on the pause before.", governor},
	{"clock", "Every span reads the clock twice. A slow one lengthens the rounds that are measured.", clock},
	{"stolen time", "The hypervisor gives processors to other virtual machines in the middle of rounds.", stolenTime},
	{"other load", "Other programs take processors and caches from the rounds that are measured.", otherLoad},
	{"namespaces", "A run with --link takes place in namespaces of its own, where a link has the rate that is asked for. Other runs do without.", namespaces},
	{Leftovers, "Runs that were killed have left shared memory, sockets or files, which take memory and room from this one.", leftovers},
	{Build, "With the race detector no time means anything. Without a commit, nobody can say later what was measured.", build},
}

type figures = map[string]float64

func ok(fig figures, format string, args ...any) Check {
	return Check{Status: OK, What: fmt.Sprintf(format, args...), Figures: fig}
}

// bad is a check that is not ok, and what fixes that.
func bad(s Status, fix string, fig figures, format string, args ...any) Check {
	c := ok(fig, format, args...)
	c.Status, c.Fix = s, fix
	return c
}

// enough compares what there is with what is needed. size writes both.
func enough(have int64, by string, need Need, unit string, size func(int64) string, fix string) Check {
	fig := figures{"need_" + unit: float64(need.N)}
	if have == math.MaxInt64 {
		return ok(fig, "no limit is known; %s needed", size(need.N))
	}
	fig["have_"+unit] = float64(have)
	if need.N > have {
		return bad(Fail, fix, fig, "%s (%s), and %s needs %s", size(have), by, need.Cell, size(need.N))
	}
	return ok(fig, "%s (%s); %s needed", size(have), by, size(need.N))
}

func count(n int64) string { return fmt.Sprint(n) }

func sharedMemory(f *facts, n Needs) Check {
	need, p := n.Files[scratch.SharedMemory], f.places[scratch.SharedMemory]
	fig := figures{"need_bytes": float64(need.N), "have_bytes": float64(p.free)}
	const mount = "mount -t tmpfs tmpfs " + scratch.SharedMemory
	switch {
	case need.N == 0 && p.err != nil:
		return ok(nil, "cannot be used (%v); nothing asked for needs it", p.err)
	case need.N == 0:
		return ok(fig, "%s free; nothing asked for needs it", machine.Size(p.free))
	case p.err != nil:
		return bad(Fail, "mkdir -p "+scratch.SharedMemory+" && "+mount, nil, "cannot be used: %v", p.err)
	case p.free < need.N:
		return bad(Fail, fmt.Sprintf("mount -o remount,size=%dm %s; for a container, docker run --shm-size=%[1]dm", need.N>>20+1, scratch.SharedMemory), fig,
			"%s free, and %s needs %s", machine.Size(p.free), need.Cell, machine.Size(need.N))
	case p.fileSystem != "tmpfs":
		return bad(Warn, mount, fig, "is on %s, and not in memory", p.fileSystem)
	}
	return ok(fig, "%s free; %s needed", machine.Size(p.free), machine.Size(need.N))
}

func memory(f *facts, n Needs) Check {
	return enough(f.memory, f.memoryBy, n.Memory, "bytes", machine.Size, "end other programs, raise the limit of the cgroup if it is that, or choose a smaller model, fewer workers or --depth 1")
}

func addressSpace(f *facts, n Needs) Check {
	return enough(f.address, "ulimit -v", n.Address, "bytes", machine.Size, "ulimit -v unlimited")
}

func temporaryFiles(f *facts, n Needs) Check {
	const fix = "set TMPDIR, or the setting dir= of a transport, to a directory on a disk with room, and with a short name"
	if f.session != nil {
		return bad(Fail, fix, nil, "%v", f.session)
	}
	tmp := os.TempDir()
	what, fig := fmt.Sprintf("%s (%s), %s free", tmp, f.places[tmp].fileSystem, machine.Size(f.places[tmp].free)), figures{"have_bytes": float64(f.places[tmp].free)}
	var disk []string
	for dir := range n.Files {
		if dir != scratch.SharedMemory {
			disk = append(disk, dir)
		}
	}
	slices.Sort(disk)
	memory := ""
	for _, dir := range disk {
		need, p := n.Files[dir], f.places[dir]
		what, fig = fmt.Sprintf("%s (%s), %s free", dir, p.fileSystem, machine.Size(p.free)), figures{"need_bytes": float64(need.N), "have_bytes": float64(p.free)}
		switch {
		case p.err != nil:
			return bad(Fail, fix, nil, "%v", p.err)
		case p.free < need.N:
			return bad(Fail, fix, fig, "%s, and %s needs %s", what, need.Cell, machine.Size(need.N))
		case p.fileSystem == "tmpfs" || p.fileSystem == "ramfs":
			memory = what
		}
		what += "; " + machine.Size(need.N) + " needed"
	}
	if memory != "" {
		return bad(Warn, fix, fig, "%s: these files are in memory", memory)
	}
	return ok(fig, "%s", what)
}

func lockedMemory(f *facts, _ Needs) Check {
	if f.limits.Locked == math.MaxInt64 {
		return ok(nil, "no limit; none needed")
	}
	return ok(figures{"have_bytes": float64(f.limits.Locked)}, "%s may be locked; none needed", machine.Size(f.limits.Locked))
}

func descriptors(f *facts, n Needs) Check {
	return enough(f.limits.Descriptors, "ulimit -n", n.Descriptors, "descriptors", count, fmt.Sprintf("ulimit -Hn %d, as root or where the session was started; or fewer --workers", roundUp(n.Descriptors.N)))
}

func mappings(f *facts, n Needs) Check {
	return enough(f.limits.Mappings, "vm.max_map_count", n.Mappings, "mappings", count, fmt.Sprintf("sysctl vm.max_map_count=%d", roundUp(n.Mappings.N)))
}

func threads(f *facts, n Needs) Check {
	return enough(f.limits.Threads, f.limits.ThreadsBy, n.Threads, "threads", count, "raise that limit, or use fewer --workers or more --lanes-per-process")
}

// roundUp returns a power of two with some room above n.
func roundUp(n int64) int64 {
	p := int64(1024)
	for p < n+n/4 {
		p *= 2
	}
	return p
}

// atOnce is how many workers work at the same time as their server. It may take all
// processors: more do not help.
func atOnce(n Needs) int64 { return n.Workers.N + 1 }

func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func processors(f *facts, n Needs) Check {
	have, need := int64(f.processors), atOnce(n)
	fig := figures{"need_processors": float64(need), "have_processors": float64(have)}
	what := fmt.Sprintf("%d for %s and the server", have, plural(n.Workers.N, "worker"))
	switch {
	case have < need && n.Spins:
		return bad(Warn, fmt.Sprintf("use fewer --workers, or a setting that does not spin; or a machine with %d", need), fig, "%s, and workers spin while they wait", what)
	case have < need:
		return bad(Warn, fmt.Sprintf("use fewer --workers, or a machine with %d", need), fig, "%s", what)
	}
	return ok(fig, "%s", what)
}

func quota(f *facts, n Needs) Check {
	if f.env.Cgroup == nil || f.env.Cgroup.CPUs == nil {
		return ok(nil, "none")
	}
	have, need := *f.env.Cgroup.CPUs, min(atOnce(n), int64(f.processors))
	fig := figures{"need_processors": float64(need), "have_processors": have}
	if have < float64(need) {
		return bad(Warn, fmt.Sprintf("raise cpu.max (or cpu.cfs_quota_us) of the cgroup; for a container, docker run --cpus=%d", need), fig,
			"the cgroup allows %.3g processors' time, and %s and the server can use %d", have, plural(n.Workers.N, "worker"), need)
	}
	return ok(fig, "the cgroup allows %.3g processors' time", have)
}

func socketBuffers(f *facts, n Needs) Check {
	have := f.env.SocketBuffer
	fig := figures{"need_bytes": float64(n.Socket), "have_bytes": float64(have)}
	switch {
	case have == 0:
		return ok(nil, "not known")
	case n.Socket == 0:
		return ok(fig, "%s; nothing large goes through sockets", machine.Size(have))
	case have < n.Socket:
		return bad(Warn, fmt.Sprintf("sysctl net.core.wmem_max=%d", n.Socket), fig, "%s (net.core.wmem_max), and transports ask for %s", machine.Size(have), machine.Size(n.Socket))
	}
	return ok(fig, "%s (net.core.wmem_max); %s needed", machine.Size(have), machine.Size(n.Socket))
}

// hugePages: small pages everywhere are what many machines have, and even. Where only
// private memory had huge ones, rounds took a sixth to a quarter less, but for those of
// shm-slab, which then looked slower than the control.
func hugePages(f *facts, _ Needs) Check {
	e := f.env
	what := fmt.Sprintf("private memory %s, shared %s, %d set aside", e.THP, e.ShmemTHP, e.HugePages)
	fig := figures{"set_aside_pages": float64(e.HugePages)}
	shared := e.ShmemTHP == "always" || e.ShmemTHP == "force"
	if (e.THP == "always") != shared {
		return bad(Warn, "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, and never into shmem_enabled beside it", fig, "%s: transports with shared memory and those without have unlike pages", what)
	}
	return ok(fig, "%s", what)
}

func governor(f *facts, _ Needs) Check {
	switch g := f.env.Governor; g {
	case "":
		return ok(nil, "none to be seen")
	case "performance":
		return ok(nil, "%s", g)
	default:
		return bad(Warn, "cpupower frequency-set -g performance", nil, "%s", g)
	}
}

// slowClock is what no clock takes that is read without a system call.
const slowClock = 250 * time.Nanosecond

func clock(f *facts, _ Needs) Check {
	name := f.limits.ClockSource
	if name == "" {
		name = "unknown"
	}
	fig := figures{"reading_ns": float64(f.clock.Nanoseconds())}
	if f.clock > slowClock {
		return bad(Warn, "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource, if available_clocksource beside it has tsc (or kvm-clock)", fig,
			"%s, read in %v: by a system call", name, f.clock)
	}
	return ok(fig, "%s, read in %v", name, f.clock)
}

// share returns what part of some time another is.
func share(part, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return float64(part) / float64(of)
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }

func stolenTime(f *facts, _ Needs) Check {
	if f.systemErr != nil {
		return ok(nil, "not known")
	}
	now := share(f.now.Steal, f.now.Busy+f.now.Idle+f.now.Steal)
	boot := share(f.boot.Steal, f.boot.Busy+f.boot.Steal) // of what was wanted
	fig := figures{"now_share": now, "boot_share": boot}
	what := fmt.Sprintf("%s now, %s since the machine started", percent(now), percent(boot))
	if now > StolenShare || boot > StolenShare {
		return bad(Warn, "measure at another hour, or on a machine or instance type that shares no processors", fig, "%s", what)
	}
	return ok(fig, "%s", what)
}

// loadShare is how much of the processors' time other programs may take.
const loadShare = 0.1

func otherLoad(f *facts, _ Needs) Check {
	if f.systemErr != nil {
		return ok(nil, "not known")
	}
	load := share(f.now.Busy, f.now.Busy+f.now.Idle+f.now.Steal)
	fig := figures{"busy_share": load}
	what := fmt.Sprintf("processors are busy for %s of the time", percent(load))
	if load > loadShare {
		return bad(Warn, "end other programs: top shows which", fig, "%s", what)
	}
	return ok(fig, "%s", what)
}

func namespaces(f *facts, n Needs) Check {
	if f.namespaces == nil {
		return ok(nil, "a link with a rate can be made")
	}
	status, fix := Warn, "leave --link out, or see docs/links.md"
	if len(n.Links) > 0 {
		status = Fail
	}
	if refused := (*link.Error)(nil); errors.As(f.namespaces, &refused) {
		fix = refused.Mend
	}
	return bad(status, fix, nil, "%v", f.namespaces)
}

func leftovers(f *facts, _ Needs) Check {
	var bytes int64
	for _, l := range f.leftovers {
		bytes += l.Bytes
	}
	n := len(f.leftovers)
	fig := figures{"leftovers": float64(n), "leftovers_bytes": float64(bytes)}
	if n == 0 {
		return ok(fig, "none")
	}
	// Where they are is for ipcbench clean to say: a result may be published.
	return bad(Warn, "ipcbench clean", fig, "%s of %s", machine.Size(bytes), plural(int64(n), "killed run"))
}

func build(f *facts, _ Needs) Check {
	const fix = "go build -o FILE ./cmd/ipcbench, in a clean checkout"
	e := f.env
	switch {
	case e.Race:
		return bad(Fail, fix, nil, "has the race detector")
	case e.Commit == "unknown":
		return bad(Warn, fix, nil, "its commit is not known")
	case e.Dirty:
		return bad(Warn, fix, nil, "commit %.12s, changed since", e.Commit)
	}
	return ok(nil, "commit %.12s", e.Commit)
}
