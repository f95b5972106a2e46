package session

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/phase/usage"
	"ipcbench/trainer"
)

// TestUnequalRounds: a timed round with other numbers of spans than the first one is an error, except for spans of
// queue, and of send if calls were retried (guard 7).
func TestUnequalRounds(t *testing.T) {
	round := func(phases ...phase.Phase) (spans []phase.Sample) {
		for _, p := range phases {
			spans = append(spans, phase.Sample{Phase: p})
		}
		return spans
	}
	windows := []window{{round: 4}, {round: 5}, {round: 6}}
	whole := round(phase.Dispatch, phase.Train, phase.Submit, phase.Submit)
	for _, tt := range []struct {
		name, want string
		third      []phase.Sample
		retried    bool
	}{
		{"same", "", round(phase.Submit, phase.Train, phase.Submit, phase.Dispatch), false},
		{"queued", "", append(round(phase.Queue), whole...), false},
		{"one less", "round 6 has 1 spans of submit, but round 4 has 2", round(phase.Dispatch, phase.Train, phase.Submit), false},
		{"one more", "round 6 has 2 spans of train, but round 4 has 1", append(round(phase.Train), whole...), true},
		{"sent twice", "round 6 has 1 spans of send, but round 4 has 0", append(round(phase.Send), whole...), false},
		{"sent again", "", append(round(phase.Send), whole...), true},
		{"none", "round 6 has 0 spans of dispatch", nil, false},
	} {
		err := sameSpans([][]phase.Sample{whole, whole, tt.third}, windows, tt.retried)
		check.Ends(t, err, tt.want, tt.name)
	}
}

// TestUneven: rounds may differ in their spans only if calls were retried, or if some workers get handles and others
// get bodies.
func TestUneven(t *testing.T) {
	for _, tt := range []struct {
		counts map[string]int64
		want   bool
	}{
		{nil, false},
		{map[string]int64{phase.Retries: 1}, true},
		{map[string]int64{phase.HandleTensors: 10}, false},
		{map[string]int64{phase.BodyTensors: 10}, false},
		{map[string]int64{phase.HandleTensors: 10, phase.BodyTensors: 10}, true},
	} {
		check.Equal(t, uneven(tt.counts), tt.want, tt.counts)
	}
}

// TestWireBelowPayload: fewer bytes on the wire than in moved tensors are an error, in both directions. Storage may
// send fewer than arrive, because every lane reads the same file (guard 5).
func TestWireBelowPayload(t *testing.T) {
	for _, tt := range []struct {
		variant              string
		moved, sent, arrived int64
		fails                bool
	}{
		{"http", 1000, 1000, 1000, false},
		{"http", 1000, 999, 1000, true},
		{"http", 1000, 1000, 999, true},
		{"storage", 1000, 600, 1000, false},
		{"storage", 1000, 600, 999, true},
		{"shm-slab", 0, 100, 100, false},
	} {
		counts := map[string]int64{phase.BodyBytes: tt.moved, phase.WireSent: tt.sent, phase.WireReceived: tt.arrived}
		s := &Run{Spec: specOf(t, tt.variant+" cnn"), Block: &result.Block{Server: result.Process{Counts: counts}}}
		err := s.wire()
		check.That(t, (err != nil) == tt.fails, "%s: %v", tt.variant, err)
	}
}

// TestSummedSpans: a sum of laps counts in its phase, but covers no time and is not in the timeline, because its start
// and end are not an interval.
func TestSummedSpans(t *testing.T) {
	whole := phase.OfRound(4)
	sum := phase.Timed(phase.Send, whole, 0, 70)
	sum.Summed = true
	samples, w := []phase.Sample{phase.Timed(phase.Dispatch, whole, 0, 10), sum}, window{round: 4, start: 0, end: 100}
	check.Equal(t, covered(samples, w), 10, "ns are covered")
	s := &Run{Block: &result.Block{Phases: map[string]int64{}}, windows: []window{w}}
	s.addPhases(samples, w)
	check.Equal(t, s.Block.Phases["send"], 70, "send took")
	s.Report.Server.Samples = samples
	got := s.Timeline()
	check.That(t, slices.Equal(got.Phase, []string{"dispatch"}), "the timeline shows %v, want dispatch alone", got.Phase)
}

// TestAbsurdTotals: impossible usage or counts of a process fail the block at once, with an error that names the
// process and host. Otherwise the result could not be written.
func TestAbsurdTotals(t *testing.T) {
	s := &Run{Spec: specOf(t, "http cnn"), Block: &result.Block{}, Hosts: []Host{{Name: "h1"}}}
	for want, totals := range map[string]trainer.Totals{
		"process-0 on h1: usage.user_ns: -1: ":     {Usage: map[trainer.Window]usage.Usage{trainer.Timed: {User: -1}}},
		"process-0 on h1: minor_faults: -2: ":      {Usage: map[trainer.Window]usage.Usage{trainer.Cold: {MinorFaults: -2}}},
		"process-0 on h1: memory.peak_rss_bytes: ": {Memory: usage.Memory{Peak: 1 << 60}},
		"process-0 on h1: counts: empty":           {Counts: map[trainer.Window]map[string]int64{trainer.Timed: {"": 1}}},
		`process-0 on h1: counts: "\x1b[2J": `:     {Counts: map[trainer.Window]map[string]int64{trainer.Timed: {"\x1b[2J": 1}}},
	} {
		check.Fails(t, s.account(trainer.Report{Processes: []trainer.Totals{totals}}), want)
	}
}

// TestOtherClock: intervals that begin on one host's clock and end on another's are not measured. Everything else is,
// and counts in the round that a span names (guard 22).
func TestOtherClock(t *testing.T) {
	cell := specOf(t, "http cnn")
	account := func(otherClock bool, ahead int64) (*result.Block, error) {
		span := func(p phase.Phase, lane, round int, start, end int64) phase.Sample {
			return phase.Timed(p, phase.ID{Lane: lane, Round: round, Client: lane}, start, end)
		}
		var report trainer.Report
		for lane, ahead := range []int64{0, ahead} {
			report.Server.Samples = append(report.Server.Samples, span(phase.Dispatch, lane, 4, 1000, 1100), span(phase.Collect, lane, 4, 1200, 1900))
			samples := []phase.Sample{
				span(phase.Wait, lane, -1, 500, 1050), span(phase.Receive, lane, 4, 1050, 1300), span(phase.ReserveUpdate, lane, 4, 1300, 1310),
				span(phase.Train, lane, 4, 1310, 1710), span(phase.Train, lane, 3, 500, 700), // the last span belongs to no timed round
			}
			for i := range samples {
				samples[i].Start, samples[i].End = samples[i].Start+ahead, samples[i].End+ahead
			}
			report.Processes = append(report.Processes, trainer.Totals{Samples: samples})
		}
		s := &Run{Spec: cell, Block: &result.Block{}, Roster: trainer.Roster(2), windows: []window{{4, 1000, 2000}},
			Hosts: []Host{{}, {Name: "h2", OtherClock: otherClock}}}
		return s.Block, cmp.Or(s.account(report), s.Block.Validate(2))
	}
	one, err := account(false, 0)
	check.That(t, err == nil && one.OneClock() && slices.Equal(one.Down, []int64{300, 300}) && slices.Equal(one.Up, []int64{600, 600}) &&
		one.Unattributed == 100 && one.Phases["wait"] == 100,
		"one clock: %+v, %v", one, err)
	for _, ahead := range []int64{0, 100_000e9, -400} {
		b, err := account(true, ahead)
		check.Must(t, err, ahead, "ns ahead")
		check.That(t, !b.OneClock() && !b.Processes[0].OtherClock && b.Processes[1].OtherClock &&
			b.Down == nil && b.Up == nil && b.Unattributed == 0,
			"another clock, %d ns ahead: %+v", ahead, b)
		check.Equal(t, [][]int64{b.RTT, b.Train}, [][]int64{one.RTT, one.Train}, ahead, "ns ahead")
		want := maps.Clone(one.Phases)
		delete(want, "wait")
		delete(want, "receive")
		check.Equal(t, b.Phases, want, ahead, "ns ahead")
	}
	for _, ahead := range []int64{100_000e9, -400} {
		_, err := account(false, ahead)
		check.Fails(t, err, "round 4: client 1: data arrived before it was sent", "a clone of the server's machine")
	}
}
