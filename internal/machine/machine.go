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
	Time time.Time `json:"time"` // of reading, UTC

	CPU        string `json:"cpu" diff:"CPU model"`                        // the model's name
	Arch       string `json:"arch" diff:"architecture"`                    // GOARCH
	CPUs       int    `json:"cpus_online" diff:"processors online"`        // logical ones
	Affinity   string `json:"affinity" diff:"processors that may be used"` // those this process may use: "0-3,8"
	GOMAXPROCS int    `json:"gomaxprocs" diff:"GOMAXPROCS"`
	LLC        int64  `json:"llc_bytes" diff:"last-level cache"` // that one core can fill
	Governor   string `json:"governor,omitempty" diff:"frequency governor"`
	Hypervisor string `json:"hypervisor,omitempty" diff:"hypervisor"` // absent: none that shows itself
	Kernel     string `json:"kernel" diff:"kernel"`

	MemTotal     int64   `json:"mem_total_bytes" diff:"memory" near:"yes"`
	MemAvailable int64   `json:"mem_available_bytes"`
	Cgroup       *Cgroup `json:"cgroup,omitempty" diff:"each field"`
	Shm          *Space  `json:"dev_shm,omitempty" diff:"/dev/shm" near:"yes"`
	Tmp          *Space  `json:"tmp,omitempty" diff:"file system of temporary files" nothing:"not recorded"` // of the directory for temporary files, with sockets and the files of transports
	THP          string  `json:"thp" diff:"transparent huge pages"`                                          // of anonymous memory: always, madvise or never
	ShmemTHP     string  `json:"shmem_thp" diff:"transparent huge pages of shared memory"`
	HugePages    int     `json:"nr_hugepages" diff:"reserved huge pages"`
	SocketBuffer int64   `json:"wmem_max_bytes" diff:"largest socket buffer" nothing:"not recorded"` // the most that a socket's sender may have on the way

	AES   *bool  `json:"aes,omitempty" diff:"instructions for AES" nothing:"not recorded"`        // the processor has instructions with which TLS encrypts
	Loops string `json:"loops,omitempty" diff:"loops that train and fold" nothing:"not recorded"` // AVX2 or Go

	Link *Link `json:"link,omitempty" diff:"network of the run"` // the network with a rate that the run made for itself; absent without one

	// Where the run's servers listened over TCP: empty for the loopback interface, else
	// [OffLoopback], or [Insecure] where encryption and proven names were not asked for.
	Listen string `json:"listen,omitempty" check:"|off loopback|off loopback, insecure" diff:"servers listen" nothing:"on loopback"`

	Go     string `json:"go" diff:"Go version"`
	Commit string `json:"commit"`                              // of the running binary, or "unknown"
	Dirty  bool   `json:"dirty,omitempty"`                     // its source was not what the commit holds
	Race   bool   `json:"race,omitempty" diff:"race detector"` // built with the race detector, so no timing means anything
}

// What [Environment.Listen] may be. There is no address in it.
const (
	OffLoopback = "off loopback"
	Insecure    = "off loopback, insecure"
)

// A Space is a file system's size.
type Space struct {
	FileSystem string `json:"file_system"`
	Size       int64  `json:"size_bytes"`
	Free       int64  `json:"free_bytes"`
}

// A Link is how a run made a network with a rate.
type Link struct {
	Namespaces string           `json:"namespaces"` // of whose the run had its own: "users, network"
	Address    string           `json:"address"`    // of the server; what goes there and what comes from there have the rate, each
	MTU        int              `json:"mtu_bytes"`
	Qdisc      string           `json:"qdisc"`
	Bursts     map[string]int64 `json:"bursts_bytes"` // that may pass at once after a pause, by rate
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
