package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"ipcbench/bench"
	"ipcbench/internal/scratch"
	"ipcbench/python"
)

// languageAxis gives cells each of the languages. A peer has one of its own.
func languageAxis(languages []string) making {
	return func(c bench.Spec, text string) ([]bench.Spec, error) {
		name, path, named := strings.Cut(text, ":")
		language, ok := map[string]string{"go": "", bench.InPython: bench.InPython}[name]
		if !ok || named && (path == "" || name != bench.InPython) {
			return nil, fmt.Errorf("%q: want go, python, or python:PATH of an interpreter", text)
		}
		if _, peer := c.Variant.Transport.(*bench.Peer); !peer {
			c.Language = language
		} else if text != languages[0] {
			return nil, nil
		}
		return []bench.Spec{c}, nil
	}
}

// aFunction is a function of a module as users write it.
var aFunction = regexp.MustCompile(`^[\pL_][\pL\pN_.]*:[\pL_][\pL\pN_.]*$`)

// functionOf reports a --train that names no function.
func (f *cellFlags) functionOf() error {
	if f.train != "" && !aFunction.MatchString(f.train) {
		return hinted{usagef("--train %q: want MODULE:FUNCTION", f.train), "mymodule:train is the function train of mymodule.py in this directory"}
	}
	return nil
}

// findPython returns the interpreter for the cells with workers in Python, if there are any.
func (f *cellFlags) findPython(ctx context.Context, cells []bench.Spec) (found python.Interpreter, err error) {
	var transports []string
	for _, c := range cells {
		if c.Language == bench.InPython {
			transports = append(transports, c.Variant.Transport.Name())
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
	modules, err := python.ForWorkers(transports...)
	if err != nil {
		return found, err
	}
	if found, err = python.Find(ctx, path, modules...); err != nil {
		return found, hinted{usagef("--language python: %w", err), "install that, or choose an interpreter with python:PATH"}
	}
	return found, nil
}

// unpack writes what a run needs in Python, if anything, to a directory of its own, which
// remove removes. It may be called twice.
func unpack(ctx context.Context, o *bench.Options, dry bool) (remove func(), err error) {
	if (dry || !bench.HasPython(o.Cells)) && !bench.HasRows(o.Cells) {
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
	return func() { _ = d.Close() }, nil // ipcbench clean finds what is left
}
