package drivertest

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// A Lane is a lane whose worker is in Python. All lanes of a test share one process,
// because an interpreter starts slowly.
type Lane struct {
	Variant transports.Variant
	At      *endpoint.Endpoint
	Number  int
	Options driver.Options

	Pings bool // makes an empty call
}

// MarshalJSON writes the part of the session that a worker process knows of its lane.
func (l Lane) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"transport": l.Variant.Subject.Name(), "settings": l.Variant.Settings, "lane": l.Number,
		"address": l.At.Addr(), "secret": l.At.Secret(), "down": l.Options.Down.Specs(), "up": l.Options.Up.Specs(),
		"pings": l.Pings,
	})
}

// An Outcome is the result of a lane: its error, counters and spans.
type Outcome struct {
	Error  string           `json:"error"`
	Counts map[string]int64 `json:"counts"`
	Spans  map[string]int   `json:"spans"` // by phase
}

//go:embed testdata/lanes.py
var hosting []byte

// Lanes hosts lanes in Python, with the stock worker function. It returns when all have
// connected or failed; wait waits for their end.
func Lanes(t *testing.T, lanes []Lane) (wait func() []Outcome) {
	t.Helper()
	var names []string
	for _, l := range lanes {
		names = append(names, l.Variant.Subject.Name())
	}
	path, args := program(t, hosting, names...)
	text := check.Value(json.Marshal(lanes))(t)
	var stderr bytes.Buffer
	c := exec.CommandContext(waiting.Context(t), path, args...)
	c.Stdin, c.Stderr = bytes.NewReader(text), &stderr
	pipe := check.Value(c.StdoutPipe())(t)
	check.Must(t, c.Start())
	stdout := bufio.NewReader(pipe)
	_, dialled := stdout.ReadString('\n')
	return func() (all []Outcome) {
		t.Helper()
		err := errors.Join(dialled, json.NewDecoder(stdout).Decode(&all))
		err = errors.Join(err, c.Wait())
		check.Need(t, err == nil, "lanes in Python: %v\n%s", err, stderr.Bytes())
		return all
	}
}

// RunLanes runs the same rounds with workers in Python and with workers in Go, in sessions
// of each variant. It compares the counters and spans of the workers, and the counters of
// the servers. Counters with a prefix in but are ignored.
func RunLanes(t *testing.T, all []driver.Transport, variants, but []string) {
	down := everything(t)
	up := Layout(t, append([]tensor.Spec{{Name: "first", DType: tensor.U8, Shape: []int{77}}}, down.Specs()...)...)
	var lanes []Lane
	var inPython, inGo []*Session
	for i, name := range variants {
		v := Parse(t, name, all...)
		o := driver.Options{Down: down, Up: down, Lanes: 2}
		if i%2 > 0 {
			o.Up = up
		}
		for _, to := range []*[]*Session{&inPython, &inGo} {
			o.Rec = phase.NewRecorder(1 << 16)
			*to = append(*to, Listen(t, v, o))
		}
		for n := range o.Lanes {
			lanes = append(lanes, Lane{Variant: v, At: inPython[i].Endpoint, Number: n, Options: o, Pings: true})
		}
	}
	wait := Lanes(t, lanes)
	for _, s := range inPython {
		s.rounds()
	}
	got := wait()
	for i, s := range inGo {
		want := s.inGo()
		for n := range want {
			g, w := got[i*len(want)+n], want[n]
			g.Counts, w.Counts = without(g.Counts, but), without(w.Counts, but)
			check.That(t, g.Error == "" && maps.Equal(g.Counts, w.Counts) && maps.Equal(g.Spans, w.Spans),
				"%s: lane %d: got\n%+v, want\n%+v", variants[i], n, g, w)
		}
		g, w := without(inPython[i].Options.Rec.Counts(), but), without(s.Options.Rec.Counts(), but)
		check.That(t, maps.Equal(g, w),
			"%s: the server of workers in Python has counted\n%v, and that of workers in Go\n%v", variants[i], g, w)
	}
}

// everything returns a layout with tensors of all types and shapes, and of sizes around the
// limits of chunks and frames.
func everything(t *testing.T) *tensor.Layout {
	var specs []tensor.Spec
	for _, d := range tensor.DTypes() {
		for _, s := range layouts(t)["dtype="+d.String()].Specs() {
			s.Name = d.String() + " " + s.Name
			specs = append(specs, s)
		}
	}
	for _, n := range []int{4095, 4096, 16385, 65536, 65537} {
		specs = append(specs, tensor.Spec{Name: fmt.Sprint(n), DType: tensor.U8, Shape: []int{n}})
	}
	return Layout(t, specs...)
}

// without removes counters that are 0 or have a prefix in but, and returns counts.
func without(counts map[string]int64, but []string) map[string]int64 {
	maps.DeleteFunc(counts, func(name string, n int64) bool {
		for _, prefix := range but {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return n == 0
	})
	return counts
}

// rounds runs two rounds on every lane, in each the same client twice and then another one,
// and ends the session.
func (s *Session) rounds() {
	s.T.Helper()
	ctx := waiting.Context(s.T)
	for round := range 2 {
		model := s.Publish(uint64(round))
		for _, client := range []int{0, 0, 2} {
			for lane := range s.Options.Lanes {
				j := driver.Job{Round: round, Client: client + lane, Weight: 1.5, Device: "cpu", Config: []byte("{}"), Timed: true}
				check.Must(s.T, s.Server.Dispatch(ctx, lane, j))
				p := check.Value(s.Server.Collect(ctx, lane))(s.T)
				check.Must(s.T, tensor.Prove(p, model, Key(j)))
				got, want := string(p.Receipt), receiptOf(j, "model")
				check.That(s.T, got == want, "%s: got receipt %q, want %q", s.Variant, got, want)
				p.Release()
			}
		}
	}
	check.Must(s.T, s.Server.Shutdown(ctx))
}

// receiptOf returns the receipt that a lane in Python gives the update of a job.
func receiptOf(j driver.Job, model string) string {
	return fmt.Sprintf("Job(round=%d, client=%d, weight=%v, device='%s', config=b'%s', timed=True) got b'%s'",
		j.Round, j.Client, j.Weight, j.Device, j.Config, model)
}

// inGo runs the same rounds with workers in this process.
func (s *Session) inGo() []Outcome {
	s.T.Helper()
	outcomes := make([]Outcome, s.Options.Lanes)
	done := make(chan error)
	for n := range outcomes {
		w := s.Dial(n)
		go func() {
			err := w.Ping(s.T.Context())
			err = errors.Join(err, Serve(s.T.Context(), w.Worker, func(j driver.Job, model, update *tensor.Package) error {
				update.Receipt = append(update.Receipt[:0], receiptOf(j, string(model.Receipt))...)
				return tensor.Train(update, model, Key(j))
			}))
			samples, _ := w.Rec.Drain()
			outcomes[n] = Outcome{Counts: w.Rec.Counts(), Spans: map[string]int{}}
			for _, sample := range samples {
				if sample.Phase.Inside() { // the other phases are recorded by the lane's caller
					outcomes[n].Spans[sample.Phase.String()]++
				}
			}
			done <- err
		}()
	}
	s.rounds()
	for range outcomes {
		check.Must(s.T, <-done)
	}
	return outcomes
}
