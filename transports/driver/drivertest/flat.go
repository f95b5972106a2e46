package drivertest

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/skip"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// testFlatHeap: A19, O24: the heap of a server and a worker has the same size after fifty more
// rounds of a session, also with a codec. Keeping 2 kB per round is noticed: it grows in each fifty.
func testFlatHeap(t *testing.T, tr driver.Transport) {
	if raceDetector {
		t.Skip("the race detector has memory of its own")
	}
	const settled, rounds, most = 10, 50, 100_000
	const stages = 3 // a leak grows in each; a connection gets a larger buffer in one or two, as late as it likes
	live := func() int {
		for range 3 { // pools are emptied by the second collection
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for _, settings := range []driver.Settings{nil, {"codec": "sparse"}} {
		v := check.Value(transports.NewVariant(tr, settings))(t)
		s, round := Open(t, v, Vectors(t, tensor.F32, 4<<10, 1), 1), 0
		run := func(n int) int {
			for range n {
				s.Publish(uint64(round))
				s.Prove(0, driver.Job{Round: round})
				round++
			}
			return live()
		}
		sizes := []int{run(settled)}
		for stage := range stages {
			if sizes = append(sizes, run(rounds)); sizes[stage+1] <= sizes[stage]+most {
				sizes = nil // a leak would have grown
				break
			}
		}
		check.That(t, sizes == nil, "%v: %v bytes are live after %d rounds, and after each %d more", v, sizes, settled, rounds)
	}
}

// testFlat: A19, O24: the resident memory of server and worker is the same after a thousand
// rounds of a session as after a hundred.
func testFlat(t *testing.T, tr driver.Transport) {
	skip.Long(t)
	if raceDetector {
		t.Skip("the race detector has memory of its own")
	}
	const rounds, settled, tensors = 1000, 100, 4
	const most = 8 << 20 // bytes of growth, less than keeping one tensor per round would cause
	var specs []tensor.Spec
	for i := range tensors {
		specs = append(specs, tensor.Spec{Name: fmt.Sprint(i), DType: tensor.F32, Shape: []int{4 << 10}})
	}
	l := Layout(t, specs...)
	measure := func(t *testing.T, launcher trainer.Launcher) {
		p := check.Value(trainer.Open(t.Context(), trainer.Config{
			Variant: variant(t, tr), Down: l, Up: l, Workers: 1, Clients: 1, Func: "train", Launcher: launcher,
		}))(t)
		pids := []int{os.Getpid()}
		for _, place := range p.Places() {
			if place.PID > 0 {
				pids = append(pids, place.PID)
			}
		}
		before := map[int]int{}
		model := check.Value(p.Reserve(0))(t)
		tensor.Fill(model, seed)
		for r := range rounds {
			check.Must(t, check.Err(p.Publish(t.Context(), r, model)))
			next := check.Value(p.Reserve(r))(t)
			check.Must(t, p.Round(t.Context(), trainer.Round{Number: r, Clients: []trainer.Client{{}}, Each: func(u trainer.Update) error {
				defer u.Release()
				next.CopyFrom(u.Package)
				return nil
			}}))
			if model = next; r == settled {
				debug.FreeOSMemory() // frees the garbage of earlier tests
				for _, pid := range pids {
					before[pid] = check.Value(proc.Resident(pid))(t)
				}
			}
		}
		debug.FreeOSMemory()
		for _, pid := range pids {
			if now := check.Value(proc.Resident(pid))(t); now-before[pid] > most {
				t.Errorf("process %d has %d bytes resident after round %d, and %d after round %d", pid, before[pid], settled, now, rounds)
			}
		}
		check.Must(t, check.Err(p.Close()))
	}
	if Inside(t, tr) {
		measure(t, trainer.NewGoroutines(host(tr)))
		return
	}
	measure(t, processes(tr))
}
