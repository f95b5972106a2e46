package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"ipcbench/bench"
	"ipcbench/bench/program"
	"ipcbench/bench/session"
	"ipcbench/internal/scratch"
	"ipcbench/python"
)

// languageAxis combines cells with the languages. A peer has its own language, so it is
// measured once.
func languageAxis(languages []string) expander {
	return func(c session.Spec, text string) ([]session.Spec, error) {
		name, path, named := strings.Cut(text, ":")
		language, ok := map[string]string{"go": "", session.InPython: session.InPython}[name]
		if !ok || named && (path == "" || name != session.InPython) {
			return nil, fmt.Errorf("must be go, python, or python:PATH of an interpreter, not %q", text)
		}
		if !isPeer(c) {
			c.Language = language
		} else if text != languages[0] {
			return nil, nil
		}
		return []session.Spec{c}, nil
	}
}

// functionName matches MODULE:FUNCTION in Python.
var functionName = regexp.MustCompile(`^[\pL_][\pL\pN_.]*:[\pL_][\pL\pN_.]*$`)

// functionOf returns an error if --train is not MODULE:FUNCTION.
func (f *cellFlags) functionOf() error {
	if f.common.Train != "" && !functionName.MatchString(f.common.Train) {
		return hinted{usagef("--train must be MODULE:FUNCTION, not %q", f.common.Train),
			"mymodule:train is the function train in mymodule.py in this directory"}
	}
	return nil
}

// findPython returns the interpreter for cells with workers in Python, or nothing if there are
// none. It fails if a required module, or the one of --train, is missing.
func (f *cellFlags) findPython(ctx context.Context, cells []session.Spec) (found python.Interpreter, err error) {
	var transports []string
	for _, c := range cells {
		if c.Language == session.InPython {
			transports = append(transports, c.Variant.Subject.Name())
		}
	}
	if len(transports) == 0 {
		return found, nil
	}
	path := ""
	for _, text := range f.languages {
		if _, named, ok := strings.Cut(text, ":"); ok {
			path = named
		}
	}
	if found, err = python.Find(ctx, path, python.ForWorkers(transports...)...); err != nil {
		return found, hinted{usagef("--language python: %w", err), "install it, or choose an interpreter with --language python:PATH"}
	}
	module, _, _ := strings.Cut(strings.ReplaceAll(f.common.Train, ":", "."), ".") // or its package
	here, _ := filepath.Glob(module + "*")
	if module == "" || len(here) > 0 { // workers also search this directory
		return found, nil
	}
	if _, err := python.Find(ctx, found.Path, python.Module{Name: module}); err != nil {
		const absent = "--train %s: no module %s in this directory or the path of %s"
		return found, usagef(absent, f.common.Train, module, found.Path)
	}
	return found, nil
}

// inPython reports whether a cell needs Python, which a machine may lack.
func inPython(c session.Spec) bool { return isPeer(c) || c.Language == session.InPython }

// withoutPython skips the cells whose workers are in Python, for the reason why. It returns why
// if no cell is left.
func withoutPython(o *bench.Options, why error) error {
	var left []session.Spec
	for _, c := range o.Cells {
		if c.Language == session.InPython {
			o.Skipped = append(o.Skipped, (&session.Unfit{Spec: c, Err: why}).Skipped())
		} else {
			left = append(left, c)
		}
	}
	if o.Cells = left; len(left) == 0 {
		return why
	}
	return nil
}

// unpack writes the Python files that the cells need to a temporary directory and sets
// o.Python.Dir. remove deletes the directory; it may be called twice.
func unpack(ctx context.Context, o *bench.Options, dry bool) (remove func(), err error) {
	if (dry || !session.HasPython(o.Cells)) && !program.HasRows(o.Cells) {
		return func() {}, nil
	}
	d, err := scratch.New(scratch.Roots()[0])
	if err != nil {
		return nil, err
	}
	if err := python.Unpack(ctx, d.Path()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	o.Python.Dir = d.Path()
	return func() { _ = d.Close() }, nil // ipcbench clean removes leftovers
}
