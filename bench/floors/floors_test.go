package floors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase/usage"
)

// signalEnv makes peers send themselves a signal first; "9 1" sends signal 9 to the peer of part 1.
const signalEnv = "FLOORS_TEST_SIGNAL"

func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{
		reexec.Floor: func(question []byte) (any, error) {
			number, part, _ := strings.Cut(os.Getenv(signalEnv), " ")
			if n, err := strconv.Atoi(number); err == nil && (part == "" || part == os.Args[3]) {
				_ = unix.Kill(os.Getpid(), syscall.Signal(n))
			}
			return Work(question)
		},
		"victim": func([]byte) (any, error) { // measures until it is killed
			for {
				if _, err := Measure(context.Background(), "futex", Params{Gap: MaxGap}); err != nil {
					return nil, err
				}
			}
		},
	})
	os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each process of a -race build takes a second to end
	goleak.VerifyTestMain(m)
}

// TestMeasure: every floor is measured, and every sample is plausible (guard 21).
func TestMeasure(t *testing.T) {
	for _, f := range All() {
		t.Run(f.Name, func(t *testing.T) { plausible(t, f, Params{Gap: time.Millisecond}) })
	}
}

// plausible measures a floor and checks each sample.
func plausible(t *testing.T, f Floor, p Params) {
	t.Helper()
	series := check.Value(Measure(t.Context(), f.Name, p))(t)
	low, high := 1e5, 1e13 // B/s: a floppy disk, and more than any memory
	if f.Unit == "s" {
		low, high = 100e-9, patience.Seconds() // less than a system call, and more than the whole measurement
	}
	check.That(t, len(series) != 0, "%s: got no series", f.Name)
	for _, s := range series {
		check.That(t, s.Variant != "" && len(s.Samples) != 0, "%s: got %+v, want a variant and samples", f.Name, s)
		for j, v := range s.Samples {
			check.That(t, v >= low && v <= high,
				"%s, %s: sample %d is %v %s, want %v to %v", f.Name, s.Variant, j, v, f.Unit, low, high)
		}
	}
}

func TestVariantsSayWhatWasMeasured(t *testing.T) {
	for gap, want := range map[time.Duration]string{
		-1: "gap=0s", 0: "gap=0s", time.Microsecond: "gap=1µs", time.Hour: "gap=50ms",
	} {
		series := check.Value(Measure(t.Context(), "futex", Params{Gap: gap}))(t)
		check.Equal(t, series[0].Variant, want, "gap of", gap)
	}
	series := check.Value(Measure(t.Context(), "unix-stream", Params{}))(t)
	for i, size := range writeSizes {
		check.Equal(t, series[i].Variant, fmt.Sprintf("write=%d", size))
	}
	check.Fails(t, check.Err(Measure(t.Context(), "ceiling", Params{})), `"ceiling"`)
}

func TestBufferSize(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
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
	} {
		got, outside := bufferSize(tt.llc, tt.free)
		check.That(t, got == tt.want && outside == tt.outside, "%s: got %d, %v, want %d, %v", tt.name, got, outside, tt.want, tt.outside)
	}
}

// TestScramble: no page is zero or equal to another, so the kernel cannot share or compress any (guard 2).
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

func peersOf(t *testing.T, parent int) (peers []int) {
	t.Helper()
	children := check.Value(usage.ChildrenOf(parent))(t)
	return slices.DeleteFunc(children, func(pid int) bool { return !isPeer(pid) })
}

func isPeer(pid int) bool { return strings.Contains(proc.Read(pid, "cmdline"), "\x00(floor)\x00") }

// fails makes some peers of a measurement get a signal, checks that it fails and leaves no peer, and returns the error.
func fails(ctx context.Context, t *testing.T, name, signal string, p Params) error {
	t.Helper()
	t.Setenv(signalEnv, signal)
	_, err := Measure(ctx, name, p)
	left := peersOf(t, os.Getpid())
	check.That(t, err != nil && len(left) == 0, "got error %v, left behind: %v", err, left)
	return err
}

// TestPeerDies: if either peer dies, the error names it and the other peer ends too.
func TestPeerDies(t *testing.T) {
	for _, f := range All() {
		for part := range f.parts {
			err := fails(t.Context(), t, f.Name, fmt.Sprint("9 ", part), Params{})
			check.Fails(t, err, fmt.Sprintf("floors: %s: process %d of %d: signal: killed", f.Name, part+1, len(f.parts)))
		}
	}
}

// TestPeerStops: a peer that stops answering ends the measurement after the limit patience, and the error gives the
// state of both peers.
func TestPeerStops(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 3 * time.Second
	err := fails(t.Context(), t, "futex", "19 1", Params{})
	for _, want := range []string{"floors: futex: no result after 3s", "process 1 of 2 (pid ", "process 2 of 2 (pid ", ") was stopped (T)"} {
		check.Fails(t, err, want)
	}
}

// stopped measures a floor whose peers all stop, and cancels the measurement once look has returned.
func stopped(t *testing.T, name string, parts int, p Params, look func(peers []int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		waiting.Until(t, "all peers run", func() bool { return len(peersOf(t, os.Getpid())) == parts })
		look(peersOf(t, os.Getpid()))
	}()
	check.Is(t, fails(ctx, t, name, "19", p), context.Canceled)
}

func TestContextEndsMeasuring(t *testing.T) {
	for _, f := range All() {
		stopped(t, f.Name, len(f.parts), Params{}, func([]int) {})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Is(t, fails(ctx, t, "futex", "", Params{}), context.Canceled)
}

// TestStarterDies: the peers of a killed process end too.
func TestStarterDies(t *testing.T) {
	victim := check.Value(reexec.Start(t.Context(), reexec.Command{Role: "victim", Stderr: os.Stderr}))(t)
	var peers []int
	waiting.Until(t, "victim has peers", func() bool {
		peers = peersOf(t, victim.PID())
		return len(peers) == 2
	})
	check.Must(t, victim.Signal(unix.SIGKILL))
	<-victim.Exited()
	waiting.Until(t, "peers are gone", func() bool { return !slices.ContainsFunc(peers, isPeer) })
}

func TestPinning(t *testing.T) {
	before := check.Value(usage.Affinity())(t)
	cpu := before[0]
	stopped(t, "futex", 2, Params{CPUs: []int{cpu, cpu}}, func(peers []int) {
		for _, pid := range peers {
			check.Equal(t, check.Value(usage.Processors(pid))(t), []int{cpu})
		}
	})
	for _, thread := range check.Value(os.ReadDir("/proc/self/task"))(t) {
		tid, _ := strconv.Atoi(thread.Name())
		if cpus, err := usage.Processors(tid); err == nil { // else it has ended
			check.Equal(t, cpus, before, "the processors of thread", tid)
		}
	}
	for want, cpus := range map[string][]int{
		"start process 1 of 2: usage: restrict to processors [1000]:":         {1000, cpu},
		"start process 2 of 2: only 1 processors are named":                   {cpu},
		"start process 1 of 2: usage: restrict to processors [-1]: invalid a": {-1, -1},
	} {
		check.Fails(t, fails(t.Context(), t, "futex", "", Params{CPUs: cpus}), want)
	}
}

func TestDescriptorsAreClosed(t *testing.T) {
	count := func() int {
		check.Must(t, check.Err(Measure(t.Context(), "unix-pingpong", Params{})))
		check.Fails(t, fails(t.Context(), t, "futex", "", Params{CPUs: []int{0}}), "only 1 processors")
		return proc.Descriptors(os.Getpid())
	}
	before := count()
	for range 3 {
		after := count() // fewer is possible, because other descriptors may have been closed
		check.That(t, after <= before, "got %d descriptors, %d before", after, before)
	}
}

// TestFits: a floor that has too little memory is refused before it starts, with both amounts.
func TestFits(t *testing.T) {
	for _, f := range All() {
		check.OK(t, f.fits(2*modelBytes, "MemAvailable"), f.Name)
		if err := f.fits(2*leastCopy-1, "MemAvailable"); f.size > 0 {
			check.That(t, errors.As(err, new(Unfit)), "%s: got %v", f.Name, err)
			check.Fails(t, err, "of free memory, twice the ", f.Name)
			check.Fails(t, err, "but MemAvailable has 16 MiB", f.Name)
		} else {
			check.OK(t, err, f.Name)
		}
	}
}
