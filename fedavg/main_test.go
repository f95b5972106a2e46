package fedavg_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"ipcbench/fedavg"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

func TestMain(m *testing.M) {
	testHost().MaybeWorker()
	os.Exit(m.Run())
}

// TestLossGoesDown: the example's loss decreases, and is the same to the bit with every transport and number of
// workers.
func TestLossGoesDown(t *testing.T) {
	var first []float64
	for n, transport := range []string{"shm-slab", "http:codec=sparse", "grpc-stream", "pickle", "inproc"} {
		r := newRegression()
		r.Variant, r.Launcher = over(t, transport)
		r.Workers = 1 + n%3
		got, err := fit(waiting.Context(t), r, 5, 12)
		check.Must(t, err)
		check.OK(t, r.Close())
		for i := 1; i < len(got); i++ {
			check.That(t, got[i] < got[i-1], "%s: losses are %v: round %d is no better than before", transport, got, i)
		}
		check.That(t, len(got) == 12 && got[11] <= got[0]/1000,
			"%s: losses are %v, want 12 that end below a thousandth of the first", transport, got)
		if first == nil {
			first = got
		}
		check.Equal(t, got, first, transport)
	}
}

// TestInterrupt: an interrupt in the middle of a round ends the round, and Close ends all workers.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(waiting.Context(t))
	defer cancel()
	var workers string
	r := newRegression()
	r.Variant, r.Launcher = over(t, "shm-slab")
	r.Progress = func(pending iter.Seq[*fedavg.Pending]) iter.Seq[*fedavg.Pending] {
		workers = children(t)
		cancel()
		return pending
	}
	_, err := fit(ctx, r, 2, 1_000_000)
	check.Is(t, err, context.Canceled)
	check.OK(t, r.Close())
	left := children(t)
	check.That(t, workers != "" && left == "", "workers were processes %q, of which %q are left", workers, left)
}

// children returns the ids of this process's child processes.
func children(t *testing.T) (all string) {
	t.Helper()
	for _, path := range check.Value(filepath.Glob("/proc/self/task/*/children"))(t) {
		text, _ := os.ReadFile(path) // empty if the thread has ended
		all += string(text)
	}
	return all
}
