package trainer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ipcbench/internal/frame"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/phase/usage"
)

// reporting returns a session that waits for the report of a process with lanes 2 and 3. It
// also returns the process and its end of the control socket.
func reporting(t *testing.T, cfg Config) (*Session, *sessionProcess, net.Conn) {
	t.Helper()
	ours, theirs := socketpair(t)
	p := &Session{cfg: cfg}
	p.failed, p.fail = context.WithCancelCause(context.Background())
	exited := make(chan struct{})
	w := &sessionProcess{
		Process: &inside{exited: exited}, n: 1, lanes: []*sessionLane{{n: 2}, {n: 3}},
		control: &control{conn: ours, timeout: sendTimeout, limit: shortMessage, met: true},
		gone:    make(chan struct{}), answers: make(chan message, 4), expected: map[string]bool{"report": true},
	}
	w.control.report.Store(cfg.reportSize())
	p.readers.Go(func() { p.listen(w) })
	t.Cleanup(func() {
		_ = ours.Close()
		close(exited)
		p.readers.Wait()
	})
	return p, w, theirs
}

// TestHostileReports: an invalid report fails the session with an error that names the
// process.
func TestHostileReports(t *testing.T) {
	const train = uint16(phase.Train - 1) // index of the phase in a report
	samples := func(change func(c *columns)) []string {
		c := newColumns(make([]phase.Sample, 3))
		for i := range c.Phase {
			c.Phase[i], c.Lane[i] = train, 2
		}
		change(&c)
		return []string{jsonOf(t, message{Report: &report{Samples: c}})}
	}
	good := samples(func(*columns) {})[0]
	reports := func(text string) []string { return []string{`{"report":` + text + "}"} }
	edited := func(from, to string) []string { return []string{strings.Replace(good, from, to, 1)} }
	for name, c := range map[string]struct {
		frames []string
		want   string
	}{
		"unequal columns":  {samples(func(c *columns) { c.End = c.End[:2] }), "columns of 3 and 2 samples"},
		"too many":         {samples(func(c *columns) { *c = newColumns(make([]phase.Sample, 11)) }), "columns of 11 and 11 samples: must be equally long, and at most 10"},
		"an unknown phase": {samples(func(c *columns) { c.Phases[train] = "loaf" }), "sample {"},
		"no such phase":    {samples(func(c *columns) { c.Phase[2] = 99 }), "sample {"},
		"a negative phase": {edited(fmt.Sprintf(`"phase":[%d`, train), `"phase":[-6`), "cannot unmarshal number -6"},
		"the server's":     {samples(func(c *columns) { c.Phase[2], c.Lane[2] = uint16(phase.Dispatch-1), -1 }), "Phase:dispatch"},
		"another's lane":   {samples(func(c *columns) { c.Lane[2] = 4 }), "Lane:4"},
		"a negative lane":  {samples(func(c *columns) { c.Lane[2] = -2 }), "Lane:-2"},
		"a negative round": {samples(func(c *columns) { c.Round[0] = -2 }), "Round:-2"},
		"a client":         {samples(func(c *columns) { c.Client[0] = -7 }), "Client:-7"},
		"the end first":    {samples(func(c *columns) { c.Start[0] = 1 }), "Start:1 End:0"},
		"before the start": {samples(func(c *columns) { c.Start[0] = -1 }), "Start:-1"},
		"a large number":   {edited(`"start_ns":[0`, `"start_ns":[1e400`), "cannot unmarshal number"},
		"a fraction":       {edited(`"start_ns":[0`, `"start_ns":[0.5`), "cannot unmarshal number"},
		"no profile":       {reports(`{"profiles":[{"kind":"trace","data":"AAAA"}]}`), `a profile of kind "trace"`},
		"no base64":        {reports(`{"profiles":[{"kind":"cpu","data":"!"}]}`), "illegal base64"},
		"a window":         {reports(`{"usage":{"sometimes":{}}}`), `no window "sometimes"`},
		"counts elsewhere": {reports(`{"counts":{"warm":{}}}`), `no window "warm"`},
		"lost":             {reports(`{"lost":-1}`), "-1 lost samples"},
		"twice":            {[]string{`{"report":{}}`, `{"report":{}}`}, "unrequested report"},
		"a long one":       {[]string{good[:len(good)-1] + strings.Repeat(" ", 3<<20) + "}"}, "must have at most 1049856"},
		"long news":        {[]string{`{"news":{}` + strings.Repeat(" ", shortMessage) + "}"}, "news of 524299 bytes: must be at most 524288"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Samples: 10}
			if strings.Contains(name, "profile") || strings.Contains(name, "base64") {
				cfg.Profiling = &Profiling{Kinds: []string{"cpu"}}
			}
			p, _, theirs := reporting(t, cfg)
			go writes(framed(c.frames...), 1)(theirs)
			waiting.Receive(t, "the end of a session", p.failed.Done())
			check.Fails(t, context.Cause(p.failed), "process 1 sent an invalid message: ")
			check.Fails(t, context.Cause(p.failed), c.want)
		})
	}
}

// fullReport returns totals with the given number of samples and a value in every field.
func fullReport(samples int) Totals {
	random := rand.New(rand.NewPCG(1, 2))
	t := Totals{
		Lost: 3, Usage: map[Window]usage.Usage{Cold: {User: 5, Queue: &usage.Queue{}}, Timed: {System: 6}},
		Counts: map[Window]map[string]int64{Timed: {phase.WireSent: 7}}, Memory: usage.Memory{RSS: 8}, CPUs: []int{0, 1},
	}
	phases := slices.DeleteFunc(phase.Phases(), func(p phase.Phase) bool { return !p.Worker() && !p.Inside() })
	now := phase.Now()
	for i := range samples {
		now += random.Int64N(100_000)
		t.Samples = append(t.Samples, phase.Sample{
			Start: now, End: now + random.Int64N(1_000_000), Round: int32(i/100) - 1, Client: int32(i%100) - 1,
			Lane: int16(2 + i%2), Phase: phases[i%len(phases)],
		})
	}
	return t
}

// TestLateReport: the limit of a report is the one in force when it arrives, even if the
// server began to wait under a lower one.
func TestLateReport(t *testing.T) {
	ours, theirs := net.Pipe()
	c := &control{conn: ours, limit: shortMessage, met: true}
	got := make(chan error, 1)
	go func() {
		_, err := c.receive()
		got <- errors.Join(err, ours.Close())
	}()
	var frames bytes.Buffer
	long := message{Report: &report{Profiles: []phase.Piece{{Kind: "trace", Data: make([]byte, shortMessage)}}}}
	check.Must(t, frame.Write(&frames, long, longMessage))
	_, _ = theirs.Write(frames.Next(1))
	c.report.Store(longMessage)
	_, _ = theirs.Write(frames.Bytes())
	check.OK(t, <-got)
}

// TestReport: a report arrives as it was sent, whatever its length.
func TestReport(t *testing.T) {
	sent := fullReport(20_000)
	full := phase.Timed(phase.Send, phase.ID{Lane: 2, Round: 3, Client: 4}, 5, 6)
	full.Summed = true
	for i := range reflect.TypeOf(full).NumField() {
		check.That(t, !reflect.ValueOf(full).Field(i).IsZero(), "%s is not tried", reflect.TypeOf(full).Field(i).Name)
	}
	sent.Samples = append(sent.Samples, full)
	long := bytes.Repeat([]byte("profile "), 100_000)
	sent.Profiles = []phase.Piece{
		{Kind: "cpu", Data: long}, {Kind: "allocs", Data: long[:5], Before: long[3:]}, {Kind: "cpu", Data: long[:9]},
	}
	p, w, theirs := reporting(t, Config{Samples: len(sent.Samples), Profiling: &Profiling{Kinds: []string{"cpu", "allocs"}}})
	check.Must(t, (&control{conn: theirs, timeout: sendTimeout}).send(message{Report: newReport(sent)}))
	waiting.Do(t, "a report", func() {
		select {
		case m := <-w.answers:
			check.That(t, reflect.DeepEqual(m.Report.Totals, sent), "the report is another one")
		case <-p.failed.Done():
			t.Fatal(context.Cause(p.failed))
		}
	})
}
