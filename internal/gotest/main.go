// Command gotest runs go test with its arguments and shows a line a package, as
// go test does, and all that a failed test says. At the end it says how many tests
// the kernel refused (see package skip), which go test alone does not tell; it
// adds their names to the file that SKIPPED names.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
	skipped := show(out, os.Stdout)
	err = cmd.Wait()
	fmt.Printf("skipped: %d (the kernel refuses)\n", len(skipped))
	if name := os.Getenv("SKIPPED"); name != "" {
		err = errors.Join(err, add(name, skipped))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest: go test:", err)
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// show writes what go test would have written without -json, and returns the
// tests that the kernel refused.
func show(in io.Reader, w io.Writer) (skipped []string) {
	said := map[event]*strings.Builder{} // by test
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
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "pass", "skip", "fail":
			text := ""
			if said[test] != nil {
				text = said[test].String()
			}
			if e.Action == "fail" {
				fmt.Fprint(w, text)
			}
			if e.Action == "skip" && strings.Contains(text, ": the kernel refuses ") {
				skipped = append(skipped, e.Package+"."+e.Test)
			}
			delete(said, test)
		}
		if err != nil {
			return skipped
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
