package bench

import (
	"cmp"
	"fmt"
	"runtime"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// Values of Plan.Verify.
const (
	VerifySample = "sample" // proves the second round, every eighth and the last
	VerifyAll    = "all"    // proves every second round
)

// A Spec specifies a cell to be measured.
type Spec struct {
	Variant    transports.Variant
	Model      *models.Model
	Up         *models.Model // layout of updates; nil means Model's
	Workers    int
	Clients    int
	PerProcess int // lanes per process
	Depth      int
	Setup
}

func (s Spec) String() string { return s.Cell().ID() }

// Cell returns the result's entry for s before anything is measured: its names and its
// settings.
func (s Spec) Cell() Cell {
	c := Cell{
		Transport: s.Variant.Transport.Name(), Variant: s.Variant.String(), Settings: s.Variant.Settings, Model: s.moved(),
		Workers: s.Workers, Clients: s.Clients, PerProcess: s.PerProcess, Depth: s.Depth, Setup: s.Setup,
	}
	c.Respawn = s.respawns()
	return c
}

// up returns the model with the layout of updates.
func (s Spec) up() *models.Model { return cmp.Or(s.Up, s.Model) }

// tensors returns how many tensors a client receives and sends in a round.
func (s Spec) tensors() int { return s.Model.Layout.Len() + s.up().Layout.Len() }

// moved returns the result's description of model and update.
func (s Spec) moved() Model {
	m := Model{Name: s.Model.Name, Tensors: s.Model.Layout.Len(), Bytes: int64(s.Model.Layout.Payload())}
	if up := s.up(); up != s.Model {
		m.Up, m.UpTensors, m.UpBytes = up.Name, up.Layout.Len(), int64(up.Layout.Payload())
	}
	return m
}

// inside reports whether the cell's workers are goroutines of this process.
func (s Spec) inside() bool {
	return s.Variant.Traits().Reach == driver.Process
}

// Modes of a run, which trade time for precision.
const (
	Quick    = "quick"
	Default  = "default"
	Thorough = "thorough"
)

// DefaultPlan returns the plan of a mode: Quick, Default or Thorough. All defaults are
// here.
//
// Six blocks are the fewest whose medians give a 95 % interval without assuming a
// distribution: the chance that the true median is outside all six is 2/2^6. Quick runs
// exactly six.
//
// Ten blocks against ten show a difference of 1.5 times the variation between blocks. If
// no two of their blocks overlap, they reach 5 % among thousands of comparisons. Six
// against six cannot among more than 23.
func DefaultPlan(mode string) (Plan, error) {
	p := Plan{
		Mode: mode, Rules: exchange.Rules, Seed: 1, Blocks: 10, Least: 3, Warmup: 2, WarmTime: 50 * time.Millisecond, Time: 6 * time.Second, Precision: 0.05,
		Verify: VerifySample, Samples: 1 << 17,
	}
	switch mode {
	case Quick:
		p.Blocks, p.Least, p.Warmup, p.Time, p.Precision = stat.Blocks, 1, 0, 360*time.Millisecond, 0
	case Default:
	case Thorough:
		p.Blocks, p.Warmup, p.Time, p.Precision = 12, 3, 30*time.Second, 0.02
	default:
		return p, fmt.Errorf("mode must be quick, default or thorough, not %q", mode)
	}
	return p, nil
}

// InterleavedBlocks is the minimum number of blocks of each of two builds, in any mode,
// unless the user sets another number.
const InterleavedBlocks = 10

func ofBlock(p Plan) Plan {
	if p.Rounds > 0 {
		p.Rounds, p.Least, p.Time, p.WarmTime = (p.Rounds+p.Blocks-1)/p.Blocks, 0, 0, 0
	} else {
		p.Least, p.Time = leastOf(p), p.Time/time.Duration(p.Blocks)
	}
	p.Blocks = 1
	return p
}

// leastOf returns the minimum number of timed rounds per block, however long they take.
func leastOf(p Plan) int { return cmp.Or(p.Least, 3) }

// samplesPerJob is the minimum number of spans that one job leaves in a process. It sizes
// the recorders, which must hold a few rounds.
const samplesPerJob = 16

// Check returns an error if the cell is invalid. It returns an [Unfit] if its transport
// does not support a setting or this machine has too little memory.
func (s Spec) Check() error {
	if err := s.checkData(); err != nil {
		return err
	}
	need := s.memory()
	if have, source := machine.MemoryLimit(); have > 0 && need > have {
		return &Unfit{s, fmt.Errorf("needs about %s of memory, but %s has %s: choose a smaller model, fewer workers or --depth 1",
			megabytes(need), source, megabytes(have))}
	}
	return nil
}

// checkData returns the errors of [Spec.Check] that do not depend on the hosts of its
// workers.
func (s Spec) checkData() error {
	if err := cmp.Or(s.validate(), s.checkLink()); err != nil {
		return err
	}
	if err := cmp.Or(s.checkPeer(), s.checkNested(), s.checkLanguage()); err != nil {
		return &Unfit{s, err}
	}
	if c := s.Variant.Codec(); c.Base() && s.Workers > s.Clients {
		return &Unfit{s, fmt.Errorf("codec %s sends differences from the previous model, which a worker without a client in every round does not have: choose --workers %d or --clients %d",
			c, s.Clients, s.Workers)}
	}
	if err := s.Variant.Check(s.options()); err != nil {
		return &Unfit{s, err}
	}
	return nil
}

// Unfit reports that one cell cannot run, on this machine or with its transport. Other
// cells of the run are unaffected.
type Unfit struct {
	Spec Spec
	Err  error
}

func (u *Unfit) Error() string { return fmt.Sprintf("%s: %v", u.Spec, u.Err) }
func (u *Unfit) Unwrap() error { return u.Err }

// Skipped returns the result's entry for the skipped cell, with the reason.
func (u *Unfit) Skipped() Skipped {
	c := u.Spec.Cell()
	return Skipped{
		Transport: c.Transport, Variant: c.Variant, Model: c.Model.Name, Up: c.Model.Up, Workers: c.Workers, Clients: c.Clients,
		PerProcess: c.PerProcess, Depth: c.Depth, Setup: c.Setup, Why: u.Err.Error(),
	}
}

// options returns the options that a session of s gives its transport, as far as they are
// known before it starts.
func (s Spec) options() driver.Options {
	return driver.Options{
		Down: s.Model.Layout, Up: s.up().Layout, Lanes: s.Workers, Clients: s.Clients, Depth: s.Depth,
		Settings: s.Variant.Settings,
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB (%s)", n/1e6, tensor.FormatBytes(int(n))) }

func (s Spec) control(inproc transports.Variant) Spec {
	s.Variant = inproc
	s.PerProcess = s.Workers
	s.Setup = s.Only(result.Binds)
	return s
}

// longest is the longest duration that a plan may have; result files accept no longer
// one.
const longest = 30 * 24 * time.Hour

// CheckPlan checks the parts of a plan that users can set. Its errors name the flag.
func CheckPlan(p Plan) error {
	if err := result.CheckFlags(p); err != nil {
		return err
	}
	switch {
	case p.ServerCPUs > 0 && p.ServerCPUs >= runtime.NumCPU():
		return fmt.Errorf("--server-cpus must be less than %d, the number of processors, not %d", runtime.NumCPU(), p.ServerCPUs)
	case p.Time <= 0 || p.Time > longest:
		return fmt.Errorf("--time must be positive and at most %v, not %v", longest, p.Time)
	case p.RoundLimit != 0 && (p.RoundLimit < trainer.LeastRoundLimit || p.RoundLimit > longest):
		return fmt.Errorf("--round-limit must be from %v to %v, or 0, not %v", trainer.LeastRoundLimit, longest, p.RoundLimit)
	case p.Verify != VerifySample && p.Verify != VerifyAll:
		return fmt.Errorf("--verify must be sample or all, not %q", p.Verify)
	}
	return nil
}

// validate checks the parts of a cell that users can set. Its errors name the flag.
func (s Spec) validate() error {
	c := s.Cell()
	if err := result.CheckFlags(c); err != nil {
		return err
	}
	for _, of := range []struct{ flag, name string }{{"--model", c.Model.Name}, {"--up", s.up().Name}, {"--transport", c.Variant}} {
		if err := result.CheckName(of.name); err != nil {
			return fmt.Errorf("%s: %w: choose another name or path", of.flag, err)
		}
	}
	return cmp.Or(result.Check(c.Setup), c.ValidateHead())
}
