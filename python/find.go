package python

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A Module is a Python module, and the Debian package that contains it. A module without one is installed with pip.
type Module struct {
	Name, Debian string
	Least        int // oldest minor version of Python 3 that it supports; 0 if any will do
}

// An Interpreter is a Python executable and its version, such as 3.11.2.
type Interpreter struct{ Path, Version string }

// oldest is the oldest minor version of Python 3 that the programs support.
const oldest = 9

// patience is the most time that an interpreter may take to answer question.
const patience = 20 * time.Second

// Find returns the interpreter want or, if it is empty, the first suitable python3 of PATH
// and /usr/bin. It must be new enough and have all modules. The error lists each one's
// problem.
func Find(ctx context.Context, want string, modules ...Module) (Interpreter, error) {
	candidates := []string{want}
	if want == "" {
		candidates = []string{"python3", "/usr/bin/python3"}
	}
	var lacks []string
	for _, name := range candidates {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := try(ctx, path, modules)
		if err == nil {
			return Interpreter{path, version}, nil
		}
		if ctx.Err() != nil {
			return Interpreter{}, context.Cause(ctx)
		}
		if text := err.Error(); !slices.Contains(lacks, text) {
			lacks = append(lacks, text)
		}
	}
	switch {
	case len(lacks) > 0:
		return Interpreter{}, errors.New(strings.Join(lacks, "; "))
	case want != "":
		return Interpreter{}, fmt.Errorf("no interpreter %s", want)
	}
	return Interpreter{}, errors.New("no python3 in PATH or /usr/bin; Debian: python3")
}

// question prints the interpreter's version and the arguments that are missing modules. It
// imports none of them, because torch would take seconds. With -c, Python would search the
// current directory first, whose files are not trusted: workers and rows do not search it.
const question = `
import sys
sys.path = [p for p in sys.path if p]
import importlib.util, json
def lacks(name):
    try:
        return importlib.util.find_spec(name) is None
    except ImportError:
        return True
print(json.dumps({"version": list(sys.version_info[:3]), "lacks": [m for m in sys.argv[1:] if lacks(m)]}))
`

// try returns the version of an interpreter, or an error that says what it lacks.
func try(ctx context.Context, path string, modules []Module) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := []string{"-c", question}
	for _, m := range modules {
		args = append(args, m.Name)
	}
	c := exec.CommandContext(ctx, path, args...)
	c.WaitDelay = time.Second
	out, err := c.Output()
	var got struct {
		Version []int    `json:"version"`
		Lacks   []string `json:"lacks"`
	}
	if ctx.Err() == context.DeadlineExceeded {
		return "", fmt.Errorf("%s did not answer in %v: is the machine busy?", path, patience)
	}
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err == nil && len(got.Version) != 3 {
		err = errors.New("it prints no version")
	}
	if err != nil {
		return "", fmt.Errorf("%s is not Python 3: %w", path, err)
	}
	version := fmt.Sprintf("%d.%d.%d", got.Version[0], got.Version[1], got.Version[2])
	if got.Version[0] != 3 || got.Version[1] < oldest {
		return "", fmt.Errorf("%s is Python %s, must be 3.%d or newer", path, version, oldest)
	}
	var packages, wheels []string
	for _, m := range modules {
		switch {
		case m.Least > got.Version[1]:
			return "", fmt.Errorf("%s is Python %s, must be 3.%d or newer for %s (pip install %[4]s)", path, version, m.Least, m.Name)
		case !slices.Contains(got.Lacks, m.Name):
		case m.Debian == "":
			wheels = append(wheels, m.Name)
		default:
			packages = append(packages, m.Debian)
		}
	}
	if len(got.Lacks) > 0 {
		return "", fmt.Errorf("no module %s in %s%s%s", strings.Join(got.Lacks, ", "), path, remedy("Debian: ", packages), remedy("pip install ", wheels))
	}
	return version, nil
}

// remedy names what to install, if anything.
func remedy(how string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; " + how + strings.Join(slices.Compact(names), " ")
}
