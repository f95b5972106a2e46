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

// InPython is the language of workers that are not in Go.
const InPython = result.InPython

// A Python is what runs workers in Python, and where all is that runs in Python.
type Python struct {
	Interpreter python.Interpreter // of workers; reference rows find their own
	Dir         string             // to which [python.Unpack] wrote
}

// launcher returns the launcher of worker processes in Python: process n is pinned to
// the processors cpus[n], if there are any.
func (p Python) launcher(cpus ...[]int) trainer.Launcher {
	return trainer.NewCommand(InPython, p.Interpreter.Path, []string{python.Worker(p.Dir)}, cpus...)
}

// checkLanguage reports what workers in Python cannot do.
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
		return fmt.Errorf("--language python: codec %s: workers in Python know none", c)
	case s.PerProcess != 1:
		return errors.New("--language python: a process has one worker: leave --lanes-per-process 1")
	case s.Variant.Settings["tls"] != "" && s.Variant.Settings["tls"] != "off":
		return errors.New("--language python: workers in Python know no TLS: choose tls=off")
	case s.Model.Layout.Var() || s.up().Layout.Var():
		return errors.New("--language python: workers in Python know no tensors whose lengths vary")
	case s.Change != (tensor.Change{}):
		return errors.New("--language python: workers in Python change all words: leave --change out")
	}
	return nil
}

// printables returns what a process says of itself, made printable.
func printables(said map[string]string) map[string]string {
	if len(said) == 0 {
		return nil
	}
	all := map[string]string{}
	for name, version := range said {
		all[cmp.Or(result.Printable(name), "unnamed")] = cmp.Or(result.Printable(version), "unknown")
	}
	return all
}

// HasPython reports whether any of the cells has workers in Python.
func HasPython(cells []Spec) bool {
	return slices.ContainsFunc(cells, func(s Spec) bool { return s.Language == InPython })
}
