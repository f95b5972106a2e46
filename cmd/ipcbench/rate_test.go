package main

import (
	"testing"
	"time"

	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/rig"
	"ipcbench/internal/test/skip"
)

// TestRate: between two hosts with 1 Gbit/s in each direction, the floor is 1 Gbit/s minus headers, and grpc-stream and
// http, encrypted, reach at least 90 % of the floor. Only soak runs it, because it needs an idle machine.
func TestRate(t *testing.T) {
	skip.Soak(t)
	r := rig.New(t, "h0", "h1")
	r.Shape("h1", "1Gbit")
	result := measure(t, r, 1, nil, "--transport", "grpc-stream,http", "--model", "resnet18", "--workers", "1", "--clients", "1", "--rounds", "10", "--blocks", "2")
	var floor float64 // bits per second
	for _, f := range result.Floors {
		if f.Name != "tcp-stream" || f.Host != "h1" {
			continue
		}
		var all []float64
		for _, b := range f.Blocks {
			for _, bytes := range b {
				all = append(all, bytes*8)
			}
		}
		floor = stat.Median(all)
	}
	check.Need(t, floor != 0, "there is no tcp-stream to h1")
	t.Logf("floor: %.3f Gbit/s", floor/1e9)
	check.That(t, floor >= 0.93e9 && floor <= 1e9, "floor: %.3f Gbit/s, want 0.93 to 1.0", floor/1e9)
	for _, c := range result.Cells {
		if c.Transport == "inproc" {
			continue
		}
		var transfer []float64
		for _, b := range c.Blocks {
			for i, rtt := range b.RTT {
				transfer = append(transfer, float64(rtt-b.Train[i]))
			}
		}
		rate := float64(2*c.Model.Bytes) * 8 / stat.Median(transfer) * float64(time.Second)
		t.Logf("%s: %.3f Gbit/s, %.3f of the floor", c.Variant, rate/1e9, rate/floor)
		check.That(t, rate >= 0.9*floor, "%s: %.3f Gbit/s, want %.3f", c.Variant, rate/1e9, 0.9*floor/1e9)
	}
}
