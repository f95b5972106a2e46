package phase

import (
	"context"
	"runtime/pprof"
)

// Keys of the labels in profiles.
const (
	LabelTransport = "transport" // transport with its settings
	LabelModel     = "model"
	LabelProcess   = "process" // ServerProcess, or process-0, process-1 and so on
	LabelPhase     = "phase"   // name of the goroutine's innermost open span
	LabelWindow    = "window"  // OutsideRound for work between the rounds of a profile; else absent
)

// OutsideRound is a value of LabelWindow.
const OutsideRound = "outside"

// ServerProcess is the value of LabelProcess in the server's process.
const ServerProcess = "server"

// profiling holds the labels that a recorder sets on goroutines.
type profiling [outside + 1]labels // by phase; index None: all labels except the phase

// outside is the index of the labels for work outside of rounds.
const outside = lastPhase + 1

// Label makes the recorder label each goroutine that records with the current phase and
// the given names, so that CPU profiles can be divided among phases. It must be called
// before recording starts. Without it, spans set no labels.
func (r *Recorder) Label(transport, model, process string) {
	if r == nil {
		return
	}
	names := pprof.WithLabels(context.Background(),
		pprof.Labels(LabelTransport, transport, LabelModel, model, LabelProcess, process))
	r.profiling = &profiling{
		None: labelsOf(names), outside: labelsOf(pprof.WithLabels(names, pprof.Labels(LabelWindow, OutsideRound))),
	}
	for _, phase := range Phases() {
		r.profiling[phase] = labelsOf(pprof.WithLabels(names, pprof.Labels(LabelPhase, phase.String())))
	}
}

// labelsOf returns the labels of ctx in the form that the runtime keeps.
func labelsOf(ctx context.Context) labels {
	before := goroutineLabels()
	defer setGoroutineLabels(before)
	pprof.SetGoroutineLabels(ctx)
	return goroutineLabels()
}

// Mark labels the goroutine with phase p until the span ends, and records nothing. It is
// for work that is timed by other means.
func (r *Recorder) Mark(p Phase) Span {
	if r == nil || r.profiling == nil {
		return Span{}
	}
	s := Span{mark: true, r: r, outer: goroutineLabels()}
	setGoroutineLabels(r.profiling[p])
	return s
}

// Outside labels the calling goroutine, until the span ends, as working outside of
// rounds. Reports leave out its profile samples.
func (r *Recorder) Outside() Span { return r.Mark(outside) }
