package pages

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// switched returns the value in brackets of a file below /sys/kernel/mm/transparent_hugepage.
func switched(t *testing.T, name string) string {
	t.Helper()
	b := check.Value(os.ReadFile("/sys/kernel/mm/transparent_hugepage/" + name))(t)
	_, value, _ := strings.Cut(string(b), "[")
	value, _, _ = strings.Cut(value, "]")
	return value
}

func share(t *testing.T) (whole, huge int64) {
	t.Helper()
	whole, huge, err := Observe()
	check.Must(t, err)
	return whole, huge
}

// TestHeap: heap memory is in pages of the size that was asked for, and the next memory at its place is not.
func TestHeap(t *testing.T) {
	if enabled := switched(t, "enabled"); enabled != "madvise" {
		skip.Missing(t, "transparent huge pages on request: enabled is %s", enabled)
	}
	for size, want := range map[Size]int64{System: 0, Small: 0, Huge: 32 << 20} {
		Forget()
		b := size.Heap(32<<20 + 100)
		check.That(t, size == System || address(b)%Bytes == 0, "%s: not aligned", size)
		for i := range b {
			b[i]++
		}
		whole, huge := share(t)
		check.Equal(t, huge, want, "huge pages of", size)
		check.That(t, whole >= 30<<20, "%d bytes are observed", whole)
		runtime.KeepAlive(b)
	}
	waiting.Until(t, "garbage to be collected", func() bool {
		runtime.GC()
		whole, _ := share(t)
		return whole == 0
	})
	check.That(t, !strings.Contains(string(check.Value(os.ReadFile("/proc/self/smaps"))(t)), " hg"), "an advice is left")
}

// TestMap: a mapping is aligned, has the file's bytes, and leaves nothing when it ends.
func TestMap(t *testing.T) {
	fd := check.Value(unix.MemfdCreate("pages", unix.MFD_CLOEXEC))(t)
	defer unix.Close(fd)
	const size = 5<<20 + 123
	check.Must(t, unix.Ftruncate(fd, size))
	before := mappings(t)
	for _, s := range []Size{System, Small, Huge} {
		b, err := s.Map(fd, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		check.Must(t, err)
		check.That(t, s == System || address(b)%Bytes == 0, "%s: not aligned", s)
		check.Must(t, Populate(b))
		b[0]++
		b[size-1]++
		whole, _ := share(t)
		check.That(t, whole >= Bytes, "%s: %d bytes are observed", s, whole)
		check.Must(t, Unmap(b))
	}
	b := make([]byte, size)
	check.Value(unix.Pread(fd, b, 0))(t)
	check.Equal(t, []byte{b[0], b[size-1]}, []byte{3, 3}, "bytes of the file")
	whole, _ := share(t)
	check.Equal(t, whole, 0, "observed at the end")
	check.Equal(t, mappings(t), before, "mappings of a memfd or without access")
}

// mappings counts mappings of memfds and reservations of at least a huge page.
func mappings(t *testing.T) (n int) {
	for line := range strings.Lines(string(check.Value(os.ReadFile("/proc/self/maps"))(t))) {
		if strings.Contains(line, "memfd:pages") {
			n++
		}
	}
	return n
}

// TestObserve: only whole huge pages inside of a mapping and of lent memory count.
func TestObserve(t *testing.T) {
	const text = "400000-c00000 rw-p 00000000 00:00 0 \nRss: 8192 kB\nAnonHugePages:      4096 kB\nShmemPmdMapped:        0 kB\n" +
		"1000000-1800000 rw-s 00000000 00:01 5 /memfd:x\nSize: 8192 kB\nRss: 8192 kB\nShmemPmdMapped:     8192 kB\nVmFlags: rd wr\n"
	whole, huge, err := observe(strings.NewReader(text), map[uintptr]int{0x500000: 0x500000, 0x1000000: 0x400000, 0x5000000: 0x800000})
	check.Must(t, err)
	check.Equal(t, []int64{whole, huge}, []int64{0x400000 + 0x400000, 0x400000 + 0x400000})
	whole, huge, err = observe(strings.NewReader("400000-c00000 r--s 0 0 0\nRss: 0 kB\n"), map[uintptr]int{0x400000: 0x800000})
	check.Must(t, err)
	check.Equal(t, []int64{whole, huge}, []int64{0, 0}, "of memory that is not present")
	_, _, err = observe(strings.NewReader("1000000-1800000 rw-s 0 0 0\nAnonHugePages: many\n"), map[uintptr]int{0x1000000: 0x400000})
	check.Fails(t, err, "AnonHugePages: many")
}
