package bench

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ipcbench/clock"
	"ipcbench/internal/waiting"
	"ipcbench/phase"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// far is a host whose clock is ahead by what this returns: the exchanges are real.
type far func() int64

func (f far) Name() string { return "h1" }

func (f far) Burst(context.Context) (clock.Burst, error) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() { _ = clock.Answer(theirs, func() int64 { return phase.Now() + f() }) }()
	return clock.Ask(ours, phase.Now, clock.Exchanges)
}

// translated makes a block of two rounds in which a worker on h recorded what it has
// on a clock that is ahead, and translates it.
func translated(t *testing.T, h far, ahead int64, record func(at func(ms int64) int64) []phase.Sample) (*blockRun, []phase.Sample, error) {
	t.Helper()
	s := &blockRun{block: &Block{}, hosts: []*remote{nil, {timekeeper: h, id: clock.Here()}}}
	if err := s.synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	start := phase.Now()
	waiting.Until(t, "20 ms", func() bool { return phase.Now()-start >= int64(20*time.Millisecond) })
	at := func(ms int64) int64 { return start + ms*int64(time.Millisecond) }
	s.windows = []window{{4, at(2), at(6)}, {5, at(8), at(12)}}
	samples := record(at)
	for i := range samples {
		samples[i].Start += ahead
		samples[i].End += ahead
	}
	mine := []phase.Sample{phase.Timed(phase.Train, phase.ID{}, at(1), at(2))}
	report := trainer.Report{Processes: []trainer.Totals{{Samples: slices.Clone(mine)}, {Samples: samples}}}
	err := s.translate(t.Context(), report)
	if !slices.Equal(report.Processes[0].Samples, mine) {
		t.Error("what a process of this host has recorded has changed")
	}
	return s, samples, err
}

// TestTranslate: spans of a host whose clock is 100,000 s ahead are put on this one's,
// and go to their rounds however far off they may be.
func TestTranslate(t *testing.T) {
	const ahead = 100_000e9
	wait, receive := phase.ID{Lane: 1, Round: -1, Client: -1}, phase.ID{Lane: 1, Round: 5, Client: 0}
	s, got, err := translated(t, func() int64 { return ahead }, ahead, func(at func(int64) int64) []phase.Sample {
		return []phase.Sample{
			phase.Timed(phase.Wait, wait, at(3), at(8)), // may seem to end before its round
			phase.Timed(phase.Receive, receive, at(3), at(9)),
			phase.Timed(phase.Wait, wait, at(13), at(14)), // of no timed round
			phase.Timed(phase.Train, receive, at(9), at(11)),
		}
	})
	if err != nil || len(s.block.Clocks) != 1 {
		t.Fatalf("got %+v, %v", s.block.Clocks, err)
	}
	c := s.block.Clocks[0]
	if c.Host != "h1" || c.Same || max(c.Offset-ahead, ahead-c.Offset) > c.Width || c.validate() != nil {
		t.Errorf("got %+v", c)
	}
	off := func(got, want int64) bool { return max(got-want, want-got) > c.Width }
	if want := s.windows[1].start; off(got[0].End, want) || off(got[3].Start, want+int64(time.Millisecond)) {
		t.Errorf("a span ends at %d, want %d ± %d", got[0].End, want, c.Width)
	}
	if got[0].Round != 5 || got[2].Round != -1 {
		t.Errorf("waits belong to rounds %d and %d, want 5 and none", got[0].Round, got[2].Round)
	}
	if _, _, err := translated(t, func() int64 { return ahead }, 0, func(at func(int64) int64) []phase.Sample {
		return []phase.Sample{phase.Timed(phase.Train, receive, at(9), at(11))}
	}); err == nil || !strings.Contains(err.Error(), "host h1: a span of train of process-1 lies outside of the block") {
		t.Errorf("spans of another clock: got %v", err)
	}
	if _, _, err := translated(t, func() int64 { return 0 }, 0, func(at func(int64) int64) []phase.Sample {
		return []phase.Sample{phase.Timed(phase.Train, receive, 1, at(11))}
	}); err == nil || !strings.Contains(err.Error(), "host h1: a span of train of process-1 lies outside of the block") {
		t.Errorf("a span that began long before its block, on one clock: got %v", err)
	}
}

// TestContradiction: a way that seems to end before it began took no time if that is
// within what the clocks leave open, and else the block is worth nothing.
func TestContradiction(t *testing.T) {
	s, _, err := translated(t, func() int64 { return -3e9 }, -3e9, func(func(int64) int64) []phase.Sample { return nil })
	if err != nil {
		t.Fatal(err)
	}
	width := s.block.Clocks[0].Width
	for _, tt := range []struct {
		ns   int64
		lane int
		want int64
	}{{5, 1, 5}, {-width, 1, 0}, {-1, 0, -1}} {
		if got, err := s.way(tt.ns, tt.lane, 0); got != tt.want || err != nil {
			t.Errorf("%d on lane %d: got %d, %v", tt.ns, tt.lane, got, err)
		}
	}
	var worthless *unsteadyError
	if _, err := s.way(-width-1000, 1, 7); !errors.As(err, &worthless) || !strings.Contains(err.Error(), "host h1: its clock contradicts the server's: client 7 had something") {
		t.Errorf("got %v", err)
	}
}

// TestDiscarded: a block whose clock steps is discarded by name and run again; after
// three in a row the run fails, and says what to try (guard 22).
func TestDiscarded(t *testing.T) {
	v, err := transports.Parse("pickle", all.Transports())
	if err != nil {
		t.Fatal(err)
	}
	model, err := models.Parse("cnn")
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Variant: v, Model: model, Workers: 1, Clients: 1}
	for _, tt := range []struct {
		steps int
		fails string
	}{{0, ""}, {2, ""}, {3, "so did 3 blocks one after the other: wait until nothing corrects the clock of h1"}} {
		var notes []string
		r := &run{started: time.Now(), Options: Options{Progress: func(p Progress) { notes = append(notes, p.Note) }}}
		c, blocks := &cell{Spec: spec}, 0
		err := r.steady(c, func() error {
			blocks++
			var ahead atomic.Int64
			_, _, err := translated(t, ahead.Load, 0, func(func(int64) int64) []phase.Sample {
				if blocks <= tt.steps {
					ahead.Add(int64(5 * time.Millisecond))
				}
				return nil
			})
			return err
		})
		if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%d steps: got %v", tt.steps, err)
		}
		if len(c.result.Discarded) != tt.steps || blocks != min(tt.steps+1, mostDiscarded) || len(notes) != blocks-1 {
			t.Errorf("%d steps: %d blocks, discarded %+v, notes %q", tt.steps, blocks, c.result.Discarded, notes)
		}
		for _, discarded := range c.result.Discarded {
			if !strings.HasPrefix(discarded.Why, "host h1: the clock stepped: within ") || !strings.Contains(discarded.Why, "moved by about 5") && !strings.Contains(discarded.Why, "moved by about 4.9") {
				t.Errorf("discarded: %s", discarded.Why)
			}
		}
	}
}
