package bench

import (
	"cmp"
	"fmt"
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

// What Plan.Verify may be.
const (
	VerifySample = "sample" // the second round, every eighth and the last are proved
	VerifyAll    = "all"    // every second round is
)

// A Spec is a cell that is to be measured.
type Spec struct {
	Variant    transports.Variant
	Model      *models.Model
	Up         *models.Model // whose shapes updates have; nil for those of Model
	Workers    int
	Clients    int
	PerProcess int // lanes a process
	Depth      int
	Setup
}

func (s Spec) String() string { return s.Cell().ID() }

// Cell returns the result's entry for s before anything is measured: all that names it,
// and what it is asked to be.
func (s Spec) Cell() Cell {
	c := Cell{
		Transport: s.Variant.Transport.Name(), Variant: s.Variant.String(), Settings: s.Variant.Settings, Model: s.moved(),
		Workers: s.Workers, Clients: s.Clients, PerProcess: s.PerProcess, Depth: s.Depth, Setup: s.Setup,
	}
	c.Respawn = s.respawns()
	return c
}

// up returns the model whose shapes updates have.
func (s Spec) up() *models.Model { return cmp.Or(s.Up, s.Model) }

// tensors returns how many a client gets and sends.
func (s Spec) tensors() int { return s.Model.Layout.Len() + s.up().Layout.Len() }

// moved returns what a result says of model and update.
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

// The modes of a run: how much time they spend on how sure an answer.
const (
	Quick    = "quick"
	Default  = "default"
	Thorough = "thorough"
)

// DefaultPlan returns the settings of a mode. It is the only place of defaults.
//
// Six blocks are the fewest whose medians give a 95 % interval without assuming
// a distribution: the chance that the true median lies outside of all six is
// 2/2^6. Quick takes these six and no more. Ten against ten show a difference of one and a half times what blocks
// differ by. They reach 5 % among thousands of comparisons if no two blocks
// overlap; six against six cannot among more than 23.
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
		return p, fmt.Errorf("unknown mode %q: want quick, default or thorough", mode)
	}
	return p, nil
}

// InterleavedBlocks is how many blocks each of two builds gets at least, in any
// mode, unless the user asks for another number.
const InterleavedBlocks = 10

// ofBlock returns the plan of one of the plan's blocks.
func ofBlock(p Plan) Plan {
	if p.Rounds > 0 {
		p.Rounds, p.Least, p.Time, p.WarmTime = (p.Rounds+p.Blocks-1)/p.Blocks, 0, 0, 0
	} else {
		p.Least, p.Time = leastOf(p), p.Time/time.Duration(p.Blocks)
	}
	p.Blocks = 1
	return p
}

// leastOf returns how many timed rounds a block has at least, however long they take.
func leastOf(p Plan) int { return cmp.Or(p.Least, 3) }

// samplesPerJob is how many spans one job leaves in a process at
// least; recorders must have room for a few rounds.
const samplesPerJob = 16

// Check reports what makes the cell impossible on this machine: a setting that
// the transport cannot carry, or more memory than there is.
func (s Spec) Check() error {
	if err := s.checkData(); err != nil {
		return err
	}
	need := s.memory()
	if have, source := machine.MemoryLimit(); have > 0 && need > have {
		return &Unfit{s, fmt.Errorf("needs about %s of memory, %s has %s: choose a smaller model, fewer workers or --depth 1",
			megabytes(need), source, megabytes(have))}
	}
	return nil
}

// checkData reports what is wrong with the cell wherever its workers are.
func (s Spec) checkData() error {
	if err := cmp.Or(s.validate(), s.checkLink()); err != nil {
		return err
	}
	if err := cmp.Or(s.checkPeer(), s.checkNested(), s.checkLanguage()); err != nil {
		return &Unfit{s, err}
	}
	if c := s.Variant.Codec(); c.Base() && s.Workers > s.Clients {
		return &Unfit{s, fmt.Errorf("codec %s sends what differs from the version before, and a worker without a client in each round has not got that: choose --workers %d or --clients %d",
			c, s.Clients, s.Workers)}
	}
	if err := s.Variant.Check(s.options()); err != nil {
		return &Unfit{s, err}
	}
	return nil
}

// Unfit is the error of a cell that this machine, or its transport, cannot
// carry. Others of the same run may be carried all the same.
type Unfit struct {
	Spec Spec
	Err  error
}

func (u *Unfit) Error() string { return fmt.Sprintf("%s: %v", u.Spec, u.Err) }
func (u *Unfit) Unwrap() error { return u.Err }

// Skipped returns the result's entry for the cell, which was left out.
func (u *Unfit) Skipped() Skipped {
	c := u.Spec.Cell()
	return Skipped{
		Transport: c.Transport, Variant: c.Variant, Model: c.Model.Name, Up: c.Model.Up, Workers: c.Workers, Clients: c.Clients,
		PerProcess: c.PerProcess, Depth: c.Depth, Setup: c.Setup, Why: u.Err.Error(),
	}
}

// options are those that a session of s gives its transport, as far as they are
// known before it.
func (s Spec) options() driver.Options {
	return driver.Options{
		Down: s.Model.Layout, Up: s.up().Layout, Lanes: s.Workers, Clients: s.Clients, Depth: s.Depth,
		Settings: s.Variant.Settings,
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB (%s)", n/1e6, tensor.FormatBytes(int(n))) }

// control returns the control cell of s: the same round inside one process.
func (s Spec) control(inproc transports.Variant) Spec {
	s.Variant = inproc
	s.PerProcess = s.Workers
	s.Setup = s.Only(result.Binds)
	return s
}

// longest is the longest duration of a plan: results hold no longer one.
const longest = 30 * 24 * time.Hour

// CheckPlan checks what a user can choose of a plan, with errors that name the flag.
func CheckPlan(p Plan) error {
	if err := result.CheckFlags(p); err != nil {
		return err
	}
	switch {
	case p.Time <= 0 || p.Time > longest:
		return fmt.Errorf("--time must be positive and at most %v, not %v", longest, p.Time)
	case p.RoundLimit != 0 && (p.RoundLimit < trainer.LeastRoundLimit || p.RoundLimit > longest):
		return fmt.Errorf("--round-limit must be from %v to %v, or 0, not %v", trainer.LeastRoundLimit, longest, p.RoundLimit)
	case p.Verify != VerifySample && p.Verify != VerifyAll:
		return fmt.Errorf("--verify must be sample or all, not %q", p.Verify)
	}
	return nil
}

// validate checks what a user can choose of a cell, with errors that name the flag.
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
