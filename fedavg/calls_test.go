package fedavg_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/fedavg"
	"ipcbench/internal/test/check"
)

// logCall records a call of the worker function, in any process, as a line of the file that the payload names, if any.
func logCall(j *job) error {
	path := j.Payload.Notes["calls"]
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "round %d client %d lr=%d %s\n", j.Round, j.Client, j.Config.Rate, j.Device)
	return errors.Join(err, f.Close())
}

// TestCalledOnce: B15, B16: a worker function is called once for every client, with that client's own configuration.
// Clients get devices in turn, or the ones that a hook names.
func TestCalledOnce(t *testing.T) {
	for _, transport := range []string{"pickle", "shm-slab", "grpc-batch", "http"} {
		ct := newTrainer(t, transport, "write", 2)
		p := newPayload(0)
		p.Notes["calls"] = filepath.Join(t.TempDir(), "calls")
		ct.Device = fedavg.Devices("cuda", 2)
		process(t, ct, p, 7, 0, 3, 4, 1)
		ct.Device = func(client int) string { return []string{2: "npu", 3: "tpu"}[client] }
		process(t, ct, p, 3, 2)
		check.Equal(t, slices.Sorted(strings.Lines(string(check.Value(os.ReadFile(p.Notes["calls"]))(t)))), []string{
			"round 0 client 0 lr=0 cuda:0\n", "round 0 client 1 lr=1 cuda:1\n", "round 0 client 3 lr=3 cuda:1\n",
			"round 0 client 4 lr=4 cuda:0\n", "round 0 client 7 lr=7 cuda:1\n",
			"round 1 client 2 lr=2 npu\n", "round 1 client 3 lr=3 tpu\n",
		}, transport)
	}
}

// segments counts the named segments for updates that the server has.
func segments(j *job) error {
	locks, err := filepath.Glob("/dev/shm/ipcbench-*/lock")
	for _, path := range locks {
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), fmt.Sprintf("pid %d,", os.Getppid())) {
			continue // another program's
		}
		all, err := filepath.Glob(filepath.Join(filepath.Dir(path), "update-*"))
		j.Update.Seen = len(all)
		return err
	}
	return errors.Join(err, errors.New("the server has no segments"))
}

// TestBuffers: B6: when a client trains, there is one segment for an update per client, and fewer than a worker each
// more if workers cannot have equally many. A later call with fewer clients keeps them.
func TestBuffers(t *testing.T) {
	for _, c := range []struct{ workers, clients, want int }{{2, 4, 4}, {2, 1, 1}, {3, 3, 3}, {1, 7, 7}, {2, 5, 6}} {
		t.Run(fmt.Sprintf("workers=%d,clients=%d", c.workers, c.clients), func(t *testing.T) {
			ct := newTrainer(t, "shm-tensor:reuse=on", "segments", c.workers)
			for _, clients := range []int{c.clients, c.clients, 1} {
				for _, u := range process(t, ct, newPayload(0), upTo(clients)...) {
					check.Equal(t, u.Seen, c.want)
				}
			}
		})
	}
}

// atOnce is the number of workers in TestParallel.
const atOnce = 3

// count counts the worker functions that are running, in all processes: each has a file while it runs. The first ones
// all begin before any of them ends.
func count(j *job) error {
	started, running := j.Payload.Notes["started"], j.Payload.Notes["running"]
	name := strconv.Itoa(j.Client)
	for _, dir := range []string{running, started} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			return err
		}
	}
	for id := range atOnce {
		appears(filepath.Join(started, strconv.Itoa(id)))
	}
	all, err := os.ReadDir(running)
	j.Update.Seen = len(all)
	return errors.Join(err, os.Remove(filepath.Join(running, name)))
}

// TestParallel: B20: as many worker processes and worker functions run at the same time as the trainer's Workers, and
// never more.
func TestParallel(t *testing.T) {
	ct := newTrainer(t, "pickle", "count", atOnce)
	p := newPayload(0)
	p.Notes["started"], p.Notes["running"] = t.TempDir(), t.TempDir()
	most, pids := 0, map[int]bool{}
	for _, u := range process(t, ct, p, upTo(10*atOnce)...) {
		most, pids[u.PID] = max(most, u.Seen), true
	}
	check.Equal(t, most, atOnce)
	check.Equal(t, len(pids), atOnce)
}
