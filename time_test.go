package ipcbench_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"ipcbench/internal/test/check"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// timed are the names of packages with which a test could judge by time, or sleep in
// place of waiting. Package waiting has what tests may do.
var timed = map[string][]string{
	"time":    {"Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Since", "Until"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
	"waiting": {"Pause"},
}

// timedMethods are the methods likewise, of one argument: of points in time, and of
// connections.
var timedMethods = []string{"Sub", "After", "Before", "SetDeadline", "SetReadDeadline", "SetWriteDeadline"}

// mayTime are the functions of tests, or all of a file, that use them all the same, each
// with its reason. Benchmarks may, too.
var mayTime = map[string]string{
	"bench/liars_test.go:Submit":                    "a worker that is late",
	"cli/faults_test.go":                            "how long runs go on after a fault; in check-long and in soak",
	"cli/signal_test.go:TestSecondSignal":           "that something takes at least so long holds under any load",
	"cli/world_test.go:killed":                      "kills at any moment",
	"cmd/ipcbench/faults_test.go:TestFaultsAnyTime": "the same",
	"cmd/ipcbench/world_test.go:TestHostsMPIRun":    "the same",
	"examples/fedavg/client_test.go:appears":        "it waits for what comes; the example imports nothing internal",
	"examples/fedavg/stop_test.go:endless":          "a worker that trains",
	"internal/link/link_test.go:duplex":             "a rate of a link, which lets through no more on a busy machine",
	"internal/link/link_test.go:flood":              "a socket is full that does not take what is written",
	"phase/usage/usage_test.go:TestCostsAreCounted": "what a sleep costs",
	"trainer/watch_test.go:linger":                  "a worker that is slow",
	"trainer/watch_test.go:Submit":                  "the same",
	"transports/all/tls_test.go:everybody":          "a stranger who says one byte after the other",
	"transports/driver/drivertest/left.go:left":     "it looks after all tests, where nobody bounds it",
	"transports/driver/drivertest/rounds.go:pause":  "a worker that others overtake",
}

// forTests are the packages that only tests import.
var forTests = []string{"transports/driver/drivertest", "bench/benchtest", "report/doc/doctest", "internal/test/browser", "internal/test/rig", "internal/test/skip", "internal/test/child", "internal/test/proc"}

// TestTime: no test asserts how long something takes, or sleeps until something may have
// happened: package waiting knows how tests wait.
func TestTime(t *testing.T) {
	used := map[string]bool{}
	goFiles(t, func(path string, _ []string) {
		dir := path[:max(0, strings.LastIndex(path, "/"))]
		if dir == "internal/test/waiting" || !strings.HasSuffix(path, "_test.go") && !slices.Contains(forTests, dir) {
			return
		}
		file := check.Value(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
		for _, d := range file.Decls {
			name := path
			if f, ok := d.(*ast.FuncDecl); ok {
				if name += ":" + f.Name.Name; strings.HasPrefix(f.Name.Name, "Benchmark") {
					continue
				}
			}
			for _, what := range timings(file, d) {
				key := name
				if mayTime[path] != "" { // all of its functions
					key = path
				}
				used[key] = true
				check.That(t, mayTime[key] != "",
					"%s: %s: a test holds under any load: wait with package waiting, or give a reason in mayTime", name, what)
			}
		}
	})
	for name := range mayTime {
		check.That(t, used[name], "mayTime: %s uses no time: take it off the list", name)
	}
}

// timings returns what of timed and timedMethods stands in a declaration.
func timings(file *ast.File, d ast.Decl) (all []string) {
	names := map[string]string{} // of packages, by what the file calls them
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value) // the parser has seen to it
		name := path[strings.LastIndex(path, "/")+1:]
		if local := name; timed[name] != nil {
			if i.Name != nil {
				local = i.Name.Name
			}
			names[local] = name
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(timed[names[x.Name]], s.Sel.Name) {
				all = append(all, x.Name+"."+s.Sel.Name)
			}
		}
		if c, ok := n.(*ast.CallExpr); ok && len(c.Args) == 1 {
			if s, ok := c.Fun.(*ast.SelectorExpr); ok && slices.Contains(timedMethods, s.Sel.Name) {
				if x, ok := s.X.(*ast.Ident); !ok || names[x.Name] == "" {
					all = append(all, "method "+s.Sel.Name)
				}
			}
		}
		return true
	})
	return all
}
