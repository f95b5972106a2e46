// Command gotest runs go test with its arguments. It prints one line per package, as go
// test does, and the whole output of failed tests. It also counts tests that were skipped
// because of a missing tool or the kernel (see package skip). For each of them, a line with
// the reason and the test is written to the file named by SKIPPED.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
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
	fmt.Printf("skipped: %d (a tool is missing, or the kernel refuses)\n", len(skipped))
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

// reason matches the reasons that package skip prints.
var reason = regexp.MustCompile(`: (not installed: .*|the kernel refuses .*)`)

// show prints the output that go test has without -json, and returns the skipped tests,
// each after its reason.
func show(in io.Reader, w io.Writer) (skipped []string) {
	said := map[event]*strings.Builder{} // output by test
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) != nil {
			_, _ = w.Write(line) // not an event, but text of go test itself
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
			if why := reason.FindStringSubmatch(text); e.Action == "skip" && why != nil {
				skipped = append(skipped, why[1]+"\t"+e.Package+"."+e.Test)
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
