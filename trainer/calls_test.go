package trainer_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ipcbench/scratch"
	"ipcbench/trainer"
	"ipcbench/transports/pickle"
)

// logCall adds a line to the file that the payload names, if any: a call of the
// worker function, in whatever process.
func logCall(t *job) error {
	path := t.Payload.Notes["calls"]
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "round %d client %d %s %s\n", t.Round, t.Client, t.Config, t.Device)
	return errors.Join(err, f.Close())
}

// TestCalledOnce: B15: a worker function is called once for every client, with
// that client's own configuration and device.
func TestCalledOnce(t *testing.T) {
	for _, transport := range []string{"pickle", "shm-slab", "grpc-batch", "http"} {
		ct := newTrainer(t, transport, "write", 2, false)
		ct.Device, ct.Devices = "cuda", 2
		p := newPayload(t, 0)
		p.Notes["calls"] = filepath.Join(t.TempDir(), "calls")
		var want []string
		for round, clients := range [][]int{{7, 0, 3, 4, 1}, {3, 2}} {
			check(t, ct.Process(t.Context(), p, clients))
			take(t, ct)
			for _, c := range clients {
				want = append(want, fmt.Sprintf("round %d client %d lr=%d cuda:%d\n", round, c, c, c%2))
			}
		}
		text, err := os.ReadFile(p.Notes["calls"])
		check(t, err)
		got := slices.Sorted(strings.Lines(string(text)))
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s: calls were %q, want %q", transport, got, want)
		}
	}
}

// serversSegments returns the directory in shared memory of the process that has
// started this one.
func serversSegments() (string, error) {
	locks, err := filepath.Glob(filepath.Join(scratch.SharedMemory, "ipcbench-*", "lock"))
	for _, path := range locks {
		text, err := os.ReadFile(path)
		if err == nil && strings.HasPrefix(string(text), fmt.Sprintf("pid %d,", os.Getppid())) {
			return filepath.Dir(path), nil
		}
	}
	return "", errors.Join(err, errors.New("the server has no segments"))
}

// TestBuffers: B6: when a client trains, each client of the call has one segment
// for its update, and nobody has a second one.
func TestBuffers(t *testing.T) {
	for _, c := range []struct{ workers, clients, want int }{{2, 4, 4}, {2, 1, 1}, {3, 3, 3}, {1, 7, 7}, {2, 5, 6}} {
		t.Run(fmt.Sprintf("workers=%d,clients=%d", c.workers, c.clients), func(t *testing.T) {
			ct := newTrainer(t, "shm-tensor:reuse=on", "buffers", c.workers, false)
			var clients []int
			for id := range c.clients {
				clients = append(clients, id)
			}
			for range 2 {
				check(t, ct.Process(t.Context(), newPayload(t, 0), clients))
				for _, u := range take(t, ct) {
					if u.Samples != c.want {
						t.Errorf("client %d saw %d segments for updates, want %d", u.Client, u.Samples, c.want)
					}
				}
			}
		})
	}
}

// TestParallel: B20: never more worker processes, and worker functions, at once
// than the trainer was given.
func TestParallel(t *testing.T) {
	ct := newTrainer(t, "pickle", "count", 3, false)
	clients := make([]int, 30)
	for i := range clients {
		clients[i] = i
	}
	sampled := 0
	ct.Progress = func(pending iter.Seq[*trainer.Pending]) iter.Seq[*trainer.Pending] {
		return func(yield func(*trainer.Pending) bool) {
			for p := range pending {
				if n := children(t); n > sampled {
					sampled = n
				}
				if !yield(p) {
					return
				}
			}
		}
	}
	p := newPayload(t, 0)
	p.Notes["running"] = t.TempDir()
	check(t, ct.Process(t.Context(), p, clients))
	most, pids := 0, map[int]bool{}
	for _, u := range take(t, ct) {
		most, pids[u.PID] = max(most, u.Samples), true
	}
	if most > 3 || most < 2 || len(pids) != 3 || sampled != 3 {
		t.Errorf("%d worker functions ran at once, in %d processes, of which %d lived at once; want 2 to 3, 3 and 3", most, len(pids), sampled)
	}
}

// children returns how many processes this one has started and that live.
func children(t *testing.T) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	check(t, err)
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var state string
		var parent int
		if _, err := fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if parent == os.Getpid() && state != "Z" {
			n++
		}
	}
	return n
}

// fork is a worker function that runs this program again.
func fork([]byte) (trainer.Train, error) {
	return func(*trainer.Job) error {
		out, err := exec.Command("/proc/self/exe", "-test.run", "^$").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}, nil
}

// TestChildrenOfWorkers: what a worker function starts is no worker.
func TestChildrenOfWorkers(t *testing.T) {
	p, err := openSession(t, pickle.New(), trainer.NewProcesses(), func(c *trainer.Config) { c.Func = "fork" })
	check(t, err)
	check(t, round(t.Context(), p, 0))
	_, err = p.Close()
	check(t, err)
}
