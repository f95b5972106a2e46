package bench

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"

	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// plain returns a small cell that can be run.
func plain(t *testing.T) Spec {
	t.Helper()
	v, err := transports.Parse("pickle", all.Transports())
	check.Must(t, err)
	m, err := models.Parse("cnn")
	check.Must(t, err)
	return Spec{Variant: v, Model: m, Workers: 1, Clients: 1, PerProcess: 1, Depth: trainer.DefaultDepth}
}

// TestLimits: a number of a plan or of a cell at its limit can be run, written and
// read again; beyond it, it is refused by the name of its flag before anything
// runs, and by that of its field in a result.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		flag, field string
		set         func(p *Plan, s *Spec, n int)
		most        int
	}{
		{"--blocks", "plan.blocks", func(p *Plan, _ *Spec, n int) { p.Blocks = n }, 10_000},
		{"--rounds", "plan.rounds", func(p *Plan, _ *Spec, n int) { p.Rounds = n }, 100_000},
		{"--warmup", "plan.warmup", func(p *Plan, _ *Spec, n int) { p.Warmup = n }, 10_000},
		{"--train-ms", "cells[0].train_ms", func(_ *Plan, s *Spec, n int) { s.TrainMS = n }, int(time.Hour / time.Millisecond)},
		{"--time", "plan.time_ns", func(p *Plan, _ *Spec, n int) { p.Time = time.Duration(n) }, int(longest)},
		{"--precision", "plan.precision", func(p *Plan, _ *Spec, n int) { p.Precision = float64(n) }, 100},
		{"--workers", "cells[0].workers", func(_ *Plan, s *Spec, n int) { s.Workers = n }, trainer.MaxWorkers},
		{"--clients", "cells[0].clients", func(_ *Plan, s *Spec, n int) { s.Clients = n }, 100_000},
		{"--lanes-per-process", "cells[0].lanes_per_process", func(_ *Plan, s *Spec, n int) { s.PerProcess = n }, trainer.MaxWorkers},
		{"--depth", "cells[0].depth", func(_ *Plan, s *Spec, n int) { s.Depth = n }, 1 << 10},
		{"--model", "cells[0].model_tensors", func(_ *Plan, s *Spec, n int) {
			if n > (1<<20)+1 {
				n = (1 << 20) + 1 // a layout of more takes all memory
			}
			specs := make([]tensor.Spec, n)
			for i := range specs {
				specs[i] = tensor.Spec{Name: strconv.Itoa(i), DType: tensor.F32, Shape: []int{1}}
			}
			l, err := tensor.NewLayout(specs)
			check.Must(t, err)
			s.Model = &models.Model{Name: "many", Layout: l}
		}, (1 << 20)},
	} {
		try := func(n int) (run, read error) {
			p, err := DefaultPlan(Quick)
			check.Must(t, err)
			s := plain(t)
			tt.set(&p, &s, n)
			if run = CheckPlan(p); run == nil {
				run = s.validate()
			}
			r := &Result{Schema: result.Schema, Plan: p}
			c := s.Cell()
			c.Blocks = blocksOf(c.Clients)
			r.Cells = []Cell{c}
			return run, r.Validate()
		}
		if run, read := try(tt.most); run != nil || read != nil {
			t.Errorf("%s at its limit: %v; in a result: %v", tt.flag, run, read)
		}
		for _, n := range []int{tt.most + 1, math.MaxInt} {
			run, read := try(n)
			check.That(t, run != nil && strings.Contains(run.Error(), tt.flag) && strings.Contains(run.Error(), "at most"),
				"%s %d: got %v, want a refusal that names the flag and its limit", tt.flag, n, run)
			check.That(t, read != nil && strings.HasPrefix(read.Error(), tt.field+": "),
				"%s: %d: got %v in a result, want a refusal by that field", tt.field, n, read)
		}
	}
	p, err := DefaultPlan(Quick)
	check.Must(t, err)
	for _, x := range []float64{math.Inf(1), math.NaN(), -1} {
		p.Precision = x
		check.Fails(t, CheckPlan(p), "--precision", "--precision", x)
	}
}

func blocksOf(clients int) []Block {
	n := make([]int64, min(clients, 100_000)) // more are refused before they are looked at
	return []Block{{Round: []int64{1}, Train: n, RTT: n, Down: n, Up: n}}
}

// TestOddNames: a name that a result could not hold is refused before anything
// runs.
func TestOddNames(t *testing.T) {
	s := plain(t)
	s.Model = &models.Model{Name: "a\x1b[2Jb.safetensors", Layout: s.Model.Layout}
	check.Fails(t, s.validate(), `--model: "a\x1b[2Jb`)
	v, err := transports.Parse("storage:dir="+filepath.Join(t.TempDir(), "a\u202eb"), all.Transports())
	check.Must(t, err)
	s = plain(t)
	s.Variant = v
	check.Fails(t, s.validate(), `--transport: "storage:dir=`)
}
