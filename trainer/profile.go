package trainer

import (
	"ipcbench/internal/profile/capture"
	"ipcbench/phase"
)

// A Profiling says which profiles are taken of a session's processes while the
// window [Timed] is open. Whether any are, all goroutines that record are
// labelled: see [phase.Recorder.Label].
type Profiling struct {
	Transport string   `json:"transport"` // name for the labels
	Model     string   `json:"model"`     // name for the labels
	Kinds     []string `json:"kinds"`     // see package capture; none is labels alone
	Workers   bool     `json:"-"`         // profile the workers' processes alone: something else profiles this process
}

// start makes a process of a session ready to be profiled.
func (p *Profiling) start(rec *phase.Recorder, process string) (*capture.Capture, error) {
	if p == nil {
		return nil, nil
	}
	rec.Label(p.Transport, p.Model, process)
	return capture.New(p.Kinds...)
}

// server returns what this process does.
func (p *Profiling) server() *Profiling {
	if p == nil || !p.Workers {
		return p
	}
	return &Profiling{Transport: p.Transport, Model: p.Model}
}

// of returns what w does: nothing but labels if it is inside this process, which has
// one profile.
func (p *Profiling) of(w Process) *Profiling {
	if p == nil || w.Place().PID != 0 {
		return p
	}
	return &Profiling{Transport: p.Transport, Model: p.Model}
}
