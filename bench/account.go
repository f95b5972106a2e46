package bench

import (
	"cmp"
	"fmt"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/phase"
	"ipcbench/trainer"
)

// account fills the block with what the processes recorded in the timed rounds.
// A round with a missing span would give wrong times, so it is an error.
func (s *blockRun) account(r trainer.Report) error {
	b := s.block
	b.Cold.Server = r.Server.Usage[trainer.Cold]
	b.Server = process(r.Server)
	b.Server.StalePeak = s.stalePeak
	lost := r.Server.Lost
	samples := r.Server.Samples
	for i, w := range r.Processes {
		var host seat // of the server
		if i < len(s.hosts) && s.hosts[i].name != ServerHost {
			host = s.hosts[i]
		}
		if host.otherClock {
			w.Samples = durations(w.Samples, s.windows)
		}
		samples = append(samples, w.Samples...)
		lost += w.Lost
		if s.cell.inside() {
			// The workers are in this process, whose usage is the server's; what it
			// counted is its own.
			for name, n := range w.Counts[trainer.Timed] {
				b.Server.Counts[name] += n
			}
			continue
		}
		p, cold := process(w), w.Usage[trainer.Cold]
		p.Host, p.OtherClock = host.name, host.otherClock
		if err := cmp.Or(result.Check(p), result.Check(cold)); err != nil { // it may be another host's, and the result has to be readable
			name := trainer.ProcessName(i)
			if host.name != "" {
				name += " on " + host.name
			}
			return fmt.Errorf("%s: %w", name, err)
		}
		b.Cold.Processes = append(b.Cold.Processes, cold)
		b.Processes = append(b.Processes, p)
		if i == 0 { // the same in all of them
			s.software = printables(w.Software)
		}
	}
	if lost > 0 {
		return fmt.Errorf("%d spans had no room in the recorders: choose fewer clients, or a model of fewer tensors", lost)
	}
	rounds := byRound(samples, s.windows)
	err := sameSpans(rounds, s.windows, uneven(b.Counts()) || s.cell.Variant.Codec() != nil || !b.OneClock())
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
	b.DropTwoClocks()
	return s.wire()
}

// sameSpans checks that every timed round has as many spans of each phase as the
// first one: rounds differ in nothing but how long they take. A request may or may
// not have to queue. If they are uneven, a codec makes more bytes in one round than in
// another, or spans that name no round count nowhere, only the phases outside of
// transports are the same.
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
				return fmt.Errorf("round %d has %d spans of %s, round %d has %d: something was done twice, or its end came too late to be counted",
					windows[i].round, got[p], p, windows[0].round, want[p])
			}
		}
	}
	return nil
}

// uneven reports whether rounds may differ in what transports did: calls were retried, or
// some workers got handles and others bodies. Whoever is free takes the next client.
func uneven(counts map[string]int64) bool {
	return counts[phase.Retries] > 0 || counts[phase.HandleTensors] > 0 && counts[phase.BodyTensors] > 0
}

// wire checks that the tensors which moved as bytes were counted on their way. A
// file is written once and read by every lane.
func (s *blockRun) wire() error {
	counts := s.block.Counts()
	moved, sent, received := counts[phase.BodyBytes], counts[phase.WireSent], counts[phase.WireReceived]
	if received < moved || sent < moved && fileSystem(s.cell.Variant) == "" {
		return fmt.Errorf("%d bytes of tensors moved, and only %d bytes were counted as sent and %d as received: the transport counts too late",
			moved, sent, received)
	}
	return nil
}

func process(t trainer.Totals) Process {
	counts := t.Counts[trainer.Timed]
	if counts == nil {
		counts = map[string]int64{}
	}
	return Process{Usage: t.Usage[trainer.Timed], Memory: t.Memory, Counts: counts, CPUs: t.CPUs, Import: t.Import}
}

// byRound sorts samples to the timed rounds: by the round that they name, or,
// where they name none, by when they ended, as a wait may begin long before its
// round. The others are left out.
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

// timed returns the index of a timed round, and whether it is one.
func timed(windows []window, round int) (int, bool) {
	return slices.BinarySearchFunc(windows, round, func(w window, round int) int { return w.round - round })
}

// durations returns the spans of a process whose clock is not the server's. Nothing but
// how long each took counts, so they are moved to the start of the timed round that they
// name. A span that names no round counts nowhere.
func durations(samples []phase.Sample, windows []window) (all []phase.Sample) {
	for _, sample := range samples {
		if i, found := timed(windows, int(sample.Round)); found {
			sample.Start, sample.End = windows[i].start, windows[i].start+sample.End-sample.Start
			all = append(all, sample)
		}
	}
	return all
}

// clip returns the part of the sample that lies in the window: a worker's wait
// for its job may begin long before the round.
func clip(s phase.Sample, w window) (start, end int64) {
	start, end = max(s.Start, w.start), min(s.End, w.end)
	return start, max(start, end)
}

// covered returns how much of the window lies in any span. A sum of laps covers
// nothing: it lies in the span of the call that made it.
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

// addPhases adds the phases of a timed round.
func (s *blockRun) addPhases(samples []phase.Sample, w window) {
	for _, sample := range samples {
		start, end := clip(sample, w)
		s.block.Phases[sample.Phase.String()] += end - start
	}
}

// clients adds the times of each client of one round, in dispatch order.
func (s *blockRun) clients(samples []phase.Sample) error {
	type span struct {
		client int
		of     phase.Phase
	}
	spans := map[span]phase.Sample{}
	for _, sample := range samples {
		spans[span{int(sample.Client), sample.Phase}] = sample
	}
	b := s.block
	for id := range s.roster { // a client's id is its index
		of := func(p phase.Phase) phase.Sample { return spans[span{id, p}] }
		dispatch, receive, reserve, train, collect := of(phase.Dispatch), of(phase.Receive), of(phase.ReserveUpdate), of(phase.Train), of(phase.Collect)
		if slices.Contains([]int64{dispatch.Start, receive.End, reserve.Start, train.End, collect.End}, 0) {
			return fmt.Errorf("the spans of client %d are incomplete", id)
		}
		b.Train = append(b.Train, train.End-train.Start)
		b.RTT = append(b.RTT, collect.End-dispatch.Start)
		if b.OneClock() && (receive.End < dispatch.Start || collect.End < train.End) { // clones of a virtual machine say the same of their clocks
			return fmt.Errorf("client %d had something before it was sent: its host's clock is not the server's, although both have one boot id", id)
		}
		b.Down = append(b.Down, receive.End-dispatch.Start)
		b.Up = append(b.Up, collect.End-reserve.Start)
	}
	return nil
}
