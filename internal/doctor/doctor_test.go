package doctor

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/internal/reexec"
	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
)

func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{reexec.Links: link.SetUp, reexec.Mirror: link.Hold}) // Examine calls link.Try
	os.Exit(m.Run())
}

// sound returns the facts of a machine without problems for modest's needs.
func sound() *facts {
	four, sixteen := 4.0, int64(16<<30)
	return &facts{
		Needs: modest(),
		env: machine.Environment{
			CPUs: 4, Governor: "performance", Cgroup: &machine.Cgroup{Version: "v2", CPUs: &four, Memory: &sixteen},
			THP: "madvise", ShmemTHP: "never", SocketBuffer: 4 << 20, Commit: "0123456789abcdef",
		},
		limits:    machine.Limits{Descriptors: 1024, Addresses: math.MaxInt64, Mappings: 65530, Threads: 1000, ThreadsBy: "ulimit -u", ClockSource: "tsc"},
		available: 16 << 30, availableBy: "MemAvailable",
		places:     map[string]place{os.TempDir(): {"ext4", 9 << 30, nil}, scratch.SharedMemory: {"tmpfs", 8 << 30, nil}, "/data": {"xfs", 9 << 30, nil}},
		processors: 4, clock: 45 * time.Nanosecond, private: price{first: 900, least: 300, most: 420}, shared: price{first: 900, least: 500, most: 600},
		boot: usage.System{Busy: time.Hour, Idle: time.Hour}, now: usage.System{Idle: time.Second},
	}
}

// modest returns the needs of a small run.
func modest() Needs {
	need := func(n int64) Need { return Need{n, "some cell"} }
	return Needs{
		Memory: need(1 << 30), Mappings: need(1080), Descriptors: need(116), Threads: need(30), Workers: need(2), Socket: 1 << 20,
		Files: map[string]Need{scratch.SharedMemory: need(256 << 20), "/data": need(128 << 20)},
	}
}

// TestChecks: each problem changes exactly one check, which has the amounts and a fix.
func TestChecks(t *testing.T) {
	for _, c := range judge(sound()) {
		check.That(t, c.Status == OK && c.Fix == "", "a sound machine: got %+v", c)
	}
	zero, half := 0.0, 0.5
	tests := []struct {
		name   string // of the check
		status Status
		spoil  func(m *facts)
		what   string
		fix    string
	}{
		{scratch.SharedMemory, Fail, func(m *facts) { m.places[scratch.SharedMemory] = place{"tmpfs", 1 << 20, nil} }, "1 MiB free, and some cell needs 256 MiB", "size=257m /dev/shm; in a container: docker run --shm-size=257m; in Kubernetes"},
		{scratch.SharedMemory, Fail, func(m *facts) { m.places[scratch.SharedMemory] = place{"", 0, os.ErrPermission} }, "cannot be used: permission denied", "mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm; in a container: docker run --shm-size=257m; in Kubernetes"},
		{scratch.SharedMemory, Warn, func(m *facts) { m.places[scratch.SharedMemory] = place{"overlayfs", 8 << 30, nil} }, "is on overlayfs", "mount -t tmpfs"},
		{scratch.SharedMemory, OK, func(m *facts) {
			m.places[scratch.SharedMemory] = place{"tmpfs", 1 << 20, nil}
			delete(m.Files, scratch.SharedMemory)
		}, "nothing asked for needs it", ""},
		{scratch.SharedMemory, OK, func(m *facts) {
			m.places[scratch.SharedMemory] = place{"", 0, os.ErrPermission}
			delete(m.Files, scratch.SharedMemory)
		}, "cannot be used (permission denied); nothing asked for needs it", ""},
		{"memory", Fail, func(m *facts) { m.available, m.availableBy = 1<<29, "the memory cgroup's memory.max" }, "512 MiB (the memory cgroup's memory.max), and some cell needs 1 GiB", "--depth 1"},
		{"memory", Fail, func(m *facts) { m.Memory = Need{math.MaxInt64 / 2, "a huge cell"} }, "and a huge cell needs", "smaller model"},
		{"temporary files", Fail, func(m *facts) { m.session = errors.New("scratch: mkdir /x: read-only") }, "scratch: mkdir /x", "TMPDIR"},
		{"temporary files", Fail, func(m *facts) { m.places["/data"] = place{"xfs", 1 << 20, nil} }, "/data (xfs), 1 MiB free, and some cell needs 128 MiB", "dir="},
		{"temporary files", Fail, func(m *facts) { m.places["/data"] = place{"", 0, os.ErrPermission} }, "permission denied", "dir="},
		{"temporary files", Warn, func(m *facts) { m.places["/data"] = place{"tmpfs", 9 << 30, nil} }, "these files are in memory", "a disk"},
		{"descriptors", Fail, func(m *facts) { m.limits.Descriptors = 64 }, "64 (ulimit -n), and some cell needs 116", "ulimit -Hn 1024"},
		{"descriptors", Fail, func(m *facts) { m.Descriptors.N = 4000 }, "1024 (ulimit -n)", "ulimit -Hn 8192"},
		{"mappings", Fail, func(m *facts) { m.limits.Mappings = 1000 }, "1000 (vm.max_map_count), and some cell needs 1080", "sysctl vm.max_map_count=2048"},
		{"threads", Fail, func(m *facts) { m.limits.Threads = 8 }, "8 (ulimit -u), and some cell needs 30", "--workers"},
		{"processors", Warn, func(m *facts) { m.Workers.N = 4 }, "4 for 4 workers and the server", "a machine with 5"},
		{"processors", Warn, func(m *facts) { m.Workers.N, m.Spins = 4, true }, "spin while they wait", "does not spin"},
		{"processor quota", Warn, func(m *facts) { m.env.Cgroup.CPUs = &half }, "allows 0.5 processors' time, and 2 workers and the server can use 3", "--cpus=3"},
		{"processor quota", OK, func(m *facts) { m.env.Cgroup = nil }, "none", ""},
		{"socket buffers", Warn, func(m *facts) { m.env.SocketBuffer = 212_992 }, "208 KiB (net.core.wmem_max), and transports ask for 1 MiB", "wmem_max=1048576"},
		{"socket buffers", OK, func(m *facts) { m.env.SocketBuffer, m.Socket = 212_992, 0 }, "nothing large", ""},
		{"socket buffers", OK, func(m *facts) { m.env.SocketBuffer = 0 }, "not known", ""},
		{"huge pages", Warn, func(m *facts) { m.env.THP = "always" }, "private memory always, shared never", "madvise"},
		{"huge pages", Warn, func(m *facts) { m.env.FilesTHP = "within_size" }, "files in /dev/shm within_size", "huge=advise"},
		{"huge pages", OK, func(m *facts) { m.env.FilesTHP = "advise" }, "files in /dev/shm advise", ""},
		{"huge pages", OK, func(m *facts) {
			m.env.THP, m.env.ShmemTHP, m.env.FilesTHP, m.env.HugePages = "always", "always", "always", 12
		}, "12 set aside", ""},
		{"page faults", Warn, func(m *facts) { m.shared = price{first: 31_000, least: 14_000, most: 20_000} },
			"private memory 0.3 to 0.42 µs a page (the first time 0.9), shared 14 to 20 µs a page (the first time 31); 0.25 to 0.5 is usual", "reuse=on"},
		{"page faults", OK, func(m *facts) { m.private.err = os.ErrPermission }, "private memory not known", ""},
		{"processes", Fail, func(m *facts) { m.proc = os.ErrNotExist }, "file does not exist", "mount -t proc"},
		{"processes", Fail, func(m *facts) { m.limits.Addresses = 1_000_000 << 10 }, "976.6 MiB of addresses (ulimit -v), and the Go runtime needs 1.431 GiB", "raise that limit"},
		{"governor", Warn, func(m *facts) { m.env.Governor = "powersave" }, "powersave", "cpupower"},
		{"governor", OK, func(m *facts) { m.env.Governor = "" }, "none", ""},
		{"clock", Warn, func(m *facts) { m.limits.ClockSource, m.clock = "hpet", time.Microsecond }, "hpet, read in 1µs", "tsc"},
		{"clock", OK, func(m *facts) { m.limits.ClockSource = "" }, "unknown, read in 45ns", ""},
		{"stolen time", Warn, func(m *facts) { m.now = usage.System{Idle: 9 * time.Second, Steal: time.Second} }, "10 % now", "instance type"},
		{"stolen time", Warn, func(m *facts) { m.boot.Steal = time.Hour }, "0 % now, 50 % since", "instance type"},
		{"stolen time", OK, func(m *facts) { m.boot, m.now = usage.System{}, usage.System{} }, "0 % now", ""},
		{"other load", Warn, func(m *facts) { m.now.Busy = time.Second }, "50 %", "top"},
		{"namespaces", Warn, func(m *facts) { m.namespaces = os.ErrPermission }, "permission denied", "leave out --link"},
		{"namespaces", Warn, func(m *facts) { m.namespaces = &link.Error{What: "no HTB", Fix: "modprobe"} }, "no HTB", "modprobe"},
		{"namespaces", Fail, func(m *facts) {
			m.namespaces, m.Links = &link.Error{What: "not permitted", Fix: "sysctl"}, []link.Rate{link.Unshaped}
		}, "not permitted", "sysctl"},
		{Leftovers, Warn, func(m *facts) {
			m.leftovers = []scratch.Leftover{{Path: "/a", Bytes: 1 << 20}, {Path: "/b"}, {Path: "/c"}}
		}, "1 MiB of 3 killed runs", "ipcbench clean"},
		{"build", Fail, func(m *facts) { m.env.Race = true }, "race detector", "go build"},
		{"build", Warn, func(m *facts) { m.env.Dirty = true }, "commit 0123456789ab with local changes", "clean checkout"},
		{"build", Warn, func(m *facts) { m.env.Commit = "unknown" }, "not known", "clean checkout"},
		{"processor quota", Warn, func(m *facts) { m.env.Cgroup.CPUs = &zero }, "allows 0 processors' time", "cpu.max"},
	}
	tried := map[string]bool{}
	for _, tt := range tests {
		tried[tt.name] = true
		f := sound()
		tt.spoil(f)
		for _, c := range judge(f) {
			switch {
			case c.Name != tt.name && c.Status != OK:
				t.Errorf("%s, %s: another check tells it too: %+v", tt.name, tt.what, c)
			case c.Name == Leftovers && strings.Contains(c.What, "/"):
				t.Errorf("%s: a result would publish where it is: %+v", c.Name, c)
			case c.Name == tt.name && (c.Status != tt.status || !strings.Contains(c.What, tt.what) || !strings.Contains(c.Fix, tt.fix) || (c.Fix == "") != (c.Status == OK)):
				t.Errorf("%s: got %+v, want %s with %q and %q", tt.name, c, tt.status, tt.what, tt.fix)
			}
		}
	}
	for _, c := range checks {
		check.That(t, tried[c.name] && c.why != "", "%s: not tried, or without a reason", c.name)
	}
}

// TestExamine: Examine returns every check once, in order.
func TestExamine(t *testing.T) {
	n := modest()
	n.Files = map[string]Need{scratch.SharedMemory: {1, "a cell"}}
	all := Examine(n, 50*time.Millisecond)
	for i, c := range all {
		t.Logf("%-4s %-16s %s", c.Status, c.Name, c.What)
		check.That(t, c.Name == checks[i].name && c.What != "", "check %d: got %+v, want %s", i, c, checks[i].name)
	}
	i := slices.IndexFunc(all, func(c Check) bool { return c.Name == "clock" })
	check.That(t, !strings.Contains(all[i].What, "read in 0s"), "got %+v, want a clock that takes time", all[i])
}

// TestNeed: Raise keeps the largest amount and the cell that needs it.
func TestNeed(t *testing.T) {
	var n Need
	n.Raise(5, "a")
	n.Raise(7, "b")
	n.Raise(7, "c")
	n.Raise(6, "d")
	check.Equal(t, n, (Need{7, "b"}))
}
