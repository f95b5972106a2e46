package floors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

// victimEnv makes the test binary measure until it is killed.
const victimEnv = "FLOORS_TEST_VICTIM"

func TestMain(m *testing.M) {
	MaybePeer()
	if os.Getenv(victimEnv) != "" {
		for {
			if _, err := Measure(context.Background(), "futex", slow); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else each process of a -race build takes a second to end
	goleak.VerifyTestMain(m)
}

// slow makes those measurements take long that depend on the gap.
var slow = Params{Gap: MaxGap}

// Guard 21: floors are measured, and no sample is impossible.
func TestMeasure(t *testing.T) {
	for _, f := range All() {
		t.Run(f.Name, func(t *testing.T) {
			series, err := Measure(t.Context(), f.Name, Params{Gap: time.Millisecond})
			check.Must(t, err)
			low, high := 1e5, 1e13 // B/s: a floppy disk, and more than any memory
			if f.Unit == "s" {
				low, high = 100e-9, patience.Seconds() // less than a system call, and more than the whole measurement
			}
			check.That(t, len(series) != 0, "got no series")
			for i, s := range series {
				check.That(t, s.Variant != "" && len(s.Samples) != 0, "series %d: got %+v, want a variant and samples", i, s)
				for j, v := range s.Samples {
					check.That(t, v >= low && v <= high,
						"%s: sample %d is %v %s, want %v to %v", s.Variant, j, v, f.Unit, low, high)
				}
			}
		})
	}
}

func TestUnknownFloor(t *testing.T) {
	_, err := Measure(t.Context(), "ceiling", Params{})
	check.Fails(t, err, `"ceiling"`)
}

func TestVariantsSayWhatWasMeasured(t *testing.T) {
	for gap, want := range map[time.Duration]string{
		-1: "gap=0s", 0: "gap=0s", time.Microsecond: "gap=1µs", time.Hour: "gap=50ms",
	} {
		series, err := Measure(t.Context(), "futex", Params{Gap: gap})
		check.Must(t, err)
		check.Equal(t, series[0].Variant, want, "gap of", gap)
	}
	series, err := Measure(t.Context(), "unix-stream", Params{})
	check.Must(t, err)
	for i, size := range writeSizes() {
		got, want := series[i].Variant, fmt.Sprintf("write=%d", size)
		check.That(t, got == want, "got %q, want %q", got, want)
	}
}

func TestBufferSize(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name      string
		llc, free int64
		want      int64
		outside   bool
	}{
		{"small cache", 8 * mib, 16 << 30, 64 * mib, true},
		{"cache of the smallest buffer", 64 * mib, 16 << 30, 64 * mib, true},
		{"large cache", 260 * mib, 16 << 30, 260 * mib, true},
		{"odd cache", 260*mib + 777, 16 << 30, 260 * mib, true},
		{"huge cache", 1152 * mib, 16 << 30, 512 * mib, false},
		{"unknown cache", 0, 16 << 30, 256 * mib, true},
		{"little memory", 32 * mib, 256 * mib, 32 * mib, true},
		{"too little memory", 32 * mib, 128 * mib, 16 * mib, false},
		{"no memory", 32 * mib, 0, 8 * mib, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, outside := bufferSize(tt.llc, tt.free)
			check.That(t, got == tt.want && outside == tt.outside, "got %d, %v, want %d, %v", got, outside, tt.want, tt.outside)
		})
	}
}

// Guard 2: no zero page, and nothing that a kernel could compress.
func TestScramble(t *testing.T) {
	const page = 4096
	for _, size := range []int{0, 1, 7, 8, 9, page, 64<<10 - 25, 64<<10 - 24, 64<<10 - 23, 64 << 10, 1<<20 + 5} {
		b := make([]byte, size)
		scramble(b)
		if size >= page {
			zeros := bytes.Count(b, []byte{0})
			check.That(t, zeros <= size/128, "%d bytes: %d of them are zero", size, zeros)
		}
		seen := map[string]bool{}
		for at := 0; at+page <= size; at += page {
			check.Need(t, !seen[string(b[at:at+page])], "%d bytes: two pages are alike", size)
			seen[string(b[at:at+page])] = true
		}
	}
}

// A process is one of the system, as this test sees it.
type process struct {
	pid  int
	args []string
}

// peersOf returns the peers that a process has started.
func peersOf(t *testing.T, parent int) []process {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	check.Must(t, err)
	var found []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat") // "12 (name) S parent …"; gone: empty
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if args := strings.Split(string(cmdline), "\x00"); len(args) > 1 && args[1] == "(floor)" {
			found = append(found, process{pid, args[1:]})
		}
	}
	return found
}

// A peer that dies is named, whichever it is, and the other one does not stay.
func TestPeerDies(t *testing.T) {
	for _, f := range All() {
		for role := range f.roles {
			t.Run(fmt.Sprintf("%s/%d", f.Name, role), func(t *testing.T) {
				want := fmt.Sprintf("floors: %s: process %d of %d: signal: killed", f.Name, role+1, len(f.roles))
				// On a machine that stalls, a measurement may be over before it is hit.
				for range 20 {
					result := make(chan error, 1)
					go func() {
						_, err := Measure(t.Context(), f.Name, slow)
						result <- err
					}()
					waiting.Until(t, "peer runs", func() bool {
						for _, p := range peersOf(t, os.Getpid()) {
							if p.args[2] == strconv.Itoa(role) {
								return unix.Kill(p.pid, unix.SIGKILL) == nil
							}
						}
						return len(result) > 0
					})
					err := <-result
					left := peersOf(t, os.Getpid())
					check.That(t, len(left) == 0, "left behind: %v", left)
					if err == nil {
						continue
					}
					check.That(t, err.Error() == want, "got %q, want %q", err, want)
					return
				}
				t.Error("no peer could be hit")
			})
		}
	}
}

// A peer that stops answering ends the measurement within its bound, and the error
// says in which state each of them was.
func TestPeerStops(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 3 * time.Second
	for range 20 { // on a machine that stalls, a measurement may be over before it is hit
		result := make(chan error, 1)
		go func() {
			_, err := Measure(t.Context(), "futex", slow)
			result <- err
		}()
		waiting.Until(t, "peer is stopped", func() bool {
			for _, p := range peersOf(t, os.Getpid()) {
				if p.args[2] == "1" {
					return unix.Kill(p.pid, unix.SIGSTOP) == nil
				}
			}
			return len(result) > 0
		})
		err := <-result
		left := peersOf(t, os.Getpid())
		check.That(t, len(left) == 0, "left behind: %v", left)
		if err == nil {
			continue
		}
		for _, want := range []string{"floors: futex: no result after 3s", "process 1 of 2 (pid ", "process 2 of 2 (pid ", ") was stopped (T)"} {
			check.That(t, strings.Contains(err.Error(), want), "got %q, want %q in it", err, want)
		}
		return
	}
	t.Error("no peer could be hit")
}

func TestContextEndsMeasuring(t *testing.T) {
	for _, f := range All() {
		t.Run(f.Name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error, 1)
			go func() {
				_, err := Measure(ctx, f.Name, slow)
				result <- err
			}()
			waiting.Until(t, "all peers run", func() bool { return len(peersOf(t, os.Getpid())) == len(f.roles) || len(result) > 0 })
			cancel()
			err := <-result
			check.That(t, err == nil || errors.Is(err, context.Canceled), "got %v, want %v", err, context.Canceled)
			left := peersOf(t, os.Getpid())
			check.That(t, len(left) == 0, "left behind: %v", left)
		})
	}
}

func TestContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Measure(ctx, "futex", Params{})
	check.That(t, errors.Is(err, context.Canceled), "got %v, want %v", err, context.Canceled)
}

// Peers of a killed process do not outlive it.
func TestStarterDies(t *testing.T) {
	victim := exec.Command("/proc/self/exe")
	victim.Env = append(os.Environ(), victimEnv+"=1")
	victim.Stderr = os.Stderr
	victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check.Must(t, victim.Start())
	var peers []process
	waiting.Until(t, "victim has peers", func() bool {
		peers = peersOf(t, victim.Process.Pid)
		return len(peers) == 2
	})
	check.Must(t, victim.Process.Kill())
	victim.Wait()
	waiting.Until(t, "peers are gone", func() bool {
		return !slices.ContainsFunc(peers, func(p process) bool {
			cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
			return err == nil && strings.Contains(string(cmdline), "\x00(floor)\x00")
		})
	})
}

func TestPinning(t *testing.T) {
	var before unix.CPUSet
	check.Must(t, unix.SchedGetaffinity(os.Getpid(), &before))
	cpu := 0
	for !before.IsSet(cpu) {
		cpu++
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := Measure(ctx, "futex", Params{Gap: MaxGap, CPUs: []int{cpu, cpu}})
		result <- err
	}()
	var peers []process
	waiting.Until(t, "both peers run", func() bool {
		peers = peersOf(t, os.Getpid())
		return len(peers) == 2 || len(result) > 0
	})
	for _, p := range peers {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(p.pid, &set); err == nil && (set.Count() != 1 || !set.IsSet(cpu)) {
			t.Errorf("%v: got %d processors, want processor %d alone", p.args, set.Count(), cpu)
		}
	}
	check.OK(t, <-result)
	threads, err := os.ReadDir("/proc/self/task")
	check.Must(t, err)
	for _, thread := range threads {
		tid, _ := strconv.Atoi(thread.Name())
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(tid, &set); err == nil && set != before {
			t.Errorf("thread %d is still pinned", tid)
		}
	}

	for want, cpus := range map[string][]int{
		"start process 1 of 2: usage: restrict to processors [1000]:":         {1000, cpu},
		"start process 2 of 2: only 1 processors are named":                   {cpu},
		"start process 1 of 2: usage: restrict to processors [-1]: invalid a": {-1, -1},
	} {
		if _, err := Measure(t.Context(), "futex", Params{CPUs: cpus}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestDescriptorsAreClosed(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		check.Must(t, err)
		return len(entries)
	}
	measure := func() {
		_, err := Measure(t.Context(), "unix-pingpong", Params{})
		check.Need(t, err == nil, "%v", err)
		if _, err := Measure(t.Context(), "futex", Params{CPUs: []int{0}}); err == nil {
			t.Fatal("got no error for one processor and two processes")
		}
	}
	measure()
	before := count()
	for range 3 {
		measure()
	}
	if after := count(); after > before { // others may have been closed meanwhile
		t.Errorf("got %d descriptors, %d before", after, before)
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add([]byte(`{"series":[{"variant":"gap=0s","samples":[0.000003]}]}`))
	f.Add([]byte(`{"error":"memfd_create: no"}`))
	f.Add([]byte(`{"series":[{"variant":"x","samples":[0]}]}`))
	f.Add([]byte(`{"series":[{}]}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, text []byte) {
		series, err := parseReply(text)
		if err != nil {
			return
		}
		for _, s := range series {
			check.That(t, len(s.Samples) != 0, "%q: a series without samples", text)
			for _, v := range s.Samples {
				check.That(t, v > 0 && v <= math.MaxFloat64, "%q: sample %v", text, v)
			}
		}
	})
}

// What the driver pays for a floor, and what the floor is here.
func BenchmarkMeasure(b *testing.B) {
	for _, f := range All() {
		gaps := []time.Duration{0}
		if f.Unit == "s" {
			gaps = append(gaps, time.Millisecond, 20*time.Millisecond)
		}
		for _, gap := range gaps {
			b.Run(fmt.Sprintf("floor=%s/gap=%v", f.Name, gap), func(b *testing.B) {
				pooled := map[string][]float64{}
				for b.Loop() {
					series, err := Measure(b.Context(), f.Name, Params{Gap: gap})
					check.Must(b, err)
					for _, s := range series {
						pooled[s.Variant] = append(pooled[s.Variant], s.Samples...)
					}
				}
				best := 0.
				for _, samples := range pooled {
					slices.Sort(samples)
					best = max(best, samples[len(samples)/2])
				}
				if f.Unit == "s" {
					b.ReportMetric(best*1e6, "µs/exchange")
				} else {
					b.ReportMetric(best/1e9, "GB/s")
				}
			})
		}
	}
}
