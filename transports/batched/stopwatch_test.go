package batched

import (
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
)

// TestTally: a phase of several laps is recorded as one sample marked as a sum, a phase of
// one lap as an ordinary span.
func TestTally(t *testing.T) {
	rec := phase.NewRecorder(10)
	watch := newStopwatch(rec)
	for range 3 {
		watch.begin(phase.Encode).end()
	}
	watch.begin(phase.Send).end()
	watch.record(phase.ID{Lane: 1, Round: 2, Client: 3})
	samples, lost := rec.Drain()
	check.Need(t, len(samples) == 2 && lost == 0, "%d samples, %d lost, want 2 and none", len(samples), lost)
	for i, want := range []phase.Sample{{Phase: phase.Encode, Summed: true}, {Phase: phase.Send}} {
		s := samples[i]
		if s.Phase != want.Phase || s.Summed != want.Summed || s.End < s.Start || s.Start < watch.start || s.Lane != 1 || s.Round != 2 || s.Client != 3 {
			t.Errorf("got %+v, want %s, summed %v", s, want.Phase, want.Summed)
		}
	}
}
