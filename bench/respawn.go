package bench

import (
	"context"
	"errors"
	"fmt"

	"ipcbench/phase"
	"ipcbench/phase/usage"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// respawns reports whether every round of the cell has fresh workers. Where
// workers are goroutines there is nothing to start: the control stays what it
// is, and overhead shows the starts too.
func (s Spec) respawns() bool { return s.Respawn && !s.inside() }

// fresh is what a session with fresh workers for every round keeps between two
// rounds.
type fresh struct {
	spare  *tensor.Package // where the next model is folded; the server's own memory, as the current one is
	spawns []int64         // of the timed rounds, ns
}

// room returns how many spans a round can leave in one process. Memory for more
// would be touched in every round, and cost more than what is measured.
func (s *blockRun) room() int {
	perClient := samplesPerJob + 2*s.cell.tensors() // a transport may time every tensor's own call
	return min(s.plan.Samples, 256+perClient*s.cell.Clients)
}

// respawned runs one round with workers of its own: the round begins when they
// are started and ends when they are gone.
func (s *blockRun) respawned(ctx context.Context, n int, timed bool, prove prover) (window, error) {
	cfg := s.config
	cfg.Window, cfg.Samples = s.open, s.room()
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
	started := phase.Now()
	if n == 0 {
		s.block.TLS = handshakes(s.session)
	}
	err = s.present(ctx, n)
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
		phase.Timed(phase.Spawn, phase.Whole(n), w.start, started),
		phase.Timed(phase.Stop, phase.Whole(n), ending, w.end))
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
	s.add(report)
	return w, nil
}

// present gives the workers of this round the current model.
func (s *blockRun) present(ctx context.Context, n int) error {
	model, err := s.session.Reserve(n)
	if err != nil {
		return err
	}
	model.CopyFrom(s.model)
	if err := s.detach(n, model); err != nil {
		return err
	}
	s.trained, err = s.session.Publish(ctx, n, model)
	return err
}

// chargeEnds adds what the processes have cost after they had reported: that much
// more the kernel knows of them, all together. The first one is charged.
func chargeEnds(processes []trainer.Totals, w trainer.Window, whole usage.Usage) {
	if len(processes) == 0 {
		return
	}
	for _, t := range processes {
		whole = whole.Since(t.Usage[w])
	}
	first, rest := processes[0].Usage[w], whole.Kernel()
	for i, n := range first.Kernel() {
		*n += max(0, *rest[i]) // the split of CPU time is sampled, and may shift
	}
	processes[0].Usage[w] = first
}

// add adds the report of another round's processes to those that had the same place
// before them.
func (s *blockRun) add(r trainer.Report) {
	for len(s.report.Processes) < len(r.Processes) {
		s.report.Processes = append(s.report.Processes, trainer.Totals{})
	}
	addTotals(&s.report.Server, r.Server)
	for i, t := range r.Processes {
		addTotals(&s.report.Processes[i], t)
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
