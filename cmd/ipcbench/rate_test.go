package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/internal/rig"
)

// TestRate: between two hosts with 1 Gbit/s each way, the floor is that less headers, and
// what moves bytes in a stream comes near to it, encrypted. That takes a machine that does
// nothing else.
func TestRate(t *testing.T) {
	if os.Getenv("IPCBENCH_TEST_SOAK") == "" {
		t.Skip("takes a machine that does nothing else: set IPCBENCH_TEST_SOAK")
	}
	r := rig.New(t, "h0", "h1")
	r.Shape("h1", "1Gbit")
	result := measure(t, r, 1, nil, "--transport", "grpc-stream,http", "--model", "resnet18", "--workers", "1", "--clients", "1", "--rounds", "10", "--blocks", "2")
	var floor float64 // bits a second
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
		floor = median(all)
	}
	if floor == 0 {
		t.Fatal("there is no tcp-stream to h1")
	}
	if t.Logf("floor: %.3f Gbit/s", floor/1e9); floor < 0.93e9 || floor > 1e9 {
		t.Errorf("floor: %.3f Gbit/s, want 0.93 to 1.0", floor/1e9)
	}
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
		rate := float64(2*c.Model.Bytes) * 8 / median(transfer) * float64(time.Second)
		t.Logf("%s: %.3f Gbit/s, %.3f of the floor", c.Variant, rate/1e9, rate/floor)
		if rate < 0.9*floor {
			t.Errorf("%s: %.3f Gbit/s, want %.3f", c.Variant, rate/1e9, 0.9*floor/1e9)
		}
	}
}

func median(of []float64) float64 {
	of = slices.Clone(of)
	slices.Sort(of)
	return of[len(of)/2]
}

// TestAheadIdle: on a machine that does nothing else, the offset of a clock that is
// 100,000 s ahead is known to 100 µs, and the ways down and up take what they take with
// one clock.
func TestAheadIdle(t *testing.T) {
	if os.Getenv("IPCBENCH_TEST_SOAK") == "" {
		t.Skip("takes a machine that does nothing else: set IPCBENCH_TEST_SOAK")
	}
	const ahead = 100_000 * time.Second
	r := rig.New(t, "h0", "h1")
	args := []string{"--transport", "grpc-stream,http", "--model", "cnn", "--workers", "1", "--clients", "1", "--rounds", "600", "--blocks", "6"}
	one := measure(t, r, 1, nil, args...)
	r.Ahead("h1", ahead)
	two := measure(t, r, 1, nil, args...)
	for i, c := range two.Cells {
		if c.Transport == "inproc" {
			continue
		}
		var width float64
		for _, b := range c.Blocks {
			k := b.Clocks[0]
			if off := k.Offset - int64(ahead); max(off, -off) > k.Width || k.Width >= int64(50*time.Microsecond) {
				t.Errorf("%s: ahead by %v ± %v, want %v ± less than 50 µs", c.Variant, time.Duration(k.Offset), time.Duration(k.Width), ahead)
			}
			width = max(width, float64(k.Width))
		}
		for way, of := range map[string]func(bench.Block) []int64{"down": func(b bench.Block) []int64 { return b.Down }, "up": func(b bench.Block) []int64 { return b.Up }} {
			low1, high1 := extent(one.Cells[i].Blocks, of)
			low2, high2 := extent(c.Blocks, of)
			t.Logf("%s: %s: %.1f to %.1f µs, ahead %.1f to %.1f µs ± %.1f", c.Variant, way, low1/1e3, high1/1e3, low2/1e3, high2/1e3, width/1e3)
			if low1 > high2+width || low2 > high1+width {
				t.Errorf("%s: %s differs", c.Variant, way)
			}
		}
	}
}

// extent returns the lowest and the highest median of the blocks.
func extent(blocks []bench.Block, of func(bench.Block) []int64) (low, high float64) {
	var medians []float64
	for _, b := range blocks {
		var all []float64
		for _, ns := range of(b) {
			all = append(all, float64(ns))
		}
		medians = append(medians, median(all))
	}
	return slices.Min(medians), slices.Max(medians)
}
