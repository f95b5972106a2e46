package phase

import (
	"os"
	"strings"
	"sync"
	"testing"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
)

func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{"clock": func([]byte) (any, error) { return Now(), nil }})
	os.Exit(m.Run())
}

// TestClockIsShared: another process's reading of the clock is between two of ours.
func TestClockIsShared(t *testing.T) {
	before := Now()
	var there int64
	check.Must(t, check.Value(reexec.Call(t.Context(), reexec.Command{Role: "clock"}))(t).Answer(&there))
	after := Now()
	check.That(t, there >= before && there <= after,
		"the other process reads %d, which is not between %d and %d", there, before, after)
}

func TestRecorder(t *testing.T) {
	r := NewRecorder(3)
	for i := range 5 {
		r.Begin(Train, ID{Lane: 1, Round: 2, Client: i}).End()
	}
	r.Begin(Receive, ID{Lane: 1, Round: -1, Client: -1}).EndAs(ID{Lane: 1, Round: 9, Client: 9})
	check.Equal(t, r.Len(), 3, "len")
	samples, lost := r.Drain()
	check.Need(t, len(samples) == 3 && lost == 3, "got %d samples and %d lost, want 3 and 3", len(samples), lost)
	for i, s := range samples {
		check.That(t, s.Phase == Train && s.Lane == 1 && s.Round == 2 && int(s.Client) == i && s.End >= s.Start,
			"sample %d is %+v", i, s)
	}
	samples, lost = r.Drain()
	check.That(t, len(samples) == 0 && lost == 0, "after a drain: %d samples, %d lost", len(samples), lost)
}

// TestRounds: samples are kept or dropped by the round that they name, however late they are recorded. Dropped samples
// use no room.
func TestRounds(t *testing.T) {
	r := NewRecorder(4)
	record := func(rounds ...int) {
		for _, n := range rounds {
			r.Begin(Fold, OfRound(n)).End()
		}
	}
	record(0, -1)
	r.Until(1)
	record(1, 2, 3, 4, -1)
	r.From(5)
	record(4, 5)
	r.Until(6)
	record(6, -1, 5) // the last 5 is of a round that is over
	samples, lost := r.Drain()
	var got []int32
	for _, s := range samples {
		got = append(got, s.Round)
	}
	check.Equal(t, got, []int32{0, -1, 5, 5}, "rounds")
	check.Equal(t, lost, 0, "lost")
}

// TestConcurrent: all goroutines may record at once, and no sample is lost or torn.
func TestConcurrent(t *testing.T) {
	const goroutines, each = 8, 200
	r := NewRecorder(goroutines * each)
	c := r.Counter("n")
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				r.Begin(Send, ID{Lane: g, Round: i, Client: g}).End()
				c.Add(1)
			}
		})
	}
	wg.Wait()
	samples, lost := r.Drain()
	check.Need(t, len(samples) == goroutines*each && lost == 0, "got %d samples, %d lost", len(samples), lost)
	seen := map[[2]int32]bool{}
	for _, s := range samples {
		check.Need(t, int32(s.Lane) == s.Client, "torn sample %+v", s)
		seen[[2]int32{s.Client, s.Round}] = true
	}
	check.Equal(t, len(seen), goroutines*each, "different samples")
	check.Equal(t, r.Counts()["n"], goroutines*each, "counted")
}

// TestNothingAllocated: recording allocates nothing, with or without labels, and neither does a nil recorder
// (guard 7).
func TestNothingAllocated(t *testing.T) {
	on, labelled := NewRecorder(10_000), NewRecorder(10_000)
	labelled.Label("pickle", "cnn", "server")
	counter := on.Counter("n")
	for name, r := range map[string]*Recorder{"on": on, "labelled": labelled, "off": nil} {
		check.Equal(t, testing.AllocsPerRun(1000, func() {
			outer := r.Begin(Collect, ID{Lane: 1})
			r.Mark(Read).End()
			r.Begin(Decode, ID{Lane: 1}).EndAs(ID{Lane: 2, Round: 2, Client: 3})
			counter.Add(1)
			outer.End()
		}), 0, "recorder", name, " allocations for two spans and a mark")
	}
}

// TestOff: a nil recorder accepts every call.
func TestOff(t *testing.T) {
	var r *Recorder
	r.Label("pickle", "cnn", "server")
	r.Add(Fold, ID{}, 1, 2)
	r.AddSum(Fold, ID{}, 1, 2)
	r.Begin(Fold, OfRound(1)).EndAs(ID{})
	r.Counter("x").Add(1)
	samples, lost := r.Drain()
	check.That(t, samples == nil && lost == 0 && len(r.Counts()) == 0, "a nil recorder has recorded something")
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Phases() {
		name := p.String()
		check.That(t, name != "" && !seen[name] && !strings.Contains(name, "("), "phase %d has the name %q", uint8(p), name)
		seen[name] = true
	}
	check.Equal(t, Phase(200).String(), "phase(200)", "for a phase that does not exist")
}

func BenchmarkSpan(b *testing.B) {
	r := NewRecorder(1)
	for b.Loop() {
		r.Begin(Copy, ID{}).End()
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
