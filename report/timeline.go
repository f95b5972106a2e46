package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
)

// An event is one entry of a trace as Chrome's tracing, Perfetto and Speedscope
// read it. Times are microseconds. A span without dur is lost in Perfetto, so one of
// 0 ns has it too.
type event struct {
	Name  string         `json:"name"`
	Type  string         `json:"ph"`
	Start float64        `json:"ts"`
	Took  *float64       `json:"dur,omitempty"` // of spans
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// leftOut tells the reader of a trace which spans it lacks.
const leftOut = "spans that are sums of many short laps, as gRPC's encode, send, read and decode are: their start and end would be invented"

// ErrNoTimeline is the error of format perfetto for a result without timelines.
var ErrNoTimeline = errors.New("the result has no timeline: ipcbench run records one with --profile, for example --profile cpu")

// writePerfetto writes the timelines of all cells as one Chrome trace: a process for
// each process of each cell, a track for each lane. A span that overlaps another
// one of its lane without lying in it gets a track of its own: a library's handler
// works while the lane waits.
func writePerfetto(w io.Writer, r *result.Result, _ Options) error {
	var events []event
	pid := 0
	for _, c := range r.Cells {
		for _, b := range c.Blocks {
			if b.Timeline == nil {
				continue
			}
			events = append(events, rounds(b.Timeline, c.ID(), pid)...)
			for i, name := range b.Timeline.Processes {
				events = append(events, tracks(b.Timeline, i, pid+1+i, c.ID()+": "+name)...)
			}
			pid += 1 + len(b.Timeline.Processes)
		}
	}
	if len(events) == 0 {
		return ErrNoTimeline
	}
	if err := doc.WriteJSON(w, map[string]any{"traceEvents": events, "displayTimeUnit": "ms", "otherData": map[string]string{"left out": leftOut}}, ""); err != nil {
		return fmt.Errorf("report: timeline: %w", err)
	}
	return nil
}

// micros makes microseconds of nanoseconds.
func micros(ns int64) float64 { return float64(ns) / 1e3 }

func took(start, end int64) *float64 {
	us := micros(end - start)
	return &us
}

// named returns the events that name a process or a track, and say at which place
// it is shown.
func named(kind string, pid, tid int, name string) []event {
	order := tid
	if kind == "process" {
		order = pid
	}
	return []event{
		{Name: kind + "_name", Type: "M", PID: pid, TID: tid, Args: map[string]any{"name": name}},
		{Name: kind + "_sort_index", Type: "M", PID: pid, TID: tid, Args: map[string]any{"sort_index": order}},
	}
}

// rounds is the track of the rounds themselves.
func rounds(t *result.Timeline, cell string, pid int) []event {
	events := named("process", pid, 0, cell)
	events = append(events, named("thread", pid, 0, "rounds")...)
	for i, n := range t.Rounds {
		events = append(events, event{
			Name: fmt.Sprintf("round %d", n), Type: "X", PID: pid,
			Start: micros(t.RoundStart[i]), Took: took(t.RoundStart[i], t.RoundEnd[i]),
		})
	}
	return events
}

// tracks are the spans of one process.
func tracks(t *result.Timeline, process, pid int, name string) []event {
	events := named("process", pid, 0, name)
	var spans []int
	for i, p := range t.Process {
		if p == process {
			spans = append(spans, i)
		}
	}
	slices.SortFunc(spans, func(a, b int) int { // a span before those that lie in it
		return cmp.Or(cmp.Compare(t.Lane[a], t.Lane[b]), cmp.Compare(t.Start[a], t.Start[b]), cmp.Compare(t.End[b], t.End[a]))
	})
	var open [][]int64 // by track: the ends of the spans that are open, the innermost last
	first, lane := 0, -2
	for _, i := range spans {
		if t.Lane[i] != lane { // tracks of a lane stand together
			lane = t.Lane[i]
			first = len(open)
		}
		track := first
		for ; track < len(open); track++ {
			stack := open[track]
			for len(stack) > 0 && stack[len(stack)-1] <= t.Start[i] {
				stack = stack[:len(stack)-1]
			}
			open[track] = stack
			if len(stack) == 0 || t.End[i] <= stack[len(stack)-1] {
				break
			}
		}
		if track == len(open) {
			open = append(open, nil)
			events = append(events, named("thread", pid, track, trackName(lane, track-first))...)
		}
		open[track] = append(open[track], t.End[i])
		e := event{Name: t.Phase[i], Type: "X", PID: pid, TID: track, Start: micros(t.Start[i]), Took: took(t.Start[i], t.End[i])}
		if t.Client[i] >= 0 {
			e.Args = map[string]any{"client": t.Client[i]}
		}
		events = append(events, e)
	}
	return events
}

func trackName(lane, nth int) string {
	name := "whole round"
	if lane >= 0 {
		name = fmt.Sprintf("lane %d", lane)
	}
	if nth > 0 {
		name += ", meanwhile"
	}
	return name
}
