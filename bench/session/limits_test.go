package session

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports/all"
)

// TestWarmup: before timed rounds each worker has made its updates, if these take at most 10 s, and a number of rounds
// that is drawn; rounds of a known duration and those of a first block, which are estimated, are limited alike.
func TestWarmup(t *testing.T) {
	plan := check.Value(DefaultPlan(Default))(t)
	quick := check.Value(DefaultPlan(Quick))(t)
	for _, tt := range []struct {
		cell        string
		plan        result.Plan
		round       time.Duration
		least, most int
	}{
		{"http histology", plan, 100 * time.Millisecond, 12, 19},
		{"http histology workers=2 clients=8", plan, 100 * time.Millisecond, 3, 10},
		{"http histology", plan, 500 * time.Millisecond, 12, 15},
		{"http histology", plan, 2 * time.Second, 5, 8},
		{"http histology", plan, time.Minute, 2, 5},
		{"http histology workers=2 clients=32", plan, time.Second, 2, 5},
		{"http histology", plan, 0, 12, 15},     // 133 MB take 0.67 s
		{"http uniform:1GiB/20", plan, 0, 2, 5}, // 2.1 GB take 10.7 s
		{"http histology", quick, time.Millisecond, 0, 0},
		{"http:network=tcp histology link=100Mbit", plan, 0, 0, 0},
	} {
		got := make([]int, 200)
		for i := range got {
			got[i] = specOf(t, tt.cell).Warmup(tt.plan, i, tt.round)
		}
		check.Equal(t, []int{slices.Min(got), slices.Max(got)}, []int{tt.least, tt.most}, tt.cell)
	}
}

// TestLimits: a number at its limit, of a plan or a cell, can be run, written and read again. A larger one is rejected
// before anything runs, with an error that names the flag; in a result, the error names the field.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		flag, field string
		set         func(p *result.Plan, s *Spec, n int)
		most        int
	}{
		{"--blocks", "plan.blocks", func(p *result.Plan, _ *Spec, n int) { p.Blocks = n }, 10_000},
		{"--rounds", "plan.rounds", func(p *result.Plan, _ *Spec, n int) { p.Rounds = n }, 100_000},
		{"--warmup", "plan.warmup", func(p *result.Plan, _ *Spec, n int) { p.Warmup = n }, 10_000},
		{"--train-ms", "cells[0].train_ms", func(_ *result.Plan, s *Spec, n int) { s.TrainMS = n }, int(time.Hour / time.Millisecond)},
		{"--time", "plan.time_ns", func(p *result.Plan, _ *Spec, n int) { p.Time = time.Duration(n) }, int(longest)},
		{"--precision", "plan.precision", func(p *result.Plan, _ *Spec, n int) { p.Precision = float64(n) }, 100},
		{"--workers", "cells[0].workers", func(_ *result.Plan, s *Spec, n int) { s.Workers = n }, trainer.MaxWorkers},
		{"--clients", "cells[0].clients", func(_ *result.Plan, s *Spec, n int) { s.Clients = n }, 100_000},
		{"--lanes-per-process", "cells[0].lanes_per_process", func(_ *result.Plan, s *Spec, n int) { s.PerProcess = n }, trainer.MaxWorkers},
		{"--depth", "cells[0].depth", func(_ *result.Plan, s *Spec, n int) { s.Depth = n }, 1 << 10},
		{"--model", "cells[0].model_tensors", func(_ *result.Plan, s *Spec, n int) {
			if n > (1<<20)+1 {
				n = (1 << 20) + 1 // a layout of more tensors takes all memory
			}
			specs := make([]tensor.Spec, n)
			for i := range specs {
				specs[i] = tensor.Spec{Name: strconv.Itoa(i), DType: tensor.F32, Shape: []int{1}}
			}
			l := check.Value(tensor.NewLayout(specs))(t)
			s.Model = &models.Model{Name: "many", Layout: l}
		}, (1 << 20)},
	} {
		try := func(n int) (run, read error) {
			p := check.Value(DefaultPlan(Quick))(t)
			s := specOf(t, "pickle cnn")
			tt.set(&p, &s, n)
			if run = CheckPlan(p); run == nil {
				run = s.Validate()
			}
			r := &result.Result{Schema: result.Schema, Plan: p}
			c := s.Cell()
			each := make([]int64, min(c.Clients, 100_000)) // more are refused before the lists are looked at
			c.Blocks = []result.Block{{Round: []int64{1}, Train: each, RTT: each, Down: each, Up: each}}
			r.Cells = []result.Cell{c}
			return run, r.Validate()
		}
		run, read := try(tt.most)
		check.OK(t, run, tt.flag, "at its limit")
		check.OK(t, read, tt.flag, "at its limit, in a result")
		for _, n := range []int{tt.most + 1, math.MaxInt} {
			run, read := try(n)
			check.Fails(t, run, tt.flag, n)
			check.Fails(t, run, "at most", tt.flag, n)
			check.That(t, read != nil && strings.HasPrefix(read.Error(), tt.field+": "),
				"%s: %d: got %v in a result, want a refusal by that field", tt.field, n, read)
		}
	}
	p := check.Value(DefaultPlan(Quick))(t)
	for _, x := range []float64{math.Inf(1), math.NaN(), -1} {
		p.Precision = x
		check.Fails(t, CheckPlan(p), "--precision", "--precision", x)
	}
}

// TestOddNames: a name that a result cannot hold is rejected before anything runs.
func TestOddNames(t *testing.T) {
	cells := benchtest.Specs[Spec](t, all.Transports(), "pickle cnn", "storage:dir="+filepath.Join(t.TempDir(), "a\u202eb")+" cnn")
	check.Fails(t, cells[1].Validate(), `--transport: "storage:dir=`)
	cells[0].Model.Name = "a\x1b[2Jb.safetensors"
	check.Fails(t, cells[0].Validate(), `--model: "a\x1b[2Jb`)
}
