// Package machine describes the machine and build of a run: a result's environment section.
// It only reads: it changes nothing and starts no process.
//
// Two results are comparable if [Diff] of their environments is empty. Otherwise, a
// comparison must list its differences at the top. [MemoryLimit], [Room] and [Limits]
// are the machine's limits, and [FileSystem] is the type of a path's file system.
//
// An Environment has no host name, user name or address, so it can be published.
package machine

import (
	"cmp"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/unix"

	"ipcbench/internal/kernel"
	"ipcbench/phase/usage"
)

// unknown replaces a name that cannot be determined.
const unknown = "unknown"

// An Environment describes the measured build, and the properties of the machine that
// can change a measurement. An unknown property is absent, zero or "unknown".
type Environment struct {
	// when this was read, in UTC
	Time time.Time `json:"time"`

	// the processor's model
	CPU string `json:"cpu" diff:"CPU model"`
	// processor architecture, such as `amd64`
	//
	// It is GOARCH.
	Arch string `json:"arch" diff:"architecture"`
	// number of logical processors
	CPUs int `json:"cpus_online" diff:"processors online"`
	// the processors that ipcbench may use, such as `0-3,8`
	Affinity string `json:"affinity" diff:"processors that may be used"`
	// number of threads that may run Go code at the same time
	GOMAXPROCS int `json:"gomaxprocs" diff:"GOMAXPROCS"`
	// last-level cache that one core can fill; 0 if unknown
	LLC int64 `json:"llc_bytes" diff:"last-level cache"`
	// how the kernel chooses the processor's frequency
	Governor string `json:"governor,omitempty" diff:"frequency governor"`
	// name of the hypervisor; absent if none is visible
	Hypervisor string `json:"hypervisor,omitempty" diff:"hypervisor"`
	// version of the Linux kernel
	Kernel string `json:"kernel" diff:"kernel"`

	// memory of the machine
	MemTotal int64 `json:"mem_total_bytes" diff:"memory" near:"yes"`
	// memory that was free for use when the run began
	MemAvailable int64 `json:"mem_available_bytes"`
	// limits of the control group; absent if none is visible
	Cgroup *Cgroup `json:"cgroup,omitempty" diff:"each field"`
	// the file system at `/dev/shm`, which holds shared memory
	Shm *Space `json:"dev_shm,omitempty" diff:"/dev/shm" near:"yes"`
	// the file system for temporary files, which holds sockets and the files of transports
	Tmp *Space `json:"tmp,omitempty" diff:"file system of temporary files" nothing:"not recorded"`
	// transparent huge pages for private memory: `always`, `madvise` or `never`
	THP string `json:"thp" diff:"transparent huge pages"`
	// transparent huge pages for shared memory
	ShmemTHP string `json:"shmem_thp" diff:"transparent huge pages of shared memory"`
	// transparent huge pages for files in `/dev/shm`, as it is mounted; absent if not recorded
	FilesTHP string `json:"dev_shm_thp,omitempty" diff:"transparent huge pages of /dev/shm" nothing:"not recorded"`
	// number of reserved huge pages
	HugePages int `json:"nr_hugepages" diff:"reserved huge pages"`
	// the largest send buffer that a socket can request; 0 if unknown
	//
	// It limits the bytes that a sender can have in flight.
	SocketBuffer int64 `json:"wmem_max_bytes" diff:"largest socket buffer" nothing:"not recorded"`

	// the processor has instructions for TLS (AES and carry-less multiplication); absent if
	// not recorded
	AES *bool `json:"aes,omitempty" diff:"instructions for AES" nothing:"not recorded"`
	// the loops that train and fold: `AVX2` (in assembly) or `Go`; absent in files of older
	// builds. Workers in Python and peers report theirs in `software`: `kernel`, `C` or `numpy`
	Loops string `json:"loops,omitempty" diff:"loops that train and fold" nothing:"not recorded"`

	// the emulated network of the run; docs/network.md describes it
	Link *Link `json:"link,omitempty" diff:"network of the run"`

	// where servers listened over TCP: `off loopback`, or `off loopback, insecure` with
	// `--insecure-network`; absent if on the loopback interface
	//
	// It is empty, [OffLoopback] or [Insecure].
	Listen string `json:"listen,omitempty" check:"|off loopback|off loopback, insecure" diff:"servers listen" nothing:"on loopback"`

	// version of Go that built ipcbench
	Go string `json:"go" diff:"Go version"`
	// commit of the source, or `unknown`
	Commit string `json:"commit"`
	// the source differed from that commit
	Dirty bool `json:"dirty,omitempty"`
	// built with the race detector, so all times in this file are meaningless
	Race bool `json:"race,omitempty" diff:"race detector"`
}

// The values of [Environment.Listen] except "". They contain no address.
const (
	OffLoopback = "off loopback"
	Insecure    = "off loopback, insecure"
)

// A Space is the type and size of a file system.
type Space struct {
	FileSystem string `json:"file_system"` // type of the file system, such as `tmpfs`
	Size       int64  `json:"size_bytes"`  // size of the file system
	Free       int64  `json:"free_bytes"`  // free space when the run began
}

// A Link describes the emulated network of a run.
type Link struct {
	// the namespaces that the run created: `network`, or `users, network`
	Namespaces string `json:"namespaces"`
	// address of the server; traffic to it and traffic from it have the rate, each way
	Address string `json:"address"`
	// size of the largest packet
	MTU int `json:"mtu_bytes"`
	// the kernel's queueing discipline that limits the rate
	Qdisc string `json:"qdisc"`
	// how TCP reacts to loss, read back at both ends of a connection; absent in older results
	Congestion string `json:"congestion,omitempty"`
	// by rate, the bytes that pass at full speed after a pause
	Bursts map[string]int64 `json:"bursts_bytes"`
	// the links with a delay; absent without one
	Delays []Delay `json:"delays,omitempty"`
}

// A Delay describes a link with a delay.
type Delay struct {
	// the link, as --link names it
	Link string `json:"link" check:"name"`
	// what holds the packets: `mirror`, a process; in older results also `netem`, in the kernel
	By string `json:"by" check:"netem|mirror"`
	// size of the largest packet
	MTU int `json:"mtu_bytes"`
	// how TCP reacts to loss, such as `cubic`
	Congestion string `json:"congestion"`
	// how much longer than twice the delay a connect took, the median of 20
	Connect time.Duration `json:"connect_excess_ns"`
	// how much longer than twice the delay a byte there and one back took, the median of 100
	PingPong time.Duration `json:"pingpong_excess_ns"`
	// rate of one connection, without the link's loss, once its windows have grown
	Stream float64 `json:"stream_bytes_per_s"`
	// what limits it; empty in older results
	Limit string `json:"stream_limit,omitempty" check:"|rate|receive window|socket buffer|congestion window|mirror"`
}

// Read returns the environment of this process.
func Read() Environment { return read("/") }

// read is Read with root as the root directory of the kernel's files; tests use others.
func read(root string) Environment {
	e := Environment{
		Time:       time.Now().UTC().Truncate(time.Second),
		CPU:        cpuModel(root),
		CPUs:       count(text(root, "sys/devices/system/cpu/online")),
		Affinity:   affinity(),
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		LLC:        lastLevelCache(root),
		Governor:   governor(root),
		Hypervisor: hypervisor(),
		Arch:       runtime.GOARCH,
		Kernel:     release(),
		AES:        new(aes()),
		Loops:      kernel.Loops(),
		Cgroup:     readCgroup(root),
		Shm:        space("/dev/shm"),
		Tmp:        space(os.TempDir()),
		THP:        chosen(text(root, "sys/kernel/mm/transparent_hugepage/enabled")),
		ShmemTHP:   chosen(text(root, "sys/kernel/mm/transparent_hugepage/shmem_enabled")),
		FilesTHP:   hugePages(mounts(root), "/dev/shm"),
		Go:         runtime.Version(),
		Commit:     unknown,
	}
	e.MemTotal, e.MemAvailable = memory(root)
	pages, _ := number(root, "proc/sys/vm/nr_hugepages")
	e.HugePages = int(pages)
	e.SocketBuffer, _ = number(root, "proc/sys/net/core/wmem_max")
	if info, ok := debug.ReadBuildInfo(); ok {
		e.build(info)
	}
	return e
}

// version is set by the linker: see scripts/release.
var version string

// Version returns the version of this program: the one that the linker set, else the one that
// Go found. It is (devel) if there is none.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(version, info.Main.Version, "(devel)")
	}
	return cmp.Or(version, "(devel)")
}

// build copies the build's settings from info. Only binaries that go build made inside a
// working tree contain their commit.
func (e *Environment) build(info *debug.BuildInfo) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			e.Commit = s.Value
		case "vcs.modified":
			e.Dirty = s.Value == "true"
		case "-race":
			e.Race = s.Value == "true"
		}
	}
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return unknown
	}
	return unix.ByteSliceToString(u.Release[:])
}

// aes reports whether the processor has instructions for AES-GCM. Without them, Go's
// crypto/tls prefers ChaCha20.
func aes() bool {
	return cpuid.CPU.Supports(cpuid.AESNI, cpuid.CLMUL) || cpuid.CPU.Supports(cpuid.AESARM, cpuid.PMULL)
}

func hypervisor() string {
	switch c := &cpuid.CPU; {
	case !c.VM():
		return ""
	case c.HypervisorVendorString != "":
		return c.HypervisorVendorString
	default:
		return unknown
	}
}

func affinity() string {
	cpus, err := usage.Affinity()
	if err != nil {
		return unknown
	}
	return formatList(cpus)
}

// Processors returns the number of processors that ipcbench may use; 0 if unknown.
func (e Environment) Processors() int {
	if n := count(e.Affinity); n > 0 {
		return n
	}
	return max(0, e.CPUs)
}
