package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/python"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// InPython is the language of workers in Python, as opposed to Go.
const InPython = result.InPython

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
	return start(InPython, p.Interpreter.Path, []string{python.Worker(p.Dir)}, cpus...)
}

// checkLanguage returns an error if workers in Python do not support s.
func (s Spec) checkLanguage() error {
	if s.Language == "" {
		return nil
	}
	name := s.Variant.Transport.Name()
	_, err := python.ForWorkers(name)
	switch c := s.Variant.Codec(); {
	case err != nil:
		return fmt.Errorf("--language python: %w", err)
	case c != nil:
		return fmt.Errorf("--language python: codec %s: workers in Python support no codecs: leave --codec out", c)
	case s.PerProcess != 1:
		return errors.New("--language python: a process has one worker: --lanes-per-process must be 1")
	case s.Variant.Settings["tls"] != "" && s.Variant.Settings["tls"] != "off":
		return errors.New("--language python: workers in Python do not support TLS: choose tls=off")
	case s.Model.Layout.Var() || s.up().Layout.Var():
		return errors.New("--language python: workers in Python do not support tensors of varying length: choose another model")
	case s.Change != (tensor.Change{}):
		return errors.New("--language python: workers in Python change all elements: leave --change out")
	}
	return nil
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

// HasPython reports whether any cell has workers in Python.
func HasPython(cells []Spec) bool {
	return slices.ContainsFunc(cells, func(s Spec) bool { return s.Language == InPython })
}
