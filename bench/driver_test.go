package bench_test

import (
	"slices"
	"testing"

	"ipcbench/bench"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// measure runs cells with the plan and returns the result.
func measure(t *testing.T, h trainer.Host, p bench.Plan, cells ...bench.Spec) *bench.Result {
	t.Helper()
	r, err := bench.RunWithFloors(t.Context(), options(t, h, p, cells...))
	check.Must(t, err)
	check.Must(t, r.Validate())
	return r
}

func options(t *testing.T, h trainer.Host, p bench.Plan, cells ...bench.Spec) bench.Options {
	t.Helper()
	control, err := transports.NewVariant(h.Transports[0], nil)
	check.Must(t, err)
	return bench.Options{Cells: cells, Plan: p, Control: control, Host: h}
}

// cellOf returns the cell of a variant.
func cellOf(t *testing.T, r *bench.Result, variant string) bench.Cell {
	t.Helper()
	i := slices.IndexFunc(r.Cells, func(c bench.Cell) bool { return c.Variant == variant })
	check.Need(t, i >= 0, "no cell of %s", variant)
	return r.Cells[i]
}

// TestRespawn: with fresh workers for every round, their start and end are a part
// of each round, and of what the workers cost; nothing of the proof is lost. The
// control has no processes, so it stays as it is.
func TestRespawn(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds = 6
	s := spec(t, h, "pickle", "cnn", 2, 3)
	s.Respawn = true
	r := measure(t, h, p, s)
	check.That(t, !cellOf(t, r, "inproc").Respawn, "the control is marked as respawned")
	c := cellOf(t, r, "pickle")
	if !c.Respawn || !c.Proved() {
		t.Errorf("marked %v, proved %v, want both", c.Respawn, c.Proved())
	}
	for _, b := range c.Blocks {
		check.Need(t, len(b.Round) == 3 && len(b.RTT) == 9 && len(b.Processes) == 2,
			"%d rounds, %d round trips, %d workers: want 3, 9, 2", len(b.Round), len(b.RTT), len(b.Processes))
		all, spawn, stop := int64(b.RoundTime()), b.Phases["spawn"], b.Phases["stop"]
		check.That(t, spawn > 0 && stop > 0 && spawn+stop < all, "rounds of %d ns, spawn %d, stop %d", all, spawn, stop)
		check.That(t, b.Unattributed <= all/2, "%d of %d ns are not attributed", b.Unattributed, all)
		check.That(t, b.Spawn > 0 && b.Cold.Round > 0, "spawn %v, cold %d", b.Spawn, b.Cold.Round)
		for i, w := range b.Processes {
			// A Go program that starts and ends touches more than these in any case.
			if w.Usage.CPU() <= 0 || w.Usage.MinorFaults < 3*100 || w.Counts["body.bytes"] == 0 {
				t.Errorf("process %d: %v CPU, %d faults, %d bytes: its starts are not counted", i, w.Usage.CPU(), w.Usage.MinorFaults, w.Counts["body.bytes"])
			}
		}
	}
}

// TestEmptyCalls: the floor of transports that make calls is measured in every
// block on the workers' own connections.
func TestEmptyCalls(t *testing.T) {
	h := host()
	pickle, batch, http := spec(t, h, "pickle", "cnn", 2, 2), spec(t, h, "grpc-batch", "cnn", 2, 2), spec(t, h, "http", "cnn", 2, 2)
	batch.Model, http.Model = pickle.Model, pickle.Model
	r := measure(t, h, quick(t), pickle, batch, http)
	var got []string
	for _, f := range r.Floors {
		if f.Name != "rpc-empty" {
			continue
		}
		got = append(got, f.Variant)
		if len(f.Blocks) != len(cellOf(t, r, f.Variant).Blocks) || len(f.Blocks[0]) != 100 {
			t.Errorf("%s: %d blocks of %d, want one for each of the cell's, of 100", f.Variant, len(f.Blocks), len(f.Blocks[0]))
		}
	}
	if slices.Sort(got); !slices.Equal(got, []string{"grpc-batch", "http"}) {
		t.Errorf("rpc-empty of %v, want grpc-batch and http", got)
	}
}

// TestPin: the processes of a block run where they were put, which they read back
// from the kernel, and the driver has its processors again afterwards.
func TestPin(t *testing.T) {
	h := host()
	before, err := usage.Affinity()
	check.Must(t, err)
	if len(before) < 2 {
		t.Skip("needs two processors")
	}
	p := quick(t)
	p.Pin, p.Blocks = true, 1
	r := measure(t, h, p, spec(t, h, "pickle", "cnn", 1, 1))
	b := cellOf(t, r, "pickle").Blocks[0]
	if len(b.Processes) != 1 || len(b.Processes[0].CPUs) == 0 || slices.ContainsFunc(b.Processes[0].CPUs, func(cpu int) bool { return slices.Contains(b.Server.CPUs, cpu) }) {
		t.Errorf("server on %v, workers %+v: want processors of their own", b.Server.CPUs, b.Processes)
	}
	if after, err := usage.Affinity(); err != nil || !slices.Equal(after, before) {
		t.Errorf("affinity after the run is %v (%v), was %v", after, err, before)
	}
	cpus := cellOf(t, r, "inproc").Blocks[0].Server.CPUs
	check.That(t, slices.Equal(cpus, before), "the control ran on %v, want all: %v", cpus, before)
}

// TestMemoryRead: what a process has resident is read while it has it: shared
// memory is in it, in both processes that map it.
func TestMemoryRead(t *testing.T) {
	h := host()
	r := measure(t, h, quick(t), spec(t, h, "shm-slab", "uniform:16MiB/4", 1, 1))
	for _, b := range cellOf(t, r, "shm-slab").Blocks {
		const model = 16 << 20
		for _, p := range append([]bench.Process{b.Server}, b.Processes...) {
			if m := p.Memory; m.Shmem < 2*model || m.Peak < m.Shmem || m.PSS != nil && *m.PSS < model {
				t.Errorf("%d bytes of shared memory, peak %d: want a model and an update at least", m.Shmem, m.Peak)
			}
		}
	}
}
