package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// An event is one entry of a trace in the format of Chrome, Perfetto and Speedscope. Times are
// microseconds. Perfetto ignores a span without dur, so a span of 0 ns has it, too.
type event struct {
	Name  string         `json:"name"`
	Type  string         `json:"ph"`
	Start float64        `json:"ts"`
	Took  *float64       `json:"dur,omitempty"` // for spans only
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// leftOut describes the spans that a trace lacks.
const leftOut = "spans that are sums of many short intervals, such as gRPC's encode, send, read and decode, because they have no single start and end"

// ErrNoTimeline is returned by the format perfetto for a result without timelines.
var ErrNoTimeline = errors.New("the result has no timeline: record one with ipcbench run --profile cpu")

// writePerfetto writes the timelines of all cells as one Chrome trace. Each process of a cell
// is a process of the trace, and each lane has a track. A span that overlaps another one of
// its lane without being nested gets its own track: a library's handler works while the lane
// waits.
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

// lasting returns a span. start and end are in nanoseconds.
func lasting(name string, pid, tid int, start, end int64) event {
	return event{Name: name, Type: "X", PID: pid, TID: tid, Start: float64(start) / 1e3, Took: new(float64(end-start) / 1e3)}
}

// named returns the events that set the name and the position of a process or a track.
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

func rounds(t *result.Timeline, cell string, pid int) []event {
	events := append(named("process", pid, 0, cell), named("thread", pid, 0, "rounds")...)
	for i, n := range t.Rounds {
		events = append(events, lasting(fmt.Sprintf("round %d", n), pid, 0, t.RoundStart[i], t.RoundEnd[i]))
	}
	return events
}

func tracks(t *result.Timeline, process, pid int, name string) []event {
	events := named("process", pid, 0, name)
	var spans []int
	for i, p := range t.Process {
		if p == process {
			spans = append(spans, i)
		}
	}
	slices.SortFunc(spans, func(a, b int) int { // a span before its nested spans
		return cmp.Or(cmp.Compare(t.Lane[a], t.Lane[b]), cmp.Compare(t.Start[a], t.Start[b]), cmp.Compare(t.End[b], t.End[a]))
	})
	first := 0 // the lane's first track; its tracks are consecutive
	for _, lane := range metrics.GroupBy(spans, func(i int) int { return t.Lane[i] }) {
		var open [][]int64 // per track: ends of the open spans, the innermost last
		for _, i := range lane {
			for k, ends := range open {
				open[k] = slices.DeleteFunc(ends, func(end int64) bool { return end <= t.Start[i] })
			}
			track := slices.IndexFunc(open, func(ends []int64) bool { return len(ends) == 0 || t.End[i] <= ends[len(ends)-1] })
			if track < 0 {
				track = len(open)
				open = append(open, nil)
				events = append(events, named("thread", pid, first+track, trackName(t.Lane[i], track))...)
			}
			open[track] = append(open[track], t.End[i])
			e := lasting(t.Phase[i], pid, first+track, t.Start[i], t.End[i])
			if t.Client[i] >= 0 {
				e.Args = map[string]any{"client": t.Client[i]}
			}
			events = append(events, e)
		}
		first += len(open)
	}
	return events
}

func trackName(lane, nth int) string {
	name := "whole round"
	if lane >= 0 {
		name = fmt.Sprintf("lane %d", lane)
	}
	if nth > 0 {
		name += ", overlapping"
	}
	return name
}
