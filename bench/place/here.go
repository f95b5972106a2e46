package place

import (
	"context"

	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/link"
	"ipcbench/phase/usage"
	"ipcbench/python"
	"ipcbench/trainer"
)

// Python locates the interpreter and the files of workers in Python and reference rows.
type Python struct {
	Interpreter python.Interpreter // for workers; reference rows find their own
	Dir         string             // directory to which [python.Unpack] has written
}

// Here runs sessions with this process as their server.
type Here struct {
	Hosts     *Hosts // hosts of workers; nil means this host
	Python    Python
	Listening session.Listening

	plan       result.Plan
	cpus       []int // processors that this process may use
	goroutines trainer.Launcher
}

// New returns a Here for the blocks of a plan, with its workers on this host.
func New(p result.Plan, h trainer.Host) (*Here, error) {
	cpus, err := usage.Affinity()
	if err != nil {
		return nil, err
	}
	link.Processors = cpus[p.ServerCPUs:]
	return &Here{plan: p, cpus: cpus, goroutines: trainer.NewGoroutines(h)}, nil
}

// Launcher returns the launcher of the workers of s. Without agents, it pins worker
// process n to the processors cpus[n], if given.
func (h *Here) Launcher(s session.Spec, cpus ...[]int) trainer.Launcher {
	switch {
	case s.Inside():
		return h.goroutines
	case h.Hosts != nil:
		return h.Hosts.launcher(s)
	case s.Language == session.InPython:
		start := trainer.NewCommand
		if s.Train != "" {
			start = trainer.NewKept // a user's function may start processes of its own
		}
		return start(session.InPython, h.Python.Interpreter.Path, []string{python.Worker(h.Python.Dir)}, cpus...)
	}
	return trainer.NewProcesses(cpus...)
}

// Run runs a block, pinned and verified if the plan pins processes.
func (h *Here) Run(ctx, quit context.Context, r *session.Run) error {
	r.Listening, r.Hosts = h.Listening, h.Hosts.session(r.Spec)
	p := h.place(r.Spec.Processes())
	if p.server == nil || r.Spec.Inside() { // the control's only process needs the processors of all
		return r.Do(ctx, quit, h.Launcher(r.Spec))
	}
	return p.pinned(func() error {
		if err := r.Do(ctx, quit, h.Launcher(r.Spec, p.workers...)); err != nil || len(r.Block.Round) == 0 {
			return err
		}
		return p.verify(r.Block)
	})
}

// Apart returns a processor of the server and one of a worker, if the plan pins processes; else nil.
func (h *Here) Apart() []int {
	if p := h.place(1); p.server != nil {
		return []int{p.server[0], p.workers[0][0]}
	}
	return nil
}
