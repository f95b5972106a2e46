package bench_test

import (
	"slices"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
)

// TestRespawn: with fresh workers for every round, their start and end count in the round's time and in the workers'
// usage, and every round is still proved. The control has no processes, so respawn does not change it.
func TestRespawn(t *testing.T) {
	r := measure(t, short(t, 6, 2), "pickle cnn workers=2 clients=3 respawn")
	check.That(t, !cellOf(t, r, "inproc").Respawn && !options(t, r.Plan, "inproc cnn respawn").Cells[0].Cell().Respawn,
		"the control is marked as respawned")
	c := cellOf(t, r, "pickle")
	check.That(t, c.Respawn, "the cell is not marked as respawned")
	proved(t, c)
	for _, b := range c.Blocks {
		check.Need(t, len(b.Round) == 3 && len(b.Processes) == 2, "%d rounds, %d workers: want 3, 2", len(b.Round), len(b.Processes))
		all, spawn, stop := int64(b.RoundTime()), b.Phases["spawn"], b.Phases["stop"]
		check.That(t, spawn > 0 && stop > 0 && spawn+stop < all, "rounds of %d ns, spawn %d, stop %d", all, spawn, stop)
		check.That(t, b.Unattributed <= all/2, "%d of %d ns are not attributed", b.Unattributed, all)
		check.That(t, b.Spawn > 0 && b.Cold.Round > 0, "spawn %v, cold %d", b.Spawn, b.Cold.Round)
		for i, w := range b.Processes {
			// A Go program that starts and ends always causes more faults than these.
			check.That(t, w.Usage.CPU() > 0 && w.Usage.MinorFaults >= 3*100 && w.Counts["body.bytes"] != 0,
				"process %d: %v CPU, %d faults, %d bytes: its starts are not counted", i, w.Usage.CPU(), w.Usage.MinorFaults, w.Counts["body.bytes"])
		}
	}
}

// TestEmptyCalls: the floor rpc-empty is measured in every block, on the workers' own connections, for transports that
// make calls.
func TestEmptyCalls(t *testing.T) {
	const of = " cnn workers=2 clients=2"
	r := measure(t, short(t, 0, 2), "pickle"+of, "grpc-batch"+of, "http"+of)
	var got []string
	for _, f := range r.Floors {
		if f.Name == "rpc-empty" {
			got = append(got, f.Variant)
			check.That(t, len(f.Blocks) == len(cellOf(t, r, f.Variant).Blocks) && len(f.Blocks[0]) == 100,
				"%s: %d blocks of %d, want one for each of the cell's, of 100", f.Variant, len(f.Blocks), len(f.Blocks[0]))
		}
	}
	slices.Sort(got)
	check.Equal(t, got, []string{"grpc-batch", "http"}, "rpc-empty of")
}

// TestPin: with --pin, the processes of a block run on separate processors, as the kernel confirms. After the run, this
// process may use all its processors again.
func TestPin(t *testing.T) {
	before := check.Value(usage.Affinity())(t)
	if len(before) < 2 {
		t.Skip("needs two processors")
	}
	p := short(t, 0, 1)
	p.Pin = true
	r := measure(t, p, "pickle cnn")
	b := cellOf(t, r, "pickle").Blocks[0]
	shared := func(cpu int) bool { return slices.Contains(b.Server.CPUs, cpu) }
	check.That(t, len(b.Processes) == 1 && len(b.Processes[0].CPUs) != 0 && !slices.ContainsFunc(b.Processes[0].CPUs, shared),
		"server on %v, workers %+v: want processors of their own", b.Server.CPUs, b.Processes)
	after := check.Value(usage.Affinity())(t)
	check.Equal(t, after, before, "affinity after the run")
	check.Equal(t, cellOf(t, r, "inproc").Blocks[0].Server.CPUs, before, "the control, on all processors, ran on")
}

// TestMemoryRead: resident memory is read while a process has it, and includes shared memory in both processes that map
// it.
func TestMemoryRead(t *testing.T) {
	const model = 16 << 20
	for _, b := range cellOf(t, measure(t, short(t, 0, 2), "shm-slab uniform:16MiB/4"), "shm-slab").Blocks {
		for _, p := range append([]result.Process{b.Server}, b.Processes...) {
			m := p.Memory
			check.That(t, m.Shmem >= 2*model && m.Peak >= m.Shmem && (m.PSS == nil || *m.PSS >= model),
				"%d bytes of shared memory, peak %d: want a model and an update at least", m.Shmem, m.Peak)
		}
	}
}
