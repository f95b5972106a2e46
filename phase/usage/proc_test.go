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
	for text, want := range map[string]time.Duration{ // -1 is an error
		"48941032 148940 17\n": 148940, "0 0 0\n": 0, "": -1, "12\n": -1, "12 13\n": -1,
		"12 x 13\n": -1, "12 -1 13\n": -1, "12 99999999999999999999 13\n": -1,
	} {
		got, ok := parseSchedstat([]byte(text))
		check.That(t, ok == (want >= 0) && (!ok || got == want), "%q: got %d, %v, want %d", text, got, ok, want)
	}
}

func TestParseIO(t *testing.T) {
	usual := &IO{ReadBytes: 3980, WrittenBytes: 17, ReadCalls: 9, WriteCalls: 2}
	for text, want := range map[string]*IO{
		"rchar: 3980\nwchar: 17\nsyscr: 9\nsyscw: 2\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n": usual,

		"syscw: 2\nsyscr: 9\nwchar: 17\nrchar: 3980": usual,
		"":                                   nil,
		"rchar: 3980\nwchar: 17\nsyscr: 9\n": nil,
		"rchar: x\nwchar: 17\nsyscr: 9\nsyscw: 2\n": nil,
	} {
		check.Same(t, cmp.Diff(want, parseIO([]byte(text))), text)
	}
}

func TestParseStat(t *testing.T) {
	const ms = time.Millisecond
	usual := System{Busy: 310 * ms, Idle: 3000 * ms, Steal: 320 * ms}
	for text, want := range map[string]System{ // the zero System is an error
		"cpu  1 2 4 100 200 8 16 32 64 128\ncpu0 1": usual,
		"cpu  1 2 4 100 200 8 16 32\n":              usual, // without guests
		"":                                          {},
		"cpu  1 2 4 100 200 8 16\n":                 {}, // without steal
		"cpu0  1 2 4 100 200 8 16 32 64 128\n":      {}, // another line
		"cpu  1 2 4 100 200 8 16 32 64 12":          {}, // cut
		"cpu  1 2 4 100 x 8 16 32 64 128\n":         {},
	} {
		got, err := parseStat([]byte(text))
		check.That(t, got == want && (err == nil) == (want != System{}), "%q: got %v, %v, want %v", text, got, err, want)
	}
}

func TestReadSystem(t *testing.T) {
	before := check.Value(ReadSystem())(t)
	burn(t, 50*time.Millisecond)
	after := check.Value(ReadSystem())(t)
	// At least one of the five clock ticks falls into the burnt time.
	got := after.Since(before)
	check.That(t, got.Busy >= 10*time.Millisecond, "got %v, want at least 10ms of it busy", got)
}

func readMemory(t testing.TB) Memory {
	t.Helper()
	return check.Value(ReadMemory())(t)
}

func TestReadMemory(t *testing.T) {
	const size = 16 << 20
	before := readMemory(t)
	share(t, size)
	after := readMemory(t)
	const slack = 1 << 20 // the kernel counts pages in batches per processor
	got := after.Shmem - before.Shmem
	check.That(t, got >= size-slack && got <= size+slack, "got %d bytes more of shared memory, want %d", got, size)
	check.That(t, after.Peak >= after.RSS-slack && after.Peak >= size-slack,
		"got a peak of %d, want at least what is resident, %d", after.Peak, after.RSS)
	parts := after.Anon + after.File + after.Shmem
	check.That(t, parts >= after.RSS-slack && parts <= after.RSS+slack, "got parts of %d, want the whole, %d", parts, after.RSS)
	check.That(t, after.PSS == nil || *after.PSS >= size && *after.PSS <= after.RSS+slack, "got a PSS of %v, want between %d and %d", after.PSS, size, after.RSS)
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

func BenchmarkRead(b *testing.B) {
	share(b, 64<<20)
	for name, read := range map[string]func(){
		"memory": func() { readMemory(b) }, "usage": func() { read(b) },
		"system": func() {
			check.Must(b, check.Err(ReadSystem()))
		},
	} {
		b.Run("of="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}
