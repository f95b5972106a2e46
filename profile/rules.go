package profile

import (
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"ipcbench/phase"
)

// A rule says what a function does, for samples that no label says it of. Its
// name is matched from the front and, where back is set, from the end too.
type rule struct {
	front, back string
	phase       phase.Phase
}

func (r rule) matches(name string) bool {
	return strings.HasPrefix(name, r.front) && strings.HasSuffix(name, r.back)
}

// goroutines are the outermost functions of goroutines that libraries start and
// on which no span is ever open. Their labels are those of whoever happened to
// be there when they were started, and mean nothing.
var goroutines = []rule{
	// grpc-go: one goroutine a connection writes all frames, one reads them.
	{"google.golang.org/grpc/internal/transport.(*loopyWriter).run", "", phase.Send},
	{"google.golang.org/grpc/internal/transport.(*http2Client).reader", "", phase.Read},
	{"google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams", "", phase.Read},
	// net/http's client: the same.
	{"net/http.(*persistConn).readLoop", "", phase.Read},
	{"net/http.(*persistConn).writeLoop", "", phase.Send},
	// net/http's server looks whether the client has gone while a handler works.
	{"net/http.(*connReader).backgroundRead", "", phase.Wait},
}

// calls are functions below or around our own spans. The innermost one in a stack
// counts, before those of contract. They serve goroutines of a library between two
// of our spans, and the kinds of profile that have no labels.
var calls = []rule{
	// Bytes in and out of the process, whoever asks for it.
	{"internal/poll.(*FD).Write", "", phase.Send},
	{"internal/poll.(*FD).Read", "", phase.Read},
	{"internal/poll.(*FD).Pread", "", phase.Read},
	{"internal/poll.(*FD).Pwrite", "", phase.Send},
	{"internal/poll.Splice", "", phase.Send},
	{"internal/poll.SendFile", "", phase.Send},
	{"internal/poll.writev", "", phase.Send},
	// encoding/gob and encoding/json.
	{"encoding/gob.(*Encoder).", "", phase.Encode},
	{"encoding/gob.(*Decoder).", "", phase.Decode},
	{"encoding/json.(*Encoder).", "", phase.Encode},
	{"encoding/json.(*Decoder).", "", phase.Decode},
	{"encoding/json.Marshal", "", phase.Encode},
	{"encoding/json.Unmarshal", "", phase.Decode},
	// grpc-go's server around a handler, and its client around a call.
	{"google.golang.org/grpc.encode", "", phase.Encode},
	{"google.golang.org/grpc.prepareMsg", "", phase.Encode},
	{"google.golang.org/grpc.recv", "", phase.Read}, // recv and recvAndDecompress
	{"google.golang.org/grpc.(*parser).recvMsg", "", phase.Read},
	{"google.golang.org/grpc.(*Server).sendResponse", "", phase.Send},
	{"google.golang.org/grpc/internal/transport.(*http2Server).write", "", phase.Send},
	{"google.golang.org/grpc/internal/transport.(*ServerStream).SendHeader", "", phase.Send},
	{"google.golang.org/grpc/internal/transport.(*ServerStream).WriteStatus", "", phase.Send},
	{"google.golang.org/grpc.(*Server).handleStream", "", phase.Serve}, // a request on its way to our handler, and back
	// net/http's server around a handler.
	{"net/http.(*conn).readRequest", "", phase.Read},
	{"net/http.(*response).finishRequest", "", phase.Send},
	{"net/http.(*conn).serve", "", phase.Serve},
	{"ipcbench/tensor.(*Package).Release", "", phase.Release},
	{"ipcbench/tensor.(*Average).", "", phase.Fold},
	{"ipcbench/tensor.Train", "", phase.Train},
	{"ipcbench/bench.stock.", "", phase.Train},
	{"ipcbench/bench.nested.", "", phase.Train},
	{"ipcbench/receipt.Attach", "", phase.Attach},
	{"ipcbench/receipt.Detach", "", phase.Detach},
	{"ipcbench/receipt.(*Detached).CopyTo", "", phase.Detach},
}

// contract are the calls of package transports, which the trainer times and in
// which the transport's own spans lie.
var contract = []rule{
	{"ipcbench/transports", ".Publish", phase.Publish},
	{"ipcbench/transports", ".Dispatch", phase.Dispatch},
	{"ipcbench/transports", ".Collect", phase.Collect},
	{"ipcbench/transports", ".Receive", phase.Receive},
	{"ipcbench/transports", ".Submit", phase.Submit},
	{"ipcbench/transports", "orker).Reserve", phase.ReserveUpdate}, // of a Worker
	{"ipcbench/transports", ".Reserve", phase.Reserve},
}

// rests are what a process does that is no phase of a round.
var rests = []struct {
	front, name string
}{
	{"runtime.gcBgMarkWorker", "garbage collection"},
	{"runtime.bgsweep", "garbage collection"},
	{"runtime.bgscavenge", "garbage collection"},
	{"runtime/pprof.", "profiler"},
	{"runtime/trace.", "profiler"},
	{"ipcbench/trainer.", "harness"},
	{"ipcbench/bench.", "harness"},
	{"runtime.mcall", "scheduler"},
	{"runtime.mstart", "scheduler"},
	{"runtime.park_m", "scheduler"},
	{"runtime.schedule", "scheduler"},
	{"runtime.goexit0", "scheduler"},
	{"runtime.morestack", "scheduler"},
	{"runtime.sysmon", "scheduler"},
}

const other = "other"

// betweenRounds are functions of the harness that run between the rounds of a
// profile, for kinds that have no label which says so: those that take profiles,
// read what a round has cost, and check the model that it has made.
var betweenRounds = []string{
	"runtime/pprof.", "runtime/trace.", "ipcbench/profile/capture.", "ipcbench/phase/usage.",
	"ipcbench/trainer.(*Session).Pause", "ipcbench/trainer.(*Session).Resume", "ipcbench/bench.(*blockRun).check",
}

// transportCode are the functions whose samples should have a phase: ours, and
// those that libraries run for them on goroutines of their own.
var transportCode = []string{
	"ipcbench/transports", "ipcbench/futex.", "google.golang.org/grpc", "net/http.", "encoding/gob.",
}

// notTransport are functions that may stand around such code for other purposes:
// the harness talks JSON on its control sockets.
var notTransport = []string{"ipcbench/trainer.(*control)."}

// walk calls f with the name of each function of the sample's stack, innermost
// first, until it returns false.
func walk(s *pprof.Sample, f func(name string) bool) {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil && !f(line.Function.Name) {
				return
			}
		}
	}
}

// match returns the rule for the innermost function that has one.
func match(s *pprof.Sample, rules []rule) (p phase.Phase) {
	walk(s, func(name string) bool {
		for _, r := range rules {
			if r.matches(name) {
				p = r.phase
				return false
			}
		}
		return true
	})
	return p
}

// phaseOf returns the name of the sample's phase, or nothing.
func phaseOf(s *pprof.Sample) string {
	if p := match(s, goroutines); p != phase.None {
		return p.String()
	}
	if label := s.Label[phase.LabelPhase]; len(label) > 0 {
		return label[0]
	}
	if within(s, notTransport) {
		return ""
	}
	for _, rules := range [][]rule{calls, contract} {
		if p := match(s, rules); p != phase.None {
			return p.String()
		}
	}
	return ""
}

// phasesAround returns name, which is the sample's own phase, and the phase of the
// call in which it lies, if that is another one.
func phasesAround(s *pprof.Sample, name string) []string {
	if p := match(s, contract); p != phase.None && p.String() != name {
		return []string{name, p.String()}
	}
	return []string{name}
}

// within reports whether a function of the stack begins with one of the names.
func within(s *pprof.Sample, fronts []string) (found bool) {
	walk(s, func(name string) bool {
		for _, front := range fronts {
			found = found || strings.HasPrefix(name, front)
		}
		return !found
	})
	return found
}

// ofTransport reports whether the sample should have a phase.
func ofTransport(s *pprof.Sample) bool { return within(s, transportCode) && !within(s, notTransport) }

// place returns the name under which a sample is counted: its phase, or what else
// it is.
func place(s *pprof.Sample) (name string, isPhase bool) {
	if label := s.Label[phase.LabelPhase]; len(label) > 0 {
		return label[0], true
	}
	for _, r := range rests {
		if within(s, []string{r.front}) {
			return r.name, false
		}
	}
	return other, false
}

// memmoves are the functions in which memory is copied.
var memmoves = []string{"runtime.memmove"}

// plumbing are functions that work for whoever calls them.
var plumbing = []string{
	"runtime.", "internal/", "syscall.", "golang.org/x/sys/unix.", "sync.", "sync/atomic.", "net.(*", "os.(*", "io.",
}

func isPlumbing(name string) bool {
	return slices.ContainsFunc(plumbing, func(front string) bool { return strings.HasPrefix(name, front) })
}

// functionsOf returns the functions of the sample's stack, innermost first. The
// plumbing at its inner end is one entry, with the name of its caller in it.
func functionsOf(s *pprof.Sample) []string {
	var names []string
	walk(s, func(name string) bool {
		if len(names) > 0 || name != "runtime.asyncPreempt" { // a function that is interrupted is at work
			names = append(names, name)
		}
		return true
	})
	caller := slices.IndexFunc(names, func(name string) bool { return !isPlumbing(name) })
	if caller <= 0 {
		return names
	}
	inner := names[0]
	for _, name := range names[:caller] { // syscall.Read says more than the instruction below it
		if strings.HasPrefix(name, "syscall.") {
			inner = name
		}
	}
	return append([]string{inner + calledIn + names[caller]}, names[caller:]...)
}

const calledIn = " in "
