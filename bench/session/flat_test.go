package session

import (
	"runtime"
	"testing"

	"ipcbench/internal/test/check"
)

// TestRoundsAreFlat: the server's heap is no larger after 300 rounds of a session than after 100, with workers in its
// process and in other processes (A19, O24).
func TestRoundsAreFlat(t *testing.T) {
	for _, text := range []string{"inproc cnn workers=2 clients=4", "pickle cnn workers=2 clients=4"} {
		s, launcher := blockOf(t, specOf(t, text), Default)
		s.Plan.Samples = 1 // further spans are only counted
		check.Must(t, s.start(t.Context(), launcher))
		before := uint64(0)
		for n := range 300 {
			check.Must(t, check.Err(s.round(t.Context(), n, false, nil)))
			if n == 99 {
				before = live()
			}
		}
		after := live()
		_, err := s.session.Close() // not finish: nothing was timed
		check.Must(t, err)
		check.That(t, after <= before+100_000, "%s: %d bytes are live after 100 rounds, %d after 300", text, before, after)
	}
}

// live returns the bytes of the heap in use after a garbage collection.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
