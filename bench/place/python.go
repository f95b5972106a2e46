package place

import (
	"ipcbench/bench/session"
	"ipcbench/python"
	"ipcbench/trainer"
)

// Python locates the interpreter and the files of workers in Python and reference rows.
type Python struct {
	Interpreter python.Interpreter // for workers; reference rows find their own
	Dir         string             // directory to which [python.Unpack] has written
}

// launcher returns the launcher of worker processes in Python, which run a user's function if
// kept is set. Process n is pinned to the processors cpus[n], if given.
func (p Python) launcher(kept bool, cpus ...[]int) trainer.Launcher {
	start := trainer.NewCommand
	if kept {
		start = trainer.NewKept
	}
	return start(session.InPython, p.Interpreter.Path, []string{python.Worker(p.Dir)}, cpus...)
}
