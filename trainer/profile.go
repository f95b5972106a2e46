package trainer

import (
	"ipcbench/internal/profile/capture"
	"ipcbench/phase"
)

// A Profiling selects the profiles that are taken of a session's processes while the window
// [Timed] is open. Goroutines that record are labelled even if no profile is taken: see
// [phase.Recorder.Label].
type Profiling struct {
	Transport string   `json:"transport"` // name for the labels
	Model     string   `json:"model"`     // name for the labels
	Kinds     []string `json:"kinds"`     // of package capture; without any, goroutines are only labelled
	Workers   bool     `json:"-"`         // profile worker processes only, because something else profiles this process
}

// start labels the goroutines of a process and prepares its profiles.
func (p *Profiling) start(rec *phase.Recorder, process string) (*capture.Capture, error) {
	if p == nil {
		return nil, nil
	}
	rec.Label(p.Transport, p.Model, process)
	return capture.New(p.Kinds...)
}

// server returns the profiling of the server's process.
func (p *Profiling) server() *Profiling {
	if p == nil || !p.Workers {
		return p
	}
	return &Profiling{Transport: p.Transport, Model: p.Model}
}

// of returns the profiling of w: only labels if it runs inside this process, whose own
// profile includes it.
func (p *Profiling) of(w Process) *Profiling {
	if p == nil || w.Place().PID != 0 {
		return p
	}
	return &Profiling{Transport: p.Transport, Model: p.Model}
}
