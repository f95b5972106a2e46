package cli

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"ipcbench/bench"
	"ipcbench/python"
	"ipcbench/scratch"
)

// parseLanguages returns those that --language asks for, as bench names them.
func (f *cellFlags) parseLanguages() (all []string, err error) {
	for _, text := range f.languages {
		name, path, named := strings.Cut(text, ":")
		of := map[string]string{"go": "", bench.InPython: bench.InPython}
		language, ok := of[name]
		if !ok || named && (path == "" || name != bench.InPython) {
			return nil, usagef("--language %q: want go, python, or python:PATH of an interpreter", text)
		}
		if slices.Contains(all, language) {
			return nil, usagef("--language %s: %s stands there twice: leave one out", strings.Join(f.languages, ","), name)
		}
		all = append(all, language)
	}
	if len(all) == 0 {
		return nil, usagef("--language: the list is empty: want go, python or both")
	}
	return all, nil
}

// interpreter returns the one that --language names, if any.
func (f *cellFlags) interpreter() (path string) {
	for _, text := range f.languages {
		if _, named, ok := strings.Cut(text, ":"); ok {
			path = named
		}
	}
	return path
}

// aFunction is a function of a module as users write it.
var aFunction = regexp.MustCompile(`^[\pL_][\pL\pN_.]*:[\pL_][\pL\pN_.]*$`)

// trains reports what is wrong with --train where workers are in these languages.
func (f *cellFlags) trains(languages []string) error {
	switch {
	case f.train == "":
		return nil
	case !aFunction.MatchString(f.train):
		return hinted{usagef("--train %q: want MODULE:FUNCTION", f.train), "mymodule:train is the function train of mymodule.py in this directory"}
	case slices.Contains(languages, ""):
		return hinted{usagef("--train %s: workers in Go cannot call it", f.train), "choose --language python"}
	}
	return nil
}

// findPython returns the interpreter for the cells with workers in Python.
func (f *cellFlags) findPython(ctx context.Context, cells []bench.Spec) (found python.Interpreter, err error) {
	var transports []string
	for _, c := range cells {
		if c.Language == bench.InPython {
			transports = append(transports, c.Variant.Transport.Name())
		}
	}
	modules, err := python.ForWorkers(transports...)
	if err != nil {
		return found, err
	}
	if found, err = python.Find(ctx, f.interpreter(), modules...); err != nil {
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
