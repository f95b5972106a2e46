package machine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// A Difference is something in which two environments, or two runs, differ.
type Difference struct {
	What string `json:"what"`
	Base string `json:"base"`
	Head string `json:"head"`
}

// String returns the difference as a sentence.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s in the first, %s in the second", d.What, d.Base, d.Head)
}

// Diff returns in what two environments differ that matters for a comparison.
// Build and time are left out: they are what is compared. So is what changes from
// minute to minute.
func Diff(a, b Environment) []Difference {
	var all []Difference
	differ := func(what string, x, y any) {
		if x != y {
			all = append(all, Difference{what, fmt.Sprint(x), fmt.Sprint(y)})
		}
	}
	differ("CPU model", a.CPU, b.CPU)
	differ("architecture", a.Arch, b.Arch)
	differ("processors online", a.CPUs, b.CPUs)
	differ("processors that may be used", a.Affinity, b.Affinity)
	differ("GOMAXPROCS", a.GOMAXPROCS, b.GOMAXPROCS)
	differ("last-level cache", bytes(a.LLC), bytes(b.LLC))
	differ("frequency governor", orNone(a.Governor), orNone(b.Governor))
	differ("hypervisor", orNone(a.Hypervisor), orNone(b.Hypervisor))
	differ("kernel", a.Kernel, b.Kernel)
	if !near(a.MemTotal, b.MemTotal) {
		differ("memory", Size(a.MemTotal), Size(b.MemTotal))
	}
	differ("cgroup's processor limit", a.Cgroup.cpuText(), b.Cgroup.cpuText())
	differ("cgroup's memory limit", a.Cgroup.memoryText(), b.Cgroup.memoryText())
	if x, y := a.Shm.orNone(), b.Shm.orNone(); x.FileSystem != y.FileSystem || !near(x.Size, y.Size) {
		differ("/dev/shm", x.String(), y.String())
	}
	if a.Tmp != nil && b.Tmp != nil { // a build may not have recorded it
		differ("file system of temporary files", a.Tmp.FileSystem, b.Tmp.FileSystem)
	}
	differ("transparent huge pages", a.THP, b.THP)
	differ("transparent huge pages of shared memory", a.ShmemTHP, b.ShmemTHP)
	differ("reserved huge pages", a.HugePages, b.HugePages)
	if a.SocketBuffer > 0 && b.SocketBuffer > 0 { // a build may not have recorded it
		differ("largest socket buffer", bytes(a.SocketBuffer), bytes(b.SocketBuffer))
	}
	if a.AES != nil && b.AES != nil { // likewise
		differ("instructions for AES", *a.AES, *b.AES)
	}
	if a.Loops != "" && b.Loops != "" { // likewise
		differ("loops that train and fold", a.Loops, b.Loops)
	}
	differ("network of the run", a.Link.text(), b.Link.text())
	differ("servers listen", cmp.Or(a.Listen, "on loopback"), cmp.Or(b.Listen, "on loopback"))
	differ("Go version", a.Go, b.Go)
	differ("race detector", a.Race, b.Race)
	return all
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (c *Cgroup) cpuText() string {
	if c == nil || c.CPUs == nil {
		return "none"
	}
	return fmt.Sprintf("%.4g", *c.CPUs)
}

func (c *Cgroup) memoryText() string {
	if c == nil || c.Memory == nil {
		return "none"
	}
	return bytes(*c.Memory)
}

func (l *Link) text() string {
	if l == nil {
		return "none"
	}
	text := fmt.Sprintf("namespaces of its own (%s), packets of %s, %s", l.Namespaces, bytes(int64(l.MTU)), l.Qdisc)
	for _, rate := range slices.Sorted(maps.Keys(l.Bursts)) {
		text += fmt.Sprintf(", bursts of %s at %s", bytes(l.Bursts[rate]), rate)
	}
	return text
}

func (s *Space) orNone() Space {
	if s == nil {
		return Space{FileSystem: "none"}
	}
	return *s
}

// String returns size and type.
func (s Space) String() string { return Size(s.Size) + " (" + s.FileSystem + ")" }

// near holds for sizes that differ by less than 1 %: the kernel reserves a
// little more or less memory from boot to boot.
func near(x, y int64) bool {
	d := max(x-y, y-x)
	return d <= max(x, y)/100
}

var units = []struct {
	size int64
	name string
}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}}

// Size writes n so that sizes that are not near do not look the same.
func Size(n int64) string {
	for _, u := range units {
		if n >= u.size {
			return fmt.Sprintf("%.4g %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// bytes writes n so that two different sizes never look the same.
func bytes(n int64) string {
	for _, u := range units {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
