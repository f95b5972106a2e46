package report

import (
	"bytes"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/phase/usage"
	"ipcbench/report/doc/doctest"
)

// profiledResult has the control and three transports: shm-slab copies nothing, pickle's
// library copies a byte as often as the kernel does, and grpc reports copies of its own.
func profiledResult() *result.Result {
	m := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
	r := &result.Result{Floors: []result.Floor{{Name: "copy", Unit: "B/s", Blocks: [][]float64{{2e9}, {2e9}, {2e9}}}}}
	split := func(name string, ms, server int64, functions ...result.Function) result.Split {
		return result.Split{Name: name, Rest: name == "garbage collection", Flat: ms * benchtest.MS, Cum: ms * benchtest.MS, Server: server * benchtest.MS, Functions: functions}
	}
	functions := []result.Function{
		{Name: "runtime.memmove in encoding/gob.(*Decoder).readMessage", Flat: 120 * benchtest.MS, Cum: 120 * benchtest.MS},
		{Name: "example.org/a/b.generic[go.shape.float32]", Flat: 30 * benchtest.MS, Cum: 60 * benchtest.MS},
		{Name: "never.shown", Cum: 150 * benchtest.MS},
	}
	allocs := []result.Function{{Name: "internal/saferio.ReadData in encoding/gob.(*Decoder).readMessage", Flat: 300 * benchtest.MB, Cum: 300 * benchtest.MB}}
	for _, c := range []struct {
		name           string
		memmove        int64 // ns
		copied, kernel int64 // bytes per round
	}{{"inproc", 0, 0, 1000}, {"shm-slab", 0, 0, 2000}, {"pickle", 200 * benchtest.MS, 0, 400 * benchtest.MB}, {"grpc", 10 * benchtest.MS, 200 * benchtest.MB, 400 * benchtest.MB}} {
		cell := perRound(benchtest.Cell(c.name, m, 1, 1, 10, 10, 10), map[string]int64{phase.Copied: c.copied})
		for i := range cell.Blocks {
			b := &cell.Blocks[i]
			b.Server.Usage.IO, b.Processes[0].Usage.IO = &usage.IO{ReadBytes: c.kernel, WrittenBytes: c.kernel}, &usage.IO{}
		}
		for i := range 11 {
			b := benchtest.Cell(c.name, m, 1, 1, 10).Blocks[0]
			b.Server = benchtest.Process(0.0525, benchtest.MB) // plus 10 ms in the worker
			b.Profiled, b.Round = true, []int64{10_310_000, 10_310_000}
			if i < 3 {
				b.Round = []int64{9_990_000, 9_990_000}
			}
			cell.Blocks = append(cell.Blocks, b)
		}
		cell.Profiles = []result.Profile{
			{Kind: "cpu", Files: []string{"r.profiles/x"}, First: 6, Blocks: 8, Rounds: 16, Summary: &result.Summary{
				Delivered: 200 * benchtest.MB, Unit: "s", Total: 400 * benchtest.MS, Transport: 200 * benchtest.MS, Attributed: 190 * benchtest.MS, Memmove: c.memmove,
				Phases: []result.Split{split("train", 200, 0), split("decode", 150, 75, functions...), split("garbage collection", 50, 0)},
			}},
			{Kind: "allocs", Files: []string{"r.profiles/y"}, First: 3, Blocks: 3, Rounds: 6, Summary: &result.Summary{Delivered: 200 * benchtest.MB, Unit: "B", Total: 300 * benchtest.MB, Functions: allocs}},
		}
		r.Cells = append(r.Cells, cell)
	}
	return r
}

// TestCopyTables: without profiles, no column and no legend is about memmove. TestViews has the view
// with them.
func TestCopyTables(t *testing.T) {
	got := shown(t, everyCell(profiledResult(), func(c *result.Cell) { c.Profiles = nil }), "copies")
	lacks(t, got, "by memmove")
}

// TestTimeline: spans of a lane nest on one track, and overlapping spans get their own.
// Spans without duration are included: Perfetto drops spans without dur.
func TestTimeline(t *testing.T) {
	c := cnn("grpc", 10)
	c.Blocks[0].Timeline = &result.Timeline{
		Processes: []string{"server", "process-0"}, Rounds: []int{4}, RoundStart: []int64{0}, RoundEnd: []int64{1000_000},
		Process: []int{0, 0, 0, 1, 1}, Lane: []int{0, 0, 0, 0, 0}, Client: []int{2, 2, -1, 2, 2},
		Phase: []string{"decode", "collect", "read", "train", "reserve-update"},
		Start: []int64{200, 100, 500, 0, 300}, End: []int64{300, 600, 900, 400, 300},
	}
	var b bytes.Buffer
	check.Must(t, writePerfetto(&b, benchtest.Result(c), Options{}))
	doctest.Golden(t, "timeline.json", strings.ReplaceAll(b.String(), "},{", "},\n{"))
	check.Equal(t, writePerfetto(&b, benchtest.Pair(1, 1), Options{}), ErrNoTimeline, "cells without spans")
}
