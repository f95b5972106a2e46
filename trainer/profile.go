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
func (p *Profiling) server() *Profiling { return p.taken(p == nil || !p.Workers) }

// worker returns the profiling of w: only labels if it runs inside this process, whose own
// profile includes it.
func (p *Profiling) worker(w Process) *Profiling { return p.taken(w.Place().PID != 0) }

// taken returns p if profiles are taken of a process, or else only its labels.
func (p *Profiling) taken(yes bool) *Profiling {
	if p == nil || yes {
		return p
	}
	return &Profiling{Transport: p.Transport, Model: p.Model}
}
