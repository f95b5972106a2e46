// Command gotest runs go test with its arguments and shows a line a package, as
// go test does, and all that a failed test says. At the end it says how many tests
// the kernel refused (see package skip), which go test alone does not tell; it
// adds their names to the file that SKIPPED names.
//
// Tests here start processes, on machines that have other work and few processors.
// So where no more than three tests failed, and nothing crashed or raced, each is run
// three times more, with the machine to itself. One that passes all three was flaky: it
// is named at the end, to be mended, and fails nothing.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	args := os.Args[1:]
	r, err := run(args)
	if err != nil && r.mayBeFlaky() {
		flags := args
		if packages := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, ".") }); packages >= 0 {
			flags = args[:packages]
		}
		err = r.again(flags)
	}
	fmt.Printf("skipped: %d (the kernel refuses)\n", len(r.skipped))
	if name := os.Getenv("SKIPPED"); name != "" {
		err = errors.Join(err, add(name, r.skipped))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest: go test:", err)
		os.Exit(1)
	}
}

// results is what a run of go test says of its tests.
type results struct {
	skipped []string // package.test that the kernel refused
	failed  []event  // tests, not their subtests
	broken  bool     // what no second run excuses: no build, a crash, a race, a time limit
}

// mayBeFlaky reports whether the failures are few, and of tests alone.
func (r results) mayBeFlaky() bool {
	return !r.broken && 0 < len(r.failed) && len(r.failed) <= 3
}

// again runs the failed tests alone, three times each, and names those that pass.
func (r results) again(flags []string) error {
	var flaky []string
	for _, f := range r.failed {
		fmt.Printf("gotest: %s.%s three times more, alone\n", f.Package, f.Test)
		if _, err := run(slices.Concat(flags, []string{"-count=3", "-run=^" + f.Test + "$", f.Package})); err != nil {
			return fmt.Errorf("%s.%s: %w", f.Package, f.Test, err)
		}
		flaky = append(flaky, f.Package+"."+f.Test)
	}
	fmt.Printf("flaky: %d (failed, then passed three times alone): %s\n", len(flaky), strings.Join(flaky, ", "))
	return nil
}

// run runs go test with args, and shows what it says.
func run(args []string) (results, error) {
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json"}, args)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return results{broken: true}, err
	}
	r := show(out, os.Stdout)
	return r, cmd.Wait()
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// show writes what go test would have written without -json, and returns the
// tests that failed and that the kernel refused.
func show(in io.Reader, w io.Writer) (r results) {
	said := map[event]*strings.Builder{} // by test
	failed := map[string]bool{}          // packages with a test that failed
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) != nil {
			_, _ = w.Write(line) // no event: go's own words
		}
		test := event{Package: e.Package, Test: e.Test}
		switch e.Action {
		case "output":
			if said[test] == nil {
				said[test] = &strings.Builder{}
			}
			if e.Test == "" && e.Output != "PASS\n" {
				fmt.Fprint(w, e.Output)
			} else if !strings.HasPrefix(e.Output, "=== ") {
				said[test].WriteString(e.Output)
			}
			r.broken = r.broken || strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ") || strings.HasPrefix(e.Output, "WARNING: DATA RACE")
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "pass", "skip", "fail":
			text := ""
			if said[test] != nil {
				text = said[test].String()
			}
			if e.Action == "fail" {
				fmt.Fprint(w, text)
				if e.Test == "" {
					r.broken = r.broken || !failed[e.Package]
				} else if !strings.Contains(e.Test, "/") {
					r.failed = append(r.failed, event{Package: e.Package, Test: e.Test})
					failed[e.Package] = true
				}
			}
			if e.Action == "skip" && strings.Contains(text, ": the kernel refuses ") {
				r.skipped = append(r.skipped, e.Package+"."+e.Test)
			}
			delete(said, test)
		}
		if err != nil {
			return r
		}
	}
}

func add(name string, lines []string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	for _, l := range lines {
		fmt.Fprintln(f, l)
	}
	return f.Close()
}
