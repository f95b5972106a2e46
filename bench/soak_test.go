package bench

import (
	"os"
	"runtime/debug"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// TestSoakRounds: 1,000 rounds of one session do not grow the server's memory,
// over any transport (A19, O24).
func TestSoakRounds(t *testing.T) {
	if os.Getenv("IPCBENCH_TEST_SOAK") == "" {
		t.Skip("a long test: make soak runs it")
	}
	// Left alone, Go lets the little garbage of a round grow to the size of the models
	// before it collects, which takes most of the rounds.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	host := trainer.Host{Transports: all.Transports(), Funcs: Funcs()}
	model, err := models.Parse("uniform:4MiB/20")
	check.Must(t, err)
	for _, tr := range host.Transports {
		t.Run(tr.Name(), func(t *testing.T) {
			v, err := transports.NewVariant(tr, nil)
			check.Must(t, err)
			cell := Spec{Variant: v, Model: model, Workers: 2, Clients: 4, PerProcess: 1, Depth: trainer.DefaultDepth}
			growth := grow(t, host, cell, 1000)
			check.That(t, growth <= 8<<20, "resident memory grew by %d bytes from round 100 to round 1000", growth)
		})
	}
}

// grow runs rounds and returns by how much the resident memory grew after the
// first hundred of them.
func grow(t *testing.T, host trainer.Host, cell Spec, rounds int) int64 {
	t.Helper()
	plan, err := DefaultPlan(Default)
	check.Must(t, err)
	launcher := trainer.NewGoroutines(host)
	if !cell.inside() {
		launcher = trainer.NewProcesses()
	}
	s := &blockRun{cell: cell, plan: plan, chain: &chain{}, block: &Block{}}
	s.plan.Samples = 1 // it fills up, and that is counted
	check.Must(t, s.start(t.Context(), launcher))
	var before, after int64
	for n := 0; n < rounds && err == nil; n++ {
		_, err = s.round(t.Context(), n, false, nil)
		if n == 100 {
			before = resident(t)
		}
	}
	after = resident(t)
	// Not finish: nothing was timed, and the recorders are full by intent.
	_, closeErr := s.session.Close()
	check.Need(t, err == nil && closeErr == nil, "%v %v", err, closeErr)
	return after - before
}

func resident(t *testing.T) int64 {
	t.Helper()
	m, err := usage.ReadMemory()
	check.Must(t, err)
	return m.RSS
}
