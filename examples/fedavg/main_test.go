package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	testHost().MaybeWorker()
	os.Exit(m.Run())
}

// losses runs the program and returns the loss at the beginning of each round.
func losses(t *testing.T, args ...string) (all []float64) {
	t.Helper()
	var out strings.Builder
	check(t, run(t.Context(), args, &out))
	for line := range strings.Lines(out.String()) {
		var round int
		var loss float64
		if n, _ := fmt.Sscanf(line, "round %d began with a loss of %f", &round, &loss); n == 2 {
			all = append(all, loss)
		}
	}
	return all
}

// TestLossGoesDown: the loss decreases, and is the same to the bit with every
// transport and number of workers.
func TestLossGoesDown(t *testing.T) {
	var first []float64
	for _, transport := range []string{"shm-slab", "http:codec=sparse", "grpc-stream", "pickle", "inproc"} {
		got := losses(t, "--transport", transport, "--clients", "5", "--rounds", "12", "--workers", fmt.Sprint(1+len(transport)%3))
		for i := 1; i < len(got); i++ {
			if got[i] >= got[i-1] {
				t.Errorf("%s: losses are %v: round %d is no better than the one before", transport, got, i)
			}
		}
		if len(got) != 12 || got[11] > got[0]/1000 {
			t.Errorf("%s: losses are %v, want 12 that end below a thousandth of the first", transport, got)
		}
		if first == nil {
			first = got
		}
		equal(t, got, first)
	}
}

// TestWrongFlags: invalid flags and arguments are errors.
func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"--clients", "0"}, {"--rounds", "-1"}, {"--deadline", "0s"}, {"--transport", "carrier-pigeon"}, {"again"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
}

// TestDeadline: clients that would train forever send their model at the deadline.
func TestDeadline(t *testing.T) {
	got := losses(t, "--clients", "2", "--rounds", "2", "--epochs", "1000000000", "--deadline", "500ms")
	equal(t, len(got), 2)
}

// TestInterrupt: an interrupt in the middle of a round ends the program and all workers.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers string
	out := writer(func([]byte) { // during a round, or between two rounds
		workers = children(t)
		cancel()
	})
	err := run(ctx, []string{"--clients", "2", "--rounds", "1000000"}, out)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if left := children(t); workers == "" || left != "" {
		t.Errorf("workers were processes %q, of which %q are left", workers, left)
	}
}

// children returns the ids of this process's child processes.
func children(t *testing.T) (all string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	check(t, err)
	for _, path := range tasks {
		text, _ := os.ReadFile(path) // empty if the thread has ended
		all += string(text)
	}
	return all
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}
