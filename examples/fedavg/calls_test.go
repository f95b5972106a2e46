package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logCall records a call of the worker function, in any process, as a line of the file
// that the payload names, if any.
func logCall(j *job) error {
	path := j.Payload.Notes["calls"]
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "round %d client %d %s %s\n", j.Round, j.Client, j.Config, j.Device)
	return errors.Join(err, f.Close())
}

// TestCalledOnce: B15, B16: a worker function is called once for every client, with
// that client's own configuration, and devices in turn.
func TestCalledOnce(t *testing.T) {
	for _, transport := range []string{"pickle", "shm-slab", "grpc-batch", "http"} {
		ct, _ := newTrainer(t, transport, "write", 2)
		ct.Device, ct.Devices = "cuda", 2
		p := newPayload(0)
		p.Notes["calls"] = filepath.Join(t.TempDir(), "calls")
		var want []string
		for round, clients := range [][]int{{7, 0, 3, 4, 1}, {3, 2}} {
			process(t, ct, p, clients...)
			for _, c := range clients {
				want = append(want, fmt.Sprintf("round %d client %d lr=%d cuda:%d\n", round, c, c, c%2))
			}
		}
		text, err := os.ReadFile(p.Notes["calls"])
		check(t, err)
		slices.Sort(want)
		equal(t, slices.Sorted(strings.Lines(string(text))), want)
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

// TestBuffers: B6: when a client trains, there is one segment for an update per client, and
// fewer than a worker each more if workers cannot have equally many. A later call with fewer
// clients keeps them.
func TestBuffers(t *testing.T) {
	for _, c := range []struct{ workers, clients, want int }{{2, 4, 4}, {2, 1, 1}, {3, 3, 3}, {1, 7, 7}, {2, 5, 6}} {
		t.Run(fmt.Sprintf("workers=%d,clients=%d", c.workers, c.clients), func(t *testing.T) {
			ct, _ := newTrainer(t, "shm-tensor:reuse=on", "segments", c.workers)
			for _, clients := range []int{c.clients, c.clients, 1} {
				for _, u := range process(t, ct, newPayload(0), upTo(clients)...) {
					equal(t, u.Seen, c.want)
				}
			}
		})
	}
}

// atOnce is the number of workers in TestParallel.
const atOnce = 3

// count counts the worker functions that are running, in all processes: each has a file
// while it runs. The first ones all begin before any of them ends.
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

// TestParallel: B20: as many worker processes and worker functions run at the same
// time as the trainer's Workers, and never more.
func TestParallel(t *testing.T) {
	ct, _ := newTrainer(t, "pickle", "count", atOnce)
	p := newPayload(0)
	p.Notes["started"], p.Notes["running"] = t.TempDir(), t.TempDir()
	most, pids := 0, map[int]bool{}
	for _, u := range process(t, ct, p, upTo(10*atOnce)...) {
		most, pids[u.PID] = max(most, u.Seen), true
	}
	equal(t, most, atOnce)
	equal(t, len(pids), atOnce)
}
