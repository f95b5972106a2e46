package phase

import (
	"context"
	"runtime/pprof"
)

// The keys of the labels that profiles carry.
const (
	LabelTransport = "transport" // the variant
	LabelModel     = "model"
	LabelProcess   = "process" // server, or process-0, process-1 and so on
	LabelPhase     = "phase"   // of the innermost span that is open on the goroutine
	LabelWindow    = "window"  // OutsideRound on what a process does between the rounds of a profile
)

// OutsideRound is the value of LabelWindow.
const OutsideRound = "outside"

// ServerProcess is the value of LabelProcess in the server's process.
const ServerProcess = "server"

// profiling are the labels that a recorder puts on goroutines.
type profiling struct {
	phases  [lastPhase + 1]labels // None: all but the phase
	outside labels
}

// Label makes the recorder label each goroutine that records with its phase, so
// that CPU profiles can be read by phase, and with the names given here. It is
// called before anybody records. Without it, spans touch no label and cost what
// they did.
func (r *Recorder) Label(transport, model, process string) {
	if r == nil {
		return
	}
	names := pprof.WithLabels(context.Background(),
		pprof.Labels(LabelTransport, transport, LabelModel, model, LabelProcess, process))
	p := &profiling{outside: made(pprof.WithLabels(names, pprof.Labels(LabelWindow, OutsideRound)))}
	p.phases[None] = made(names)
	for _, phase := range Phases() {
		p.phases[phase] = made(pprof.WithLabels(names, pprof.Labels(LabelPhase, phase.String())))
	}
	r.profiling = p
}

// made returns the labels of ctx.
func made(ctx context.Context) labels {
	before := goroutineLabels()
	defer setGoroutineLabels(before)
	pprof.SetGoroutineLabels(ctx)
	return goroutineLabels()
}

// Mark is a span that is not recorded: it labels the goroutine until its End, for
// work whose times are taken by other means.
func (r *Recorder) Mark(p Phase) Span {
	if r == nil || r.profiling == nil {
		return Span{}
	}
	s := Span{mark: true, r: r, outer: goroutineLabels()}
	setGoroutineLabels(r.profiling.phases[p])
	return s
}

// Outside labels the calling goroutine until the span's End as one that does
// what belongs to no round, and whose samples are left out.
func (r *Recorder) Outside() Span {
	if r == nil || r.profiling == nil {
		return Span{}
	}
	s := Span{mark: true, r: r, outer: goroutineLabels()}
	setGoroutineLabels(r.profiling.outside)
	return s
}
