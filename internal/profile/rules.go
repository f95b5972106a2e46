package profile

import (
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"ipcbench/phase"
)

// goroutines maps functions to the phase of a library's goroutine that runs them. No span
// is ever open on such a goroutine. Its labels, inherited from its creator, are ignored.
var goroutines = map[string]phase.Phase{
	// grpc-go: one goroutine per connection writes all frames, one reads them.
	"google.golang.org/grpc/internal/transport.(*loopyWriter).run":           phase.Send,
	"google.golang.org/grpc/internal/transport.(*http2Client).reader":        phase.Read,
	"google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams": phase.Read,
	// net/http's client: the same.
	"net/http.(*persistConn).readLoop":  phase.Read,
	"net/http.(*persistConn).writeLoop": phase.Send,
	// net/http's server checks whether the client has gone while a handler works.
	"net/http.(*connReader).backgroundRead": phase.Wait,
}

// calls maps the methods of package transports that the trainer times to their phases. In
// them, a transport opens its own spans.
var calls = map[string]phase.Phase{
	"Publish": phase.Publish, "Dispatch": phase.Dispatch, "Collect": phase.Collect,
	"Receive": phase.Receive, "Submit": phase.Submit, "Reserve": phase.Reserve,
}

// callOf returns the phase of the innermost call in a stack, or None.
func callOf(stack []string) phase.Phase {
	for _, name := range stack {
		p := calls[name[strings.LastIndexByte(name, '.')+1:]]
		switch {
		case p == phase.None || !strings.HasPrefix(name, "ipcbench/transports"):
			continue
		case p == phase.Reserve && strings.HasSuffix(name, "orker).Reserve"): // Worker or worker
			return phase.ReserveUpdate
		}
		return p
	}
	return phase.None
}

// activities lists the work of a process outside phases, with the prefixes of the
// functions that belong to them.
var activities = []struct {
	name     string
	prefixes []string
}{
	{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge"}},
	{"profiler", []string{"runtime/pprof.", "runtime/trace."}},
	{"harness", []string{"ipcbench/trainer.", "ipcbench/bench.", "ipcbench/bench/session."}},
	{"scheduler", []string{"runtime.mcall", "runtime.mstart", "runtime.park_m", "runtime.schedule", "runtime.goexit0", "runtime.morestack", "runtime.sysmon"}},
}

// betweenRounds are prefixes of functions that run between the profiled rounds: they take
// profiles, read a round's costs and check its model. Samples of kinds without labels are
// removed if they contain one.
var betweenRounds = []string{
	"runtime/pprof.", "runtime/trace.", "ipcbench/internal/profile/capture.", "ipcbench/phase/usage.",
	"ipcbench/trainer.(*Session).Pause", "ipcbench/trainer.(*Session).Resume", "ipcbench/bench/session.(*Run).check",
}

// transportCode are prefixes of functions whose samples should have a phase: transports,
// and the libraries that run code for them on other goroutines.
var transportCode = []string{
	"ipcbench/transports", "ipcbench/internal/futex.", "google.golang.org/grpc", "net/http.", "encoding/gob.",
}

// plumbing are prefixes of functions whose samples are counted for their callers.
var plumbing = []string{
	"runtime.", "internal/", "syscall.", "golang.org/x/sys/unix.", "sync.", "sync/atomic.", "net.(*", "os.(*", "io.",
}

// stackOf returns the names of the functions of the sample's stack, innermost first.
func stackOf(s *pprof.Sample) []string {
	var names []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

// hasPrefix reports whether name begins with one of prefixes.
func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// within reports whether a function of the stack begins with one of prefixes.
func within(stack, prefixes []string) bool {
	return slices.ContainsFunc(stack, func(name string) bool { return hasPrefix(name, prefixes) })
}

// phaseOf returns the name of the sample's phase, from the rule for its goroutine, its
// label or the call on its stack, in this order. It returns "" if there is none.
func phaseOf(s *pprof.Sample) string {
	stack := stackOf(s)
	for _, name := range stack {
		if p := goroutines[name]; p != phase.None {
			return p.String()
		}
	}
	if label := s.Label[phase.LabelPhase]; len(label) > 0 {
		return label[0]
	}
	if p := callOf(stack); p != phase.None {
		return p.String()
	}
	return ""
}

// place returns the name under which a sample is counted: its phase, an activity of
// activities, or "other".
func place(s *pprof.Sample, stack []string) (name string, isPhase bool) {
	if label := s.Label[phase.LabelPhase]; len(label) > 0 {
		return label[0], true
	}
	for _, r := range activities {
		if within(stack, r.prefixes) {
			return r.name, false
		}
	}
	return "other", false
}

// functionsOf returns the functions of a stack, innermost first. Plumbing at the inner end
// becomes one entry, such as "runtime.memmove in CALLER".
func functionsOf(stack []string) []string {
	if len(stack) > 0 && stack[0] == "runtime.asyncPreempt" { // the interrupted function was running
		stack = stack[1:]
	}
	caller := slices.IndexFunc(stack, func(name string) bool { return !hasPrefix(name, plumbing) })
	if caller <= 0 {
		return stack
	}
	inner := stack[0]
	for _, name := range stack[:caller] { // syscall.Read is more informative than the instruction below it
		if strings.HasPrefix(name, "syscall.") {
			inner = name
		}
	}
	return append([]string{inner + " in " + stack[caller]}, stack[caller:]...)
}
