package machine

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
)

// files makes a root directory with files of the given names and contents.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, s := range contents {
		check.Must(t, errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700), os.WriteFile(filepath.Join(root, name), []byte(s), 0o600)))
	}
	return root
}

func TestReadFiles(t *testing.T) {
	e := read(files(t, map[string]string{
		"proc/meminfo":                                          "MemTotal:       24684084 kB\nMemFree:        100 kB\nMemAvailable:   24347368 kB\nHugePages_Total:       0\n",
		"proc/sys/vm/nr_hugepages":                              "12\n",
		"proc/sys/net/core/wmem_max":                            "4194304\n",
		"sys/devices/system/cpu/online":                         "0-3,8\n",
		"sys/devices/system/cpu/offline":                        "4-7\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":  "performance\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":  "powersave\n",
		"sys/devices/system/cpu/cpu2/cpufreq/scaling_governor":  "performance\n",
		"sys/devices/system/cpu/cpu0/cache/index0/size":         "48K\n",
		"sys/devices/system/cpu/cpu0/cache/index2/size":         "2048K\n",
		"sys/devices/system/cpu/cpu0/cache/index3/size":         "32M\n",
		"sys/kernel/mm/transparent_hugepage/enabled":            "always [madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/shmem_enabled":      "always within_size advise [never] deny force\n",
		"sys/kernel/mm/transparent_hugepage/khugepaged/unused":  "",
		"proc/self/mountinfo":                                   "23 31 0:22 / /dev/shm rw - tmpfs tmpfs rw,huge=always\n24 23 0:23 / /dev/shm rw - tmpfs tmpfs rw,size=1k,huge=within_size\n",
		"sys/devices/system/cpu/cpufreq/policy0/not_a_governor": "",
	}))
	got := Environment{
		CPUs: e.CPUs, LLC: e.LLC, Governor: e.Governor, MemTotal: e.MemTotal, MemAvailable: e.MemAvailable,
		THP: e.THP, ShmemTHP: e.ShmemTHP, FilesTHP: e.FilesTHP, HugePages: e.HugePages, SocketBuffer: e.SocketBuffer, Cgroup: e.Cgroup,
	}
	want := Environment{
		CPUs: 5, LLC: 32 << 20, Governor: "performance+powersave", MemTotal: 24684084 << 10, MemAvailable: 24347368 << 10,
		THP: "madvise", ShmemTHP: "never", FilesTHP: "within_size", HugePages: 12, SocketBuffer: 4 << 20,
	}
	check.Same(t, cmp.Diff(want, got))
}

// TestReadNothing: reading works in a container that shows no files.
func TestReadNothing(t *testing.T) {
	e := read(t.TempDir())
	check.That(t, e.THP == unknown && e.ShmemTHP == unknown && e.MemTotal == 0 && e.CPUs == 0 && e.Governor == "" && e.Cgroup == nil,
		"got %+v, want only what system calls return", e)
	check.That(t, e.Kernel != unknown && e.Affinity != unknown && e.CPU != "" && e.Go == runtime.Version(),
		"got %+v, want what system calls return", e)
}

func TestReadNonsense(t *testing.T) {
	root := files(t, map[string]string{
		"proc/meminfo":                                  "MemTotal: lots\nMemAvailable\n",
		"sys/devices/system/cpu/online":                 "3-1,x",
		"sys/devices/system/cpu/cpu0/cache/index3/size": "huge",
		"sys/kernel/mm/transparent_hugepage/enabled":    "always [madvise never",
	})
	e := read(root)
	check.That(t, e.MemTotal == 0 && e.MemAvailable == 0 && e.CPUs == 0 && e.LLC == 0 && e.THP == unknown, "got %+v, want nothing of it", e)
}

// TestReadThisMachine: the environment of this machine is plausible.
func TestReadThisMachine(t *testing.T) {
	began := time.Now()
	e := Read()
	text := check.Value(json.MarshalIndent(e, "", "\t"))(t)
	t.Logf("%s", text)
	switch {
	case e.CPUs < 1 || e.GOMAXPROCS < 1 || e.Affinity == "" || e.Affinity == unknown:
		t.Error("no processor")
	case e.MemTotal < 64<<20 || e.MemAvailable <= 0 || e.MemAvailable > e.MemTotal:
		t.Error("memory")
	case e.LLC != 0 && (e.LLC < 64<<10 || e.LLC > 4<<30):
		t.Error("last-level cache")
	case e.AES == nil || e.Listen != "":
		t.Error("AES, or where servers listen")
	case e.Kernel == "" || e.CPU == "" || e.Arch != runtime.GOARCH:
		t.Error("names")
	case e.Time.Unix() < began.Unix() || e.Time.Location() != time.UTC:
		t.Error("time")
	case e.Shm != nil && (e.Shm.Size < 0 || e.Shm.Free > e.Shm.Size):
		t.Error("/dev/shm")
	}
	host, err := os.Hostname()
	check.That(t, err != nil || len(host) <= 3 || !strings.Contains(string(text), host), "the host's name %q is in the result", host)
	var back Environment
	check.Must(t, json.Unmarshal(text, &back))
	check.Same(t, cmp.Diff(e, back), "JSON")
}

func TestBuild(t *testing.T) {
	for text, want := range map[string]Environment{
		"vcs=git vcs.revision=abc vcs.modified=false": {Commit: "abc"},
		"vcs.revision=abc vcs.modified=true":          {Commit: "abc", Dirty: true},
		"-race=true":                                  {Commit: unknown, Race: true},
		"CGO_ENABLED=1":                               {Commit: unknown},
	} {
		var info debug.BuildInfo
		for setting := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(setting, "=")
			info.Settings = append(info.Settings, debug.BuildSetting{Key: key, Value: value})
		}
		got := Environment{Commit: unknown}
		got.build(&info)
		check.Equal(t, got, want, text)
	}
}

func TestFormatList(t *testing.T) {
	for want, list := range map[string][]int{
		"": nil, "0": {0}, "0-1": {0, 1}, "0-3,8": {0, 1, 2, 3, 8}, "1,3,5": {1, 3, 5}, "2,4-6": {2, 4, 5, 6},
	} {
		check.Equal(t, formatList(list), want, list)
	}
}

func TestFileSystem(t *testing.T) {
	for path, want := range map[string]string{"/proc/self": "proc", "/sys/kernel": "sysfs"} {
		check.Equal(t, check.Value(FileSystem(path))(t), want, path)
	}
	list := mounts(files(t, map[string]string{"proc/self/mountinfo": `1 0 0:1 / / rw - overlay none rw
2 1 0:2 / /a rw - ext4 /dev/sda rw
3 1 0:3 / /a rw - tmpfs none rw
4 1 0:4 / /a/two\040words rw - nfs4 host:/ rw
`}))
	for path, want := range map[string]string{"/": "overlayfs", "/ab": "overlayfs", "/a": "tmpfs", "/a/b": "tmpfs", "/a/two words/b": "nfs4"} {
		check.Equal(t, typeOf(list, path), want, path)
	}
	check.Equal(t, typeOf(nil, "/"), unknown, "nothing is told")
	check.Equal(t, []string{hugePages(list, "/a"), hugePages(list, "/ab")}, []string{"never", ""}, "huge pages of a mount without the option, and of none")
	missing := filepath.Join(t.TempDir(), "missing")
	check.Fails(t, check.Err(FileSystem(missing)), missing)
}

// TestDiff: guard 17: Diff describes the differences between two environments.
func TestDiff(t *testing.T) {
	cpus, memory := 1.5, int64(8<<30)
	base := Environment{
		CPU: "Xeon", CPUs: 2, Affinity: "0-1", GOMAXPROCS: 2, LLC: 32 << 20, Arch: "amd64", Kernel: "6.1", Hypervisor: "KVM",
		MemTotal: 16 << 30, MemAvailable: 1 << 30, THP: "always", ShmemTHP: "never", Go: "go1.26", Commit: "a", AES: new(true),
		Shm: &Space{FileSystem: "tmpfs", Size: 8 << 30, Free: 1},
	}
	for _, tt := range []struct {
		name   string
		change func(*Environment)
		want   []string
	}{
		{"nothing", func(e *Environment) {}, nil},
		{"what is compared", func(e *Environment) { e.Commit, e.Dirty, e.Time = "b", true, time.Now() }, nil},
		{"what always changes", func(e *Environment) {
			e.MemAvailable, e.MemTotal, e.Shm = 2<<30, 16<<30-50<<20, &Space{FileSystem: "tmpfs", Size: 8<<30 - 25<<20, Free: 2}
		}, nil},
		{"processor", func(e *Environment) { e.CPU, e.CPUs = "EPYC", 4 }, []string{
			"CPU model: EPYC instead of Xeon",
			"processors online: 4 instead of 2"}},
		{"memory", func(e *Environment) { e.MemTotal = 16<<30 - 500<<20 }, []string{
			"memory: 15.51 GiB instead of 16 GiB"}},
		{"cache", func(e *Environment) { e.LLC = 48 << 10 }, []string{
			"last-level cache: 48 KiB instead of 32 MiB"}},
		{"governor", func(e *Environment) { e.Governor = "powersave" }, []string{
			"frequency governor: powersave instead of none"}},
		{"unlimited cgroup", func(e *Environment) { e.Cgroup = &Cgroup{Version: "v2"} }, nil},
		{"limited cgroup", func(e *Environment) { e.Cgroup = &Cgroup{Version: "v2", CPUs: &cpus, Memory: &memory} }, []string{
			"cgroup's processor limit: 1.5 instead of none",
			"cgroup's memory limit: 8 GiB instead of none"}},
		{"no /dev/shm", func(e *Environment) { e.Shm = nil }, []string{
			"/dev/shm: none instead of 8 GiB (tmpfs)"}},
		{"AES that one build did not look for", func(e *Environment) { e.AES = nil }, nil},
		{"no AES", func(e *Environment) { e.AES = new(false) }, []string{
			"instructions for AES: false instead of true"}},
		{"listening", func(e *Environment) { e.Listen = Insecure }, []string{
			"servers listen: off loopback, insecure instead of on loopback"}},
		{"race", func(e *Environment) { e.Race = true }, []string{
			"race detector: true instead of false"}},
	} {
		other := base
		tt.change(&other)
		var got []string
		for _, d := range Diff(base, other) {
			got = append(got, d.String())
		}
		check.Equal(t, got, tt.want, tt.name)
	}
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		Read()
	}
}

func BenchmarkMemoryLimit(b *testing.B) {
	for b.Loop() {
		MemoryLimit()
	}
}

func TestRoom(t *testing.T) {
	dir := t.TempDir()
	check.That(t, check.Value(Room(dir))(t) > 0, "there is no room")
	file := filepath.Join(dir, "file")
	check.Must(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{file: "not a directory", file + "s": "no such file"} {
		err := check.Err(Room(path))
		check.Fails(t, err, want)
		check.Fails(t, err, path)
	}
}

// TestProcessors: the number of processors comes from the affinity text if it is valid,
// even if another host sent the text.
func TestProcessors(t *testing.T) {
	for text, want := range map[string]int{"0-3,8": 5, "7": 1, "0-1": 2, "": 64, "3-1": 64, "x": 64, "0-99999999": 64, "-1": 64} {
		check.Equal(t, (Environment{Affinity: text, CPUs: 64}).Processors(), want, text)
	}
}
