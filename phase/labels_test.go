package phase

import (
	"bytes"
	"context"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

// current returns the profiler labels of the calling goroutine: process, phase and window.
func current() string {
	// A goroutine's labels cannot be read, but its children inherit them, and a goroutine profile shows these.
	var wg sync.WaitGroup
	park, parked := make(chan struct{}), make(chan struct{})
	wg.Go(func() { parkHere(parked, park) })
	<-parked
	defer wg.Wait()
	defer close(park)
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 0); err != nil {
		return err.Error()
	}
	p, err := profile.Parse(&b)
	if err != nil {
		return err.Error()
	}
	for _, s := range p.Sample {
		for _, l := range s.Location {
			if slices.ContainsFunc(l.Line, func(l profile.Line) bool { return strings.HasSuffix(l.Function.Name, "phase.parkHere") }) {
				return strings.Join(slices.Concat(s.Label[LabelProcess], s.Label[LabelPhase], s.Label[LabelWindow]), " ")
			}
		}
	}
	return "not found"
}

func parkHere(parked chan<- struct{}, until <-chan struct{}) {
	close(parked)
	<-until
}

// TestLabelsNest: the innermost open span labels its own goroutine only. A span that was never ended ends with the one
// around it.
func TestLabelsNest(t *testing.T) {
	r := NewRecorder(100)
	r.Label("pickle", "cnn", "worker-1")
	want := func(when, label string) {
		t.Helper()
		check.Equal(t, current(), label, when)
	}
	want("before", "")
	submit := r.Begin(Submit, ID{})
	want("in a span", "worker-1 submit")
	encode := r.Begin(Encode, ID{})
	send := r.Begin(Send, ID{})
	want("three deep", "worker-1 send")
	done := make(chan struct{})
	go func() { // like a library's handler that runs at the same time for the same lane
		defer close(done)
		read := r.Begin(Read, ID{})
		want("elsewhere", "worker-1 read")
		read.End()
		want("elsewhere, after its span", "worker-1 send") // inherited
	}()
	<-done
	send.EndAs(ID{Lane: 3})
	want("two deep", "worker-1 encode")
	mark := r.Mark(Read)
	want("in a mark", "worker-1 read")
	mark.End()
	encode.End()
	want("one deep", "worker-1 submit")
	r.Begin(Wait, ID{}) // a call that failed
	submit.End()
	want("after", "")
	outside := r.Outside()
	want("outside", "worker-1 outside")
	outside.End()
	want("after that", "")
	check.Equal(t, r.Len(), 4, "samples, without the mark")
}

// TestLabelsKeepOthers: after a span, labels that the program had set are restored.
func TestLabelsKeepOthers(t *testing.T) {
	r := NewRecorder(1)
	r.Label("pickle", "cnn", "server")
	pprof.Do(context.Background(), pprof.Labels(LabelPhase, "mine"), func(context.Context) {
		r.Begin(Fold, ID{}).End()
		check.Equal(t, current(), "mine")
	})
}

// TestProfileShowsPhases: CPU time that is used in a span is labelled with the span's phase.
func TestProfileShowsPhases(t *testing.T) {
	r := NewRecorder(1)
	r.Label("shm-slab", "histology", "server")
	x := 1.0
	waiting.Until(t, "a sample with the phase's labels", func() bool {
		var b bytes.Buffer
		if err := pprof.StartCPUProfile(&b); err != nil {
			t.Skip(err) // go test -cpuprofile is taking one
		}
		span := r.Begin(Decode, ID{})
		for range 50_000_000 {
			x = x*1.0000001 + 1
		}
		span.End()
		pprof.StopCPUProfile()
		p := check.Value(profile.Parse(&b))(t)
		return slices.ContainsFunc(p.Sample, func(s *profile.Sample) bool {
			return s.HasLabel(LabelPhase, "decode") && s.HasLabel(LabelTransport, "shm-slab") && s.HasLabel(LabelModel, "histology") && s.HasLabel(LabelProcess, "server")
		})
	})
	runtime.KeepAlive(x)
}

func BenchmarkLabelledSpan(b *testing.B) {
	r := NewRecorder(0)
	r.Label("pickle", "cnn", "server")
	b.ReportAllocs()
	for b.Loop() {
		r.Begin(Copy, ID{}).End()
	}
}
