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
	"ipcbench/report/table"
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

// ErrNoTimeline is returned by the format perfetto for a result without timelines.
var ErrNoTimeline = errors.New("the result has no timeline: record one with ipcbench run --profile cpu")

// A trace is the events of all cells, which belong to processes with these numbers and to tracks
// of them.
type trace []event

// name sets the name and the position of a process or a thread, which is a track.
func (all *trace) name(kind string, pid, tid, order int, name string) {
	*all = append(*all,
		event{Name: kind + "_name", Type: "M", PID: pid, TID: tid, Args: map[string]any{"name": name}},
		event{Name: kind + "_sort_index", Type: "M", PID: pid, TID: tid, Args: map[string]any{"sort_index": order}})
}

// span adds a span. start and end are in nanoseconds.
func (all *trace) span(name string, pid, tid int, start, end int64, args map[string]any) {
	took := float64(end-start) / 1e3
	*all = append(*all, event{name, "X", float64(start) / 1e3, &took, pid, tid, args})
}

// writePerfetto writes the timelines of all cells as one Chrome trace. Each process of a cell
// is a process of the trace, and each lane has a track. A span that overlaps another one of
// its lane without being nested gets its own track: a library's handler works while the lane
// waits.
func writePerfetto(w io.Writer, r *result.Result, _ Options) error {
	var all trace
	pid := 0
	for _, c := range r.Cells {
		for _, b := range c.Blocks {
			t := b.Timeline
			if t == nil {
				continue
			}
			all.name("process", pid, 0, pid, c.ID())
			all.name("thread", pid, 0, 0, "rounds")
			for i, n := range t.Rounds {
				all.span(fmt.Sprintf("round %d", n), pid, 0, t.RoundStart[i], t.RoundEnd[i], nil)
			}
			for i, name := range t.Processes {
				pid++
				all.name("process", pid, 0, pid, c.ID()+": "+name)
				all.tracks(t, i, pid)
			}
			pid++
		}
	}
	if len(all) == 0 {
		return ErrNoTimeline
	}
	document := map[string]any{"traceEvents": all, "displayTimeUnit": "ms", "otherData": map[string]string{
		"left out": "spans that are sums of many short intervals, such as gRPC's encode, send, read and decode, " +
			"because they have no single start and end",
	}}
	if err := doc.WriteJSON(w, document, ""); err != nil {
		return fmt.Errorf("report: timeline: %w", err)
	}
	return nil
}

// tracks adds the spans of a process.
func (all *trace) tracks(t *result.Timeline, process, pid int) {
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
				name := "whole round"
				if t.Lane[i] >= 0 {
					name = fmt.Sprintf("lane %d", t.Lane[i])
				}
				all.name("thread", pid, first+track, first+track, name+table.Unless(track == 0, ", overlapping"))
			}
			open[track] = append(open[track], t.End[i])
			var args map[string]any
			if t.Client[i] >= 0 {
				args = map[string]any{"client": t.Client[i]}
			}
			all.span(t.Phase[i], pid, first+track, t.Start[i], t.End[i], args)
		}
		first += len(open)
	}
}
