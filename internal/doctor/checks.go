package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/internal/scratch"
)

// checks are all checks in the order of display: necessary resources, then processors,
// memory pages and clocks, then desirable properties. Only these functions decide the
// status of a check.
var checks = []struct {
	name, why string
	judge     func(f *facts) Check
}{
	{scratch.SharedMemory, "Transports with named shared memory keep their tensors in files there. Cells that do not fit are skipped. A container has 64 MB by default.", sharedMemory},
	{"memory", "Cells that need more than is available are skipped, because the kernel would kill their processes. The need is a low estimate.", memory},
	{"temporary files", "Sockets and the files of transports are stored there. Files on a tmpfs are in memory, so no disk is measured.", temporaryFiles},
	{"processes", "They are started from /proc, what they use is read there, and the Go runtime ends those with too few addresses.", processes},
	{"descriptors", "Sockets, shared memory and each worker need some in the server. A cell with too few is skipped, or ends the run.", descriptors},
	{"mappings", "A transport that keeps each tensor in its own segment needs one mapping per tensor. Cells with too few are skipped.", mappings},
	{"threads", "Each worker process has its own threads. A worker that cannot be started ends the run.", threads},
	{"processors", "With too few, workers and server share processors. Rounds are then longer, by an amount that depends on scheduling.", processors},
	{"processor quota", "A control group that has used its share is stopped until its next period, usually 100 ms. These stops are part of rounds, whatever the transport.", quota},
	{"socket buffers", "With a small buffer, a sender waits for its reader more often, so transports that use sockets are slower.", socketBuffers},
	{"huge pages", "Access to memory in huge pages is faster. If only private or only shared memory has them, transports differ by that too.", hugePages},
	{"page faults", "A transport whose memory is new in each round, such as shm-tensor, pays for each page. The price, 0.25 to 20 µs on machines that were tried, changes the order of transports.", pageFaults},
	{"governor", "A processor whose frequency follows the load is slow when a round begins, by an amount that depends on the pause before.", governor},
	{"clock", "Every span reads the clock twice. A slow clock lengthens the measured rounds.", clock},
	{"stolen time", "The hypervisor gives processors to other virtual machines during rounds.", stolenTime},
	{"other load", "Other programs use processors and caches during the measured rounds.", otherLoad},
	{"namespaces", "A run with --link needs its own namespaces, in which links have the requested rates. Other runs do not need them.", namespaces},
	{Leftovers, "Killed runs have left shared memory, sockets or files, which use memory and disk space.", leftovers},
	{Build, "With the race detector, times are meaningless. Without a commit, the measured code cannot be identified later.", build},
}

func ok(format string, args ...any) Check {
	return Check{Status: OK, What: fmt.Sprintf(format, args...)}
}

// bad returns a check with status s and a remedy.
func bad(s Status, fix, format string, args ...any) Check {
	c := ok(format, args...)
	c.Status, c.Fix = s, fix
	return c
}

// enough compares the available amount have, whose source is by, with need. size formats
// both.
func enough(have int64, by string, need Need, size func(int64) string, fix string) Check {
	if have == math.MaxInt64 {
		return ok("no limit is known; %s needed", size(need.N))
	}
	if need.N > have {
		return bad(Fail, fix, "%s (%s), and %s needs %s", size(have), by, need.Cell, size(need.N))
	}
	return ok("%s (%s); %s needed", size(have), by, size(need.N))
}

func count(n int64) string { return fmt.Sprint(n) }

func sharedMemory(f *facts) Check {
	need, p := f.Files[scratch.SharedMemory], f.places[scratch.SharedMemory]
	const mount = "mount -t tmpfs tmpfs " + scratch.SharedMemory
	switch {
	case need.N == 0 && p.err != nil:
		return ok("cannot be used (%v); nothing asked for needs it", p.err)
	case need.N == 0:
		return ok("%s free; nothing asked for needs it", machine.Size(p.free))
	case p.err != nil:
		return bad(Fail, "mkdir -p "+scratch.SharedMemory+" && "+mount+"; "+machine.EnlargeShm(need.N), "cannot be used: %v", p.err)
	case p.free < need.N:
		return bad(Fail, fmt.Sprintf("mount -o remount,size=%dm %s; %s", need.N>>20+1, scratch.SharedMemory, machine.EnlargeShm(need.N)),
			"%s free, and %s needs %s", machine.Size(p.free), need.Cell, machine.Size(need.N))
	case p.fileSystem != "tmpfs":
		return bad(Warn, mount, "is on %s instead of in memory", p.fileSystem)
	}
	return ok("%s free; %s needed", machine.Size(p.free), machine.Size(need.N))
}

func memory(f *facts) Check {
	return enough(f.available, f.availableBy, f.Memory, machine.Size,
		"end other programs, raise the limit if it is a cgroup's, or choose a smaller model, fewer workers or --depth 1")
}

func temporaryFiles(f *facts) Check {
	const fix = "set TMPDIR, or the setting dir= of a transport, to a directory with a short name, on a disk with free space"
	if f.session != nil {
		return bad(Fail, fix, "%v", f.session)
	}
	tmp := os.TempDir()
	what := fmt.Sprintf("%s (%s), %s free", tmp, f.places[tmp].fileSystem, machine.Size(f.places[tmp].free))
	var disk []string
	for dir := range f.Files {
		if dir != scratch.SharedMemory {
			disk = append(disk, dir)
		}
	}
	slices.Sort(disk)
	memory := ""
	for _, dir := range disk {
		need, p := f.Files[dir], f.places[dir]
		what = fmt.Sprintf("%s (%s), %s free", dir, p.fileSystem, machine.Size(p.free))
		switch {
		case p.err != nil:
			return bad(Fail, fix, "%v", p.err)
		case p.free < need.N:
			return bad(Fail, fix, "%s, and %s needs %s", what, need.Cell, machine.Size(need.N))
		case p.fileSystem == "tmpfs" || p.fileSystem == "ramfs":
			memory = what
		}
		what += "; " + machine.Size(need.N) + " needed"
	}
	if memory != "" {
		return bad(Warn, fix, "%s: these files are in memory", memory)
	}
	return ok("%s", what)
}

// Proc returns an error if no process can be started, because /proc is not mounted.
func Proc() error {
	_, err := os.Stat("/proc/self/exe")
	return err
}

// The least with which a server and one worker ran cnn. With a third less, the Go runtime
// ended some of them.
const (
	leastAddresses = 1_500_000 << 10 // bytes
	leastThreads   = 24
)

// Bearable returns an error for a limit that is so low that the Go runtime may end this process.
func Bearable(l machine.Limits) error {
	switch {
	case l.Addresses < leastAddresses:
		return fmt.Errorf("a process may have %s of addresses (ulimit -v), and the Go runtime needs %s", machine.Size(l.Addresses), machine.Size(leastAddresses))
	case l.Threads < leastThreads:
		return fmt.Errorf("%d more threads can be started (%s), and a run needs %d or more", l.Threads, l.ThreadsBy, leastThreads)
	}
	return nil
}

func processes(f *facts) Check {
	if f.proc != nil {
		return bad(Fail, "mount -t proc proc /proc", "%v", f.proc)
	}
	if err := Bearable(machine.Limits{Addresses: f.limits.Addresses, Threads: leastThreads}); err != nil { // threads have a check of their own
		return bad(Fail, "raise that limit", "%v", err)
	}
	return ok("mounted")
}

func descriptors(f *facts) Check {
	return enough(f.limits.Descriptors, "ulimit -n", f.Descriptors, count,
		fmt.Sprintf("ulimit -Hn %d, as root or where the login session starts; or use fewer --workers", roundUp(f.Descriptors.N)))
}

func mappings(f *facts) Check {
	return enough(f.limits.Mappings, "vm.max_map_count", f.Mappings, count,
		fmt.Sprintf("sysctl vm.max_map_count=%d", roundUp(f.Mappings.N)))
}

func threads(f *facts) Check {
	return enough(f.limits.Threads, f.limits.ThreadsBy, f.Threads, count,
		"raise that limit, or use fewer --workers or more --lanes-per-process")
}

// roundUp returns a power of two that is at least 1.25 × n, and at least 1024.
func roundUp(n int64) int64 {
	p := int64(1024)
	for p < n+n/4 {
		p *= 2
	}
	return p
}

// atOnce returns the number of processors that workers and the server can use at the same
// time.
func atOnce(f *facts) int64 { return f.Workers.N + 1 }

func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func processors(f *facts) Check {
	have, need := int64(f.processors), atOnce(f)
	what := fmt.Sprintf("%d for %s and the server", have, plural(f.Workers.N, "worker"))
	switch {
	case have < need && f.Spins:
		return bad(Warn, fmt.Sprintf("use fewer --workers, or a setting that does not spin; or a machine with %d", need), "%s, and workers spin while they wait", what)
	case have < need:
		return bad(Warn, fmt.Sprintf("use fewer --workers, or a machine with %d", need), "%s", what)
	}
	return ok("%s", what)
}

func quota(f *facts) Check {
	if f.env.Cgroup == nil || f.env.Cgroup.CPUs == nil {
		return ok("none")
	}
	have, need := *f.env.Cgroup.CPUs, min(atOnce(f), int64(f.processors))
	if have < float64(need) {
		return bad(Warn, fmt.Sprintf("raise cpu.max (or cpu.cfs_quota_us) of the cgroup; for a container, docker run --cpus=%d", need),
			"the cgroup allows %.3g processors' time, and %s and the server can use %d",
			have, plural(f.Workers.N, "worker"), need)
	}
	return ok("the cgroup allows %.3g processors' time", have)
}

func socketBuffers(f *facts) Check {
	have := f.env.SocketBuffer
	switch {
	case have == 0:
		return ok("not known")
	case f.Socket == 0:
		return ok("%s; nothing large goes through sockets", machine.Size(have))
	case have < f.Socket:
		return bad(Warn, fmt.Sprintf("sysctl net.core.wmem_max=%d", f.Socket),
			"%s (net.core.wmem_max), and transports ask for %s", machine.Size(have), machine.Size(f.Socket))
	}
	return ok("%s (net.core.wmem_max); %s needed", machine.Size(have), machine.Size(f.Socket))
}

// hugePages warns if only some of private memory, shared memory without a name, and files in
// /dev/shm has huge pages. If only private memory had them, rounds of all transports except
// shm-slab were a sixth to a quarter shorter, so shm-slab looked slower than the control. Small
// pages everywhere are common and fair.
func hugePages(f *facts) Check {
	e := f.env
	what := fmt.Sprintf("private memory %s, shared %s, files in %s %s, %d set aside", e.THP, e.ShmemTHP, scratch.SharedMemory, cmp.Or(e.FilesTHP, "unknown"), e.HugePages)
	private, shared := e.THP == "always", e.ShmemTHP == "always" || e.ShmemTHP == "force"
	files := e.ShmemTHP == "force" || e.ShmemTHP != "deny" && (e.FilesTHP == "always" || e.FilesTHP == "within_size")
	if private != shared || private != files && e.FilesTHP != "" {
		return bad(Warn, "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, never into shmem_enabled beside it, and mount -o remount,huge=advise "+scratch.SharedMemory+", unless --pages is given", "%s: transports use pages of different sizes", what)
	}
	return ok("%s", what)
}

// dearPage is much more than a new page costs on usual machines, which take 0.25 to 0.5 µs, also if
// they are busy.
const dearPage = 5 * time.Microsecond

func pageFaults(f *facts) Check {
	what := fmt.Sprintf("private memory %s, shared %s", f.private, f.shared)
	if max(f.private.least, f.shared.least) > dearPage {
		return bad(Warn, "prefer transports and settings that keep their memory, such as shm-slab or reuse=on", "%s; 0.25 to 0.5 is usual", what)
	}
	return ok("%s", what)
}

func governor(f *facts) Check {
	switch g := f.env.Governor; g {
	case "":
		return ok("none visible")
	case "performance":
		return ok("%s", g)
	default:
		return bad(Warn, "cpupower frequency-set -g performance", "%s", g)
	}
}

// slowClock is longer than reading a clock takes without a system call.
const slowClock = 250 * time.Nanosecond

func clock(f *facts) Check {
	name := cmp.Or(f.limits.ClockSource, "unknown")
	if f.clock > slowClock {
		return bad(Warn, "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource, if available_clocksource beside it has tsc (or kvm-clock)",
			"%s, read in %v, by a system call", name, f.clock)
	}
	return ok("%s, read in %v", name, f.clock)
}

// share returns part ÷ of, or 0 if of is not positive.
func share(part, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return float64(part) / float64(of)
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }

func stolenTime(f *facts) Check {
	if f.systemErr != nil {
		return ok("not known")
	}
	now := share(f.now.Steal, f.now.Busy+f.now.Idle+f.now.Steal)
	boot := share(f.boot.Steal, f.boot.Busy+f.boot.Steal) // share of the demand; idle time does not count
	what := fmt.Sprintf("%s now, %s since the machine started", percent(now), percent(boot))
	if now > StolenShare || boot > StolenShare {
		return bad(Warn, "measure at another time, or on a machine or instance type that does not share processors", "%s", what)
	}
	return ok("%s", what)
}

// loadShare is the share of processor time that other programs may use.
const loadShare = 0.1

func otherLoad(f *facts) Check {
	if f.systemErr != nil {
		return ok("not known")
	}
	load := share(f.now.Busy, f.now.Busy+f.now.Idle+f.now.Steal)
	what := fmt.Sprintf("processors are busy for %s of the time", percent(load))
	if load > loadShare {
		return bad(Warn, "end other programs: top shows which", "%s", what)
	}
	return ok("%s", what)
}

func namespaces(f *facts) Check {
	if f.namespaces == nil {
		return ok("a link with a rate can be made")
	}
	status, fix := Warn, "leave out --link, or see docs/network.md"
	if len(f.Links) > 0 {
		status = Fail
	}
	if refused := (*link.Error)(nil); errors.As(f.namespaces, &refused) {
		fix = refused.Fix
	}
	return bad(status, fix, "%v", f.namespaces)
}

func leftovers(f *facts) Check {
	var bytes int64
	for _, l := range f.leftovers {
		bytes += l.Bytes
	}
	n := len(f.leftovers)
	if n == 0 {
		return ok("none")
	}
	// Paths are omitted, because a result may be published; ipcbench clean prints them.
	return bad(Warn, "ipcbench clean", "%s of %s", machine.Size(bytes), plural(int64(n), "killed run"))
}

func build(f *facts) Check {
	const fix = "go build -o FILE ./cmd/ipcbench, in a clean checkout"
	e := f.env
	switch {
	case e.Race:
		return bad(Fail, fix, "built with the race detector")
	case e.Commit == "unknown":
		return bad(Warn, fix, "the commit is not known")
	case e.Dirty:
		return bad(Warn, fix, "commit %.12s with local changes", e.Commit)
	}
	return ok("commit %.12s", e.Commit)
}
