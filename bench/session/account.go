package session

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/phase"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// account fills the block with the usage, counters and times that the processes recorded
// in the timed rounds. A missing span would make times wrong, so it is an error.
func (s *Run) account(r trainer.Report) error {
	b := s.Block
	b.Cold.Server = r.Server.Usage[trainer.Cold]
	b.Server = process(r.Server)
	b.Server.StalePeak = s.stalePeak
	lost := r.Server.Lost
	samples := r.Server.Samples
	for i, w := range r.Processes {
		var host Host
		if i < len(s.Hosts) {
			host = s.Hosts[i]
		}
		if host.OtherClock {
			w.Samples = durations(w.Samples, s.windows)
		}
		samples = append(samples, w.Samples...)
		lost += w.Lost
		if s.Spec.Inside() {
			// The workers run in this process: its usage is the server's already, but the
			// workers' counters are separate.
			for name, n := range w.Counts[trainer.Timed] {
				b.Server.Counts[name] += n
			}
			continue
		}
		p, cold := process(w), w.Usage[trainer.Cold]
		p.Host, p.OtherClock = host.Name, host.OtherClock
		// It may come from another host, and result files must stay readable.
		if err := cmp.Or(result.Check(p), result.Check(cold)); err != nil {
			name := trainer.ProcessName(i)
			if host.Name != "" {
				name += " on " + host.Name
			}
			return fmt.Errorf("%s: %w", name, err)
		}
		b.Cold.Processes = append(b.Cold.Processes, cold)
		b.Processes = append(b.Processes, p)
		if i == 0 { // all processes report the same software
			s.Software = printables(w.Software)
		}
	}
	if lost > 0 {
		return fmt.Errorf("the recorders had no room for %d spans: use fewer clients or a model with fewer tensors", lost)
	}
	return s.accountRounds(byRound(samples, s.windows))
}

// accountRounds fills the block with the times of the timed rounds, from the samples of each.
func (s *Run) accountRounds(rounds [][]phase.Sample) error {
	b := s.Block
	err := sameSpans(rounds, s.windows, uneven(b.Counts()) || s.Spec.Variant.Codec() != nil || !b.OneClock())
	if err != nil {
		return err
	}
	b.Phases = map[string]int64{}
	for i, w := range s.windows {
		b.Spans += int64(len(rounds[i]))
		b.Round = append(b.Round, w.end-w.start)
		b.Unattributed += w.end - w.start - covered(rounds[i], w)
		s.addPhases(rounds[i], w)
		if err := s.clients(rounds[i]); err != nil {
			return fmt.Errorf("round %d: %w", w.round, err)
		}
	}
	if !b.OneClock() { // values that compare the clocks of two processes mean nothing
		b.Unattributed = 0
		delete(b.Phases, phase.Receive.String()) // spans of Receive and Wait may begin before their round
		delete(b.Phases, phase.Wait.String())
	}
	return s.wire()
}

// sameSpans checks that all timed rounds have equally many spans of each phase, because
// rounds do the same work. Queue spans are not compared: a request may or may not have to
// queue. With uneven, only the phases outside transports are compared. Set it if rounds
// legitimately differ within transports: because of uneven counters, a codec, or a
// process on another clock, whose spans without a round are dropped.
func sameSpans(rounds [][]phase.Sample, windows []window, uneven bool) error {
	var want map[phase.Phase]int
	for i, samples := range rounds {
		got := map[phase.Phase]int{}
		for _, sample := range samples {
			if sample.Phase != phase.Queue && !(uneven && sample.Phase.Inside()) {
				got[sample.Phase]++
			}
		}
		if want == nil {
			want = got
		}
		for _, p := range phase.Phases() {
			if got[p] != want[p] {
				return fmt.Errorf("round %d has %d spans of %s, but round %d has %d: "+
					"work was done twice, or a span ended too late to be counted",
					windows[i].round, got[p], p, windows[0].round, want[p])
			}
		}
	}
	return nil
}

// uneven reports whether rounds may differ within transports: calls were retried, or some
// tensors came as handles and others as bodies. Whichever worker is free takes the next
// client.
func uneven(counts map[string]int64) bool {
	return counts[phase.Retries] > 0 || counts[phase.HandleTensors] > 0 && counts[phase.BodyTensors] > 0
}

// wire checks that all tensor bytes that moved were counted as sent and received. Files
// may be sent once for all lanes.
func (s *Run) wire() error {
	counts := s.Block.Counts()
	moved, sent, received := counts[phase.BodyBytes], counts[phase.WireSent], counts[phase.WireReceived]
	if received < moved || sent < moved && FileSystem(s.Spec.Variant) == "" {
		return fmt.Errorf("%d bytes of tensors moved, but only %d were counted as sent and %d as received: "+
			"the transport counts too late", moved, sent, received)
	}
	return nil
}

func process(t trainer.Totals) result.Process {
	counts := t.Counts[trainer.Timed]
	if counts == nil {
		counts = map[string]int64{}
	}
	return result.Process{Usage: t.Usage[trainer.Timed], Memory: t.Memory, Counts: counts, CPUs: t.CPUs, Import: t.Import}
}

// byRound groups samples by timed round: by the round that a sample names or, if it names
// none, by its end, because a wait may begin long before its round. Samples outside timed
// rounds are dropped.
func byRound(samples []phase.Sample, windows []window) [][]phase.Sample {
	rounds := make([][]phase.Sample, len(windows))
	for _, sample := range samples {
		var i int
		var found bool
		if sample.Round >= 0 {
			i, found = timed(windows, int(sample.Round))
		} else {
			i, _ = slices.BinarySearchFunc(windows, sample.End, func(w window, at int64) int { return cmp.Compare(w.end, at) })
			found = i < len(windows) && windows[i].start < sample.End
		}
		if found {
			rounds[i] = append(rounds[i], sample)
		}
	}
	return rounds
}

func timed(windows []window, round int) (int, bool) {
	return slices.BinarySearchFunc(windows, round, func(w window, round int) int { return w.round - round })
}

// durations returns the spans of a process whose clock is not the server's. Only their
// durations are meaningful, so each is moved to the start of the timed round that it
// names. Spans of other rounds, or of none, are dropped.
func durations(samples []phase.Sample, windows []window) (all []phase.Sample) {
	for _, sample := range samples {
		if i, found := timed(windows, int(sample.Round)); found {
			sample.Start, sample.End = windows[i].start, windows[i].start+sample.End-sample.Start
			all = append(all, sample)
		}
	}
	return all
}

// clip returns the part of the sample within the window: a worker's wait for its job may
// begin long before the round.
func clip(s phase.Sample, w window) (start, end int64) {
	start, end = max(s.Start, w.start), min(s.End, w.end)
	return start, max(start, end)
}

// covered returns how many nanoseconds of the window are within any span. It ignores
// sums, which are part of the span of another call, and sorts samples by start.
func covered(samples []phase.Sample, w window) int64 {
	slices.SortFunc(samples, func(a, b phase.Sample) int { return cmp.Compare(a.Start, b.Start) })
	var sum int64
	until := w.start
	for _, s := range samples {
		start, end := clip(s, w)
		if start = max(start, until); end > start && !s.Summed {
			sum += end - start
			until = end
		}
	}
	return sum
}

func (s *Run) addPhases(samples []phase.Sample, w window) {
	for _, sample := range samples {
		start, end := clip(sample, w)
		s.Block.Phases[sample.Phase.String()] += end - start
	}
}

// clients appends the times of each client of one round, in dispatch order.
func (s *Run) clients(samples []phase.Sample) error {
	type span struct {
		client int
		phase  phase.Phase
	}
	spans := map[span]phase.Sample{}
	for _, sample := range samples {
		spans[span{int(sample.Client), sample.Phase}] = sample
	}
	b := s.Block
	for id := range s.Roster { // a client's id is its index in the roster
		last := func(p phase.Phase) phase.Sample { return spans[span{id, p}] }
		dispatch, receive, collect := last(phase.Dispatch), last(phase.Receive), last(phase.Collect)
		reserve, train := last(phase.ReserveUpdate), last(phase.Train)
		if slices.Contains([]int64{dispatch.Start, receive.End, reserve.Start, train.End, collect.End}, 0) {
			return fmt.Errorf("the spans of client %d are incomplete", id)
		}
		b.Train = append(b.Train, train.End-train.Start)
		b.RTT = append(b.RTT, collect.End-dispatch.Start)
		if !b.OneClock() {
			continue
		}
		// Cloned virtual machines have the same boot ID, but different clocks.
		if receive.End < dispatch.Start || collect.End < train.End {
			return fmt.Errorf("client %d: data arrived before it was sent: its host's clock is not the server's, "+
				"although both have the same boot ID", id)
		}
		b.Down = append(b.Down, receive.End-dispatch.Start)
		b.Up = append(b.Up, collect.End-reserve.Start)
	}
	return nil
}

// spanCost measures the time that recording one span takes in this process, in
// nanoseconds. It is the median of a few batches, one of which may be interrupted. The
// harness's own share of a round is its number of spans times this.
func spanCost() int64 {
	const batches, n = 9, 300
	rec := phase.NewRecorder(batches * n)
	var costs []int64
	for range batches {
		start := phase.Now()
		for range n {
			rec.Begin(phase.Copy, phase.ID{}).End()
		}
		costs = append(costs, (phase.Now()-start)/n)
	}
	slices.Sort(costs)
	return costs[batches/2]
}

// printables returns a process's report of its software, made printable.
func printables(reported map[string]string) map[string]string {
	if len(reported) == 0 {
		return nil
	}
	all := map[string]string{}
	for name, version := range reported {
		all[cmp.Or(result.Printable(name), "unnamed")] = cmp.Or(result.Printable(version), "unknown")
	}
	return all
}

// FileSystem returns the type of the file system of the variant's directory setting;
// empty if it has none, or if the type is unknown.
func FileSystem(v transports.Variant) string {
	all := v.Subject.Settings()
	i := slices.IndexFunc(all, func(s driver.Setting) bool { return s.Kind == driver.Path })
	if i < 0 {
		return ""
	}
	name, _ := machine.FileSystem(cmp.Or(v.Settings[all[i].Name], os.TempDir()))
	return name
}

// Seconds returns durations in seconds, from nanoseconds.
func Seconds(ns []int64) []float64 {
	s := make([]float64, len(ns))
	for i, n := range ns {
		s[i] = time.Duration(n).Seconds()
	}
	return s
}

// A timeline holds the first timelineRounds rounds; fewer, but at least one, if they have
// more than timelineSpans spans.
const (
	timelineRounds = 3
	timelineSpans  = 6000
)

// Timeline returns the spans of the first timed rounds, except sums: of all processes or, if one of
// them reads another clock, of the server alone. It may be called after [Run.Do].
func (s *Run) Timeline() *result.Timeline {
	windows := s.windows[:min(timelineRounds, len(s.windows))]
	t := &result.Timeline{Processes: []string{phase.ServerProcess}}
	spans := [][][]phase.Sample{byRound(s.Report.Server.Samples, windows)} // by process and round
	if s.Block.OneClock() {
		for i, w := range s.Report.Processes {
			t.Processes = append(t.Processes, trainer.ProcessName(i))
			spans = append(spans, byRound(w.Samples, windows))
		}
	}
	for i, w := range windows {
		n := len(t.Start)
		for _, rounds := range spans {
			n += len(rounds[i])
		}
		if i > 0 && n > timelineSpans {
			break
		}
		for process, rounds := range spans {
			for _, sample := range rounds[i] {
				if sample.Summed {
					continue // a sum has no start and end
				}
				start, end := clip(sample, w)
				t.Process = append(t.Process, process)
				t.Lane = append(t.Lane, int(sample.Lane))
				t.Client = append(t.Client, int(sample.Client))
				t.Phase = append(t.Phase, sample.Phase.String())
				t.Start = append(t.Start, start-windows[0].start)
				t.End = append(t.End, end-windows[0].start)
			}
		}
		t.Rounds = append(t.Rounds, w.round)
		t.RoundStart = append(t.RoundStart, w.start-windows[0].start)
		t.RoundEnd = append(t.RoundEnd, w.end-windows[0].start)
	}
	return t
}
