// Package machine says where a measurement was made: the environment section of
// a result. It reads; it changes nothing, and it starts nothing.
//
// Two results may be compared when [Diff] of their environments is empty; if
// not, its sentences belong at the top of the comparison. [MemoryLimit] is what
// a cell may need, [Room] what files may, and [FileSystem] what lies under a path.
//
// There is no host name, no user and no address in an Environment, so that it
// may be published.
package machine

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/unix"

	"ipcbench/internal/kernel"
	"ipcbench/phase/usage"
)

// unknown stands where a name could not be found out.
const unknown = "unknown"

// An Environment is what may change the outcome of a measurement without any
// change to ipcbench, and the build that was measured. What a machine does not
// tell is absent, zero or "unknown".
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
	// the hypervisor, if there is one that shows itself
	Hypervisor string `json:"hypervisor,omitempty" diff:"hypervisor"`
	// version of the Linux kernel
	Kernel string `json:"kernel" diff:"kernel"`

	// memory of the machine
	MemTotal int64 `json:"mem_total_bytes" diff:"memory" near:"yes"`
	// memory that was free for use when the run began
	MemAvailable int64 `json:"mem_available_bytes"`
	// limits of the control group; absent if there is none to see
	Cgroup *Cgroup `json:"cgroup,omitempty" diff:"each field"`
	// the file system at `/dev/shm`, where shared memory lies
	Shm *Space `json:"dev_shm,omitempty" diff:"/dev/shm" near:"yes"`
	// the file system for temporary files, where sockets and the files of transports lie
	Tmp *Space `json:"tmp,omitempty" diff:"file system of temporary files" nothing:"not recorded"`
	// transparent huge pages for private memory: `always`, `madvise` or `never`
	THP string `json:"thp" diff:"transparent huge pages"`
	// the same for shared memory
	ShmemTHP string `json:"shmem_thp" diff:"transparent huge pages of shared memory"`
	// huge pages that are set aside
	HugePages int `json:"nr_hugepages" diff:"reserved huge pages"`
	// the largest send buffer that a socket may ask for; 0 if unknown
	//
	// A sender may have that much on the way.
	SocketBuffer int64 `json:"wmem_max_bytes" diff:"largest socket buffer" nothing:"not recorded"`

	// the processor has the instructions with which TLS encrypts (AES and carry-less
	// multiplication); absent if nobody looked
	AES *bool `json:"aes,omitempty" diff:"instructions for AES" nothing:"not recorded"`
	// which loops train and fold: `AVX2`, in assembly, or `Go`; absent in a file of an older
	// build. A worker in Python or a peer says it under `software`: `kernel`, `C` or `numpy`
	Loops string `json:"loops,omitempty" diff:"loops that train and fold" nothing:"not recorded"`

	// the network with a rate that the run had for itself; docs/links.md says how it is made
	Link *Link `json:"link,omitempty" diff:"network of the run"`

	// where servers listened over TCP: `off loopback`, or `off loopback, insecure` with
	// `--insecure-network`; absent if it was on the loopback interface
	//
	// It is empty, [OffLoopback] or [Insecure].
	Listen string `json:"listen,omitempty" check:"|off loopback|off loopback, insecure" diff:"servers listen" nothing:"on loopback"`

	// version of Go that built ipcbench
	Go string `json:"go" diff:"Go version"`
	// commit of the source, or `unknown`
	Commit string `json:"commit"`
	// the source differed from that commit
	Dirty bool `json:"dirty,omitempty"`
	// built with the race detector: no time in this file means anything
	Race bool `json:"race,omitempty" diff:"race detector"`
}

// What [Environment.Listen] may be. There is no address in it.
const (
	OffLoopback = "off loopback"
	Insecure    = "off loopback, insecure"
)

// A Space is a file system's size.
type Space struct {
	FileSystem string `json:"file_system"` // type of the file system, such as `tmpfs`
	Size       int64  `json:"size_bytes"`  // size of the file system
	Free       int64  `json:"free_bytes"`  // what was free when the run began
}

// A Link is how a run made a network with a rate.
type Link struct {
	// of what the run had its own: `network`, or `users, network`
	Namespaces string `json:"namespaces"`
	// of the server; what goes there and what comes from there has the rate, each way
	Address string `json:"address"`
	// the largest packet
	MTU int `json:"mtu_bytes"`
	// what kept the rate, as the kernel calls it
	Qdisc string `json:"qdisc"`
	// by rate, how much passed at once after a pause
	Bursts map[string]int64 `json:"bursts_bytes"`
}

// Read returns the environment of this process.
func Read() Environment { return read("/") }

// read takes what is in files from the directory root.
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
		Go:         runtime.Version(),
		Commit:     unknown,
	}
	e.MemTotal, e.MemAvailable = memory(root)
	if n, ok := number(root, "proc/sys/vm/nr_hugepages"); ok {
		e.HugePages = int(n)
	}
	if n, ok := number(root, "proc/sys/net/core/wmem_max"); ok {
		e.SocketBuffer = n
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		e.build(info)
	}
	return e
}

// build takes what the linker noted. Only binaries that go build made inside a
// working tree know their commit.
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

// aes reports whether Go's crypto/tls finds what it encrypts with by itself: AES-GCM
// in instructions. Without them it takes ChaCha20.
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

// Processors returns how many processors a process may use there; 0 if that is not known.
func (e Environment) Processors() int {
	if n := count(e.Affinity); n > 0 {
		return n
	}
	return max(0, e.CPUs)
}
