package usage

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

func TestParseSchedstat(t *testing.T) {
	tests := []struct {
		name, text string
		want       time.Duration
		ok         bool
	}{
		{"usual", "48941032 148940 17\n", 148940, true},
		{"zero", "0 0 0\n", 0, true},
		{"nothing", "", 0, false},
		{"one number", "12\n", 0, false},
		{"two numbers", "12 13\n", 0, false},
		{"not a number", "12 x 13\n", 0, false},
		{"negative", "12 -1 13\n", 0, false},
		{"too large", "12 99999999999999999999 13\n", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseSchedstat([]byte(tt.text))
			check.That(t, ok == tt.ok && (!ok || got == tt.want), "got %d, %v, want %d, %v", got, ok, tt.want, tt.ok)
		})
	}
}

func TestParseIO(t *testing.T) {
	const usual = "rchar: 3980\nwchar: 17\nsyscr: 9\nsyscw: 2\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"
	tests := []struct {
		name, text string
		want       *IO
	}{
		{"usual", usual, &IO{ReadBytes: 3980, WrittenBytes: 17, ReadCalls: 9, WriteCalls: 2}},
		{"no end of line", "syscw: 2\nsyscr: 9\nwchar: 17\nrchar: 3980", &IO{ReadBytes: 3980, WrittenBytes: 17, ReadCalls: 9, WriteCalls: 2}},
		{"nothing", "", nil},
		{"one missing", "rchar: 3980\nwchar: 17\nsyscr: 9\n", nil},
		{"not a number", "rchar: x\nwchar: 17\nsyscr: 9\nsyscw: 2\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check.Same(t, cmp.Diff(tt.want, parseIO([]byte(tt.text))))
		})
	}
}

func TestParseStat(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name, text string
		want       System
		ok         bool
	}{
		{"usual", "cpu  1 2 4 100 200 8 16 32 64 128\ncpu0 1", System{Busy: 310 * ms, Idle: 3000 * ms, Steal: 320 * ms}, true},
		{"without guests", "cpu  1 2 4 100 200 8 16 32\n", System{Busy: 310 * ms, Idle: 3000 * ms, Steal: 320 * ms}, true},
		{"nothing", "", System{}, false},
		{"without steal", "cpu  1 2 4 100 200 8 16\n", System{}, false},
		{"another line", "cpu0  1 2 4 100 200 8 16 32 64 128\n", System{}, false},
		{"cut", "cpu  1 2 4 100 200 8 16 32 64 12", System{}, false},
		{"not a number", "cpu  1 2 4 100 x 8 16 32 64 128\n", System{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat([]byte(tt.text))
			check.That(t, (err == nil) == tt.ok && got == tt.want, "got %v, %v, want %v, ok %v", got, err, tt.want, tt.ok)
		})
	}
}

func TestReadSystem(t *testing.T) {
	before, err := ReadSystem()
	check.Must(t, err)
	burn(t, 50*time.Millisecond)
	after, err := ReadSystem()
	check.Must(t, err)
	// Ticks: at least one of the five falls into the time that was burnt.
	got := after.Since(before)
	check.That(t, got.Busy >= 10*time.Millisecond, "got %v, want at least 10ms of it busy", got)
}

func readMemory(t testing.TB) Memory {
	t.Helper()
	m, err := ReadMemory()
	check.Must(t, err)
	return m
}

func TestReadMemory(t *testing.T) {
	const size = 16 << 20
	before := readMemory(t)
	share(t, size)
	after := readMemory(t)
	const slack = 1 << 20 // the kernel counts pages in batches a processor
	got := after.Shmem - before.Shmem
	check.That(t, got >= size-slack && got <= size+slack, "got %d bytes more of shared memory, want %d", got, size)
	check.That(t, after.Peak >= after.RSS-slack && after.Peak >= size-slack,
		"got a peak of %d, want at least what is resident, %d", after.Peak, after.RSS)
	if got, want := after.Anon+after.File+after.Shmem, after.RSS; got < want-slack || got > want+slack {
		t.Errorf("got parts of %d, want the whole, %d", got, want)
	}
	if after.PSS != nil && (*after.PSS < size || *after.PSS > after.RSS+slack) {
		t.Errorf("got a PSS of %d, want between %d and %d", *after.PSS, size, after.RSS)
	}
}

func TestResetPeak(t *testing.T) {
	const size = 64 << 20
	t.Run("map and unmap", func(t *testing.T) { share(t, size) })
	before := readMemory(t)
	if err := ResetPeak(); err != nil {
		if os.Getuid() != 0 {
			skip.Refused(t, "a new peak: %v", err)
		}
		t.Fatal(err)
	}
	after := readMemory(t)
	check.That(t, after.Peak <= before.Peak-size/2, "got a peak of %d after the reset, %d before", after.Peak, before.Peak)
}

func BenchmarkReadMemory(b *testing.B) {
	share(b, 64<<20)
	for b.Loop() {
		readMemory(b)
	}
}

func BenchmarkReadSystem(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, err := ReadSystem()
		check.Need(b, err == nil, "%v", err)
	}
}
