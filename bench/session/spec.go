package session

import (
	"cmp"
	"fmt"

	"ipcbench/bench/result"
	"ipcbench/tensor/models"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// A Spec specifies a cell to be measured. Copies share its models, which nothing changes.
type Spec struct {
	Variant    transports.Variant
	Model      *models.Model
	Up         *models.Model // layout of updates; nil means Model's
	Workers    int
	Clients    int
	PerProcess int // lanes per process
	Depth      int
	result.Setup

	Question string // the first that the cell answers, whose cells are neighbours in a cycle; empty if none
}

func (s Spec) String() string { return s.Cell().ID() }

// Cell returns the result's entry for s before anything is measured: its names and its
// settings.
func (s Spec) Cell() result.Cell {
	c := result.Cell{
		Transport: s.Variant.Subject.Name(), Variant: s.Variant.String(), Settings: s.Variant.Settings, Model: s.Moved(),
		Workers: s.Workers, Clients: s.Clients, PerProcess: s.PerProcess, Depth: s.Depth, Setup: s.Setup,
	}
	c.Respawn = s.Respawns()
	return c
}

// Update returns the model with the layout of updates.
func (s Spec) Update() *models.Model { return cmp.Or(s.Up, s.Model) }

// tensors returns how many tensors a client receives and sends in a round.
func (s Spec) tensors() int { return s.Model.Layout.Len() + s.Update().Layout.Len() }

// Moved returns the result's description of model and update.
func (s Spec) Moved() result.Model {
	m := result.Model{Name: s.Model.Name, Tensors: s.Model.Layout.Len(), Bytes: int64(s.Model.Layout.Payload())}
	if up := s.Update(); up != s.Model {
		m.Up, m.UpTensors, m.UpBytes = up.Name, up.Layout.Len(), int64(up.Layout.Payload())
	}
	return m
}

// Inside reports whether the cell's workers are goroutines of this process.
func (s Spec) Inside() bool {
	return s.Variant.Traits().Reach == driver.Process
}

// Processes returns the number of worker processes.
func (s Spec) Processes() int { return (s.Workers + s.PerProcess - 1) / s.PerProcess }

// Respawns reports whether every round of the cell starts fresh workers. The control's
// workers are goroutines, which need no start, so its rounds do not change and overhead
// includes the starts.
func (s Spec) Respawns() bool { return s.Respawn && !s.Inside() }

// Control returns the cell that does the same work within one process, by the transport inproc.
func (s Spec) Control(inproc transports.Variant) Spec {
	s.Variant = inproc
	s.PerProcess = s.Workers
	s.Setup = s.Only(result.Binds)
	return s
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
func (u *Unfit) Skipped() result.Skipped {
	c := u.Spec.Cell()
	return result.Skipped{
		Transport: c.Transport, Variant: c.Variant, Model: c.Model.Name, Up: c.Model.Up,
		Workers: c.Workers, Clients: c.Clients, PerProcess: c.PerProcess, Depth: c.Depth, Setup: c.Setup, Why: u.Err.Error(),
	}
}
