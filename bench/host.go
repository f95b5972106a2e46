package bench

import (
	"context"
	"time"

	"ipcbench/internal/link"
	"ipcbench/phase/usage"
	"ipcbench/trainer"
)

// host runs sessions with this process as their server.
type host struct {
	plan       Plan
	network    trainer.Config // where and how servers listen over TCP; only the listening fields are set
	hosts      *Hosts         // hosts of workers; nil means this host
	python     Python
	cpus       []int // processors that this process may use
	goroutines trainer.Launcher
}

func newHost(p Plan, h trainer.Host) (*host, error) {
	cpus, err := usage.Affinity()
	if err != nil {
		return nil, err
	}
	link.Processors = cpus[p.ServerCPUs:]
	return &host{plan: p, cpus: cpus, goroutines: trainer.NewGoroutines(h)}, nil
}

// launcher returns the launcher of the workers of s. Without agents, it pins worker
// process n to the processors cpus[n], if given.
func (h *host) launcher(s Spec, cpus ...[]int) trainer.Launcher {
	switch {
	case s.inside():
		return h.goroutines
	case h.hosts != nil:
		return h.hosts.launcher(s)
	case s.Language == InPython:
		return h.python.launcher(s.Train != "", cpus...)
	}
	return trainer.NewProcesses(cpus...)
}

// run runs s, pinned and verified if the plan pins processes.
func (h *host) run(ctx, quit context.Context, s *blockRun) error {
	s.config, s.hosts = h.network, h.hosts.of(s.cell)
	p := h.place(s.cell.processes())
	if p.server == nil || s.cell.inside() { // the control's only process needs the processors of all
		return s.run(ctx, quit, h.launcher(s.cell))
	}
	return p.pinned(func() error {
		if err := s.run(ctx, quit, h.launcher(s.cell, p.workers...)); err != nil || len(s.windows) == 0 {
			return err
		}
		return p.verify(s.block)
	})
}

// grace is how long an interrupted run waits for the current round before it aborts the
// round.
const grace = 2 * time.Second

// bounded returns a context that ends grace after quit does, so that the current round
// may finish.
func bounded(quit context.Context, grace time.Duration) (now context.Context, cancel func()) {
	now, end := context.WithCancelCause(context.WithoutCancel(quit))
	stop := context.AfterFunc(quit, func() {
		time.AfterFunc(grace, func() { end(context.Cause(quit)) })
	})
	return now, func() {
		stop()
		end(nil)
	}
}
