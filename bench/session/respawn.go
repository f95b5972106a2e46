package session

import (
	"context"
	"errors"
	"fmt"

	"ipcbench/phase"
	"ipcbench/phase/usage"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// fresh is the state between two rounds of a block with fresh workers.
type fresh struct {
	spare  *tensor.Package // memory for the next model; owned by the server, as the current model is
	spawns []int64         // start times of the timed rounds, ns
}

// spansPerRound returns the number of spans that a round can record in one process. A
// larger recorder would be touched anew in every round, and cost more than the measured
// work.
func (s *Run) spansPerRound() int {
	perClient := samplesPerJob + 2*s.Spec.tensors() // a transport may time a call for each tensor
	return min(s.Plan.Samples, 256+perClient*s.Spec.Clients)
}

// respawned runs one round with fresh workers. The round begins before they start and
// ends when they have exited.
func (s *Run) respawned(ctx context.Context, n int, timed bool, prove prover) (window, error) {
	cfg := s.config
	cfg.Window, cfg.Samples = s.open, s.spansPerRound()
	mine, err := usage.Read()
	if err != nil {
		return window{}, err
	}
	children, err := usage.Children()
	if err != nil {
		return window{}, err
	}

	w := window{round: n, start: phase.Now()}
	if s.session, err = trainer.Open(ctx, cfg); err != nil {
		return w, fmt.Errorf("round %d: %w", n, err)
	}
	started, copied := phase.Now(), int64(0)
	if n == 0 {
		s.Block.TLS = handshakes(s.session)
	}
	model, err := s.session.Reserve(n)
	reserved := phase.Now()
	if err == nil {
		model.CopyFrom(s.model) // recorded as publish, since a server of one round would also have to write it
		copied = phase.Now()
		err = s.publish(ctx, n, model, prove != nil)
	}
	if err == nil {
		err = s.exchange(ctx, n, timed, s.fresh.spare, prove)
	}
	ending := phase.Now()
	report, closeErr := s.session.Close()
	w.end = phase.Now()
	s.session = nil
	if err = errors.Join(err, closeErr); err != nil {
		return w, err
	}
	s.model, s.fresh.spare = s.fresh.spare, s.model

	if s.open == trainer.Outside {
		return w, nil
	}
	if timed {
		s.fresh.spawns = append(s.fresh.spawns, started-w.start)
	}
	report.Server.Samples = append(report.Server.Samples,
		phase.Timed(phase.Spawn, phase.OfRound(n), w.start, started),
		phase.Timed(phase.Publish, phase.OfRound(n), reserved, copied),
		phase.Timed(phase.Stop, phase.OfRound(n), ending, w.end))
	now, err := usage.Read()
	if err != nil {
		return w, err
	}
	report.Server.Usage[s.open] = now.Since(mine)
	dead, err := usage.Children()
	if err != nil {
		return w, err
	}
	chargeEnds(report.Processes, s.open, dead.Since(children))
	s.addReport(report)
	return w, nil
}

// chargeEnds charges the first process with usage after the processes' reports. That is
// the total that the kernel has for all of them, minus the usage that they reported.
func chargeEnds(processes []trainer.Totals, w trainer.Window, total usage.Usage) {
	if len(processes) == 0 {
		return
	}
	for _, t := range processes {
		total = total.Since(t.Usage[w])
	}
	first, rest := processes[0].Usage[w], total.Kernel()
	for i, n := range first.Kernel() {
		*n += max(0, *rest[i]) // CPU time is divided by sampling, so differences may be negative
	}
	processes[0].Usage[w] = first
}

// addReport adds the totals of another round's processes, by their number.
func (s *Run) addReport(r trainer.Report) {
	for len(s.Report.Processes) < len(r.Processes) {
		s.Report.Processes = append(s.Report.Processes, trainer.Totals{})
	}
	addTotals(&s.Report.Server, r.Server)
	for i, t := range r.Processes {
		addTotals(&s.Report.Processes[i], t)
	}
}

func addTotals(sum *trainer.Totals, t trainer.Totals) {
	if sum.Usage == nil {
		sum.Usage, sum.Counts = map[trainer.Window]usage.Usage{}, map[trainer.Window]map[string]int64{}
	}
	for w, u := range t.Usage {
		sum.Usage[w] = sum.Usage[w].Add(u)
	}
	for w, counts := range t.Counts {
		if sum.Counts[w] == nil {
			sum.Counts[w] = map[string]int64{}
		}
		for name, n := range counts {
			sum.Counts[w][name] += n
		}
	}
	sum.Samples = append(sum.Samples, t.Samples...)
	sum.Lost += t.Lost
	t.Memory.Peak = max(t.Memory.Peak, sum.Memory.Peak)
	sum.Memory, sum.CPUs = t.Memory, t.CPUs
}
