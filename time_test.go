package ipcbench_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// timed lists functions of packages with which a test could judge by time, or sleep instead of waiting. Tests may use
// the rest of package waiting.
var timed = map[string][]string{
	"time":    {"Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Since", "Until"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
	"waiting": {"Pause"},
}

// timedMethods lists such methods of times and connections, each with one argument.
var timedMethods = []string{"Sub", "After", "Before", "SetDeadline", "SetReadDeadline", "SetWriteDeadline"}

// mayTime lists the functions of tests, or whole files, that use them nevertheless, each with the reason. Benchmarks
// may use them too.
var mayTime = map[string]string{
	"cli/aa_test.go:TestSoakSameBuild":              "a processor that gets busy half way through a run",
	"bench/liars_test.go:Submit":                    "a worker that is late",
	"bench/program/mortal_test.go":                  "kills at any moment",
	"cli/faults_test.go":                            "how long runs go on after a fault; in check-long and in soak",
	"cli/link_test.go:TestLinkLate":                 "a mirror that is kept from working for a while",
	"cli/signal_test.go:TestSecondSignal":           "that something takes at least so long holds under any load",
	"cli/world_test.go:killed":                      "kills at any moment",
	"cmd/ipcbench/faults_test.go:TestFaultsAnyTime": "the same",
	"cmd/ipcbench/world_test.go:TestHostsMPIRun":    "the same",
	"internal/link/link_test.go:busy":               "a mirror that is kept from working for a while",
	"internal/link/link_test.go:duplex":             "a rate of a link, which lets through no more on a busy machine",
	"internal/link/link_test.go:flow":               "only a lower bound: bytes take as long as the link says",
	"internal/link/link_test.go:flood":              "a socket is full that does not take what is written",
	"phase/usage/usage_test.go:TestCostsAreCounted": "what a sleep costs",
	"trainer/watch_test.go:linger":                  "a worker that is slow",
	"trainer/watch_test.go:Submit":                  "the same",
	"transports/all/tls_test.go:everybody":          "a stranger who says one byte after the other",
	"transports/driver/drivertest/left.go:left":     "it looks after all tests, where nobody bounds it",
	"transports/driver/drivertest/rounds.go:pause":  "a worker that others overtake",
}

// limitName matches names of the product's limits, and limitCall lists the functions with which tests set limits.
var (
	limitName = regexp.MustCompile(`(?i)(limit|patience|impatient|deadline|wait|timeout|answerTime)$`)
	limitText = regexp.MustCompile(`\bdeadline=[1-5]?\d\b`)
	limitCall = []string{"lanesOf", "open", "breaks"}
)

// mayLimit lists the functions of tests that set such a limit to less than a minute, each with the reason. In other
// tests, a busy machine could reach the limit before the test is done.
var mayLimit = map[string]string{
	"bench/against_test.go:TestAgainstStopped":                   "a worker that is stopped does not end by itself",
	"bench/benchtest/benchtest.go:Process":                       "no limit: what a process has waited for a processor",
	"bench/floors/floors_test.go:TestPeerStops":                  "a peer that is stopped does not end by itself",
	"bench/peer_test.go:TestPeerFaults":                          "a peer that hangs does not end by itself",
	"cli/faults_test.go":                                         "workers that are stopped do not end by themselves; in check-long",
	"cli/faults_test.go:tries":                                   "no limit: when a fault comes",
	"internal/agent/agent_test.go:TestTooFew":                    "an agent whose run never answers",
	"internal/agent/hostile_test.go:TestCrowd":                   "those who are silent; an agent that is slow comes again",
	"internal/agent/hostile_test.go:TestMute":                    "who says nothing: the test fails on no machine that is slow",
	"trainer/watch_test.go:TestFrozenWorker":                     "a process that is stopped does not end by itself",
	"trainer/watch_test.go:TestSlowIsNotStuck":                   "in a synctest bubble",
	"transports/all/tls_test.go":                                 "those who are silent; a worker that is refused for being slow comes again",
	"transports/batched/broken_test.go:TestNeverReads":           "of a request that never ends, however fast the machine",
	"transports/batched/lane_test.go:TestLiesInPython":           "an answer that comes too late, from a server that gives none",
	"transports/driver/drivertest/strangers.go:testCrowd":        "those who are silent",
	"transports/driver/drivertest/rounds.go:testStops":           "a worker that is stopped does not end by itself",
	"transports/endpoint/lanes_test.go:TestNoHello":              "those who are silent; who is let in has an hour",
	"transports/endpoint/listener_test.go:TestStrangersAreBrief": "those who are silent; who is refused for being slow comes again",
	"transports/http/hostile_test.go:TestSlowPeers":              "nobody there has to keep to it",
}

// forTests lists packages that only tests import.
var forTests = []string{"transports/driver/drivertest", "bench/benchtest", "report/doc/doctest", "internal/test/browser", "internal/test/rig", "internal/test/skip", "internal/test/child", "internal/test/proc"}

// TestTime: no test asserts how long something takes, or sleeps until something may have happened. Tests wait with
// package waiting.
func TestTime(t *testing.T) {
	used, limited := map[string]bool{}, map[string]bool{}
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
			for _, what := range limits(d) {
				limited[name] = true
				check.That(t, mayLimit[name] != "", "%s: %s: a limit of less than a minute: set none, or let the peer end, or give a reason in mayLimit", name, what)
			}
			for _, what := range timings(file, d) {
				key := name
				if mayTime[path] != "" { // all functions of the file
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
	for name := range mayLimit {
		check.That(t, limited[name], "mayLimit: %s sets no short limit: take it off the list", name)
	}
}

// timings returns the uses of timed and timedMethods in a declaration.
func timings(file *ast.File, d ast.Decl) (all []string) {
	names := map[string]string{} // package names, by their names in the file
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value) // the parser has checked it
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

// limits returns the names of the limits of less than a minute that a declaration sets.
func limits(d ast.Decl) (all []string) {
	set := func(name, value ast.Expr) {
		if s, ok := name.(*ast.SelectorExpr); ok {
			name = s.Sel
		}
		if id, ok := name.(*ast.Ident); ok && limitName.MatchString(id.Name) && short(value) {
			all = append(all, id.Name)
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			set(n.Key, n.Value)
		case *ast.AssignStmt:
			for i := range n.Rhs {
				set(n.Lhs[i], n.Rhs[i])
			}
		case *ast.ValueSpec:
			for i := range n.Values {
				set(n.Names[i], n.Values[i])
			}
		case *ast.CallExpr:
			name, _ := n.Fun.(*ast.Ident)
			if s, ok := n.Fun.(*ast.SelectorExpr); ok {
				name = s.Sel
			}
			if name != nil && slices.Contains(limitCall, name.Name) && slices.ContainsFunc(n.Args, short) {
				all = append(all, name.Name)
			}
		case *ast.BasicLit:
			all = append(all, limitText.FindAllString(n.Value, -1)...)
		}
		return true
	})
	return all
}

// short reports whether an expression is a duration of less than a minute.
func short(e ast.Expr) bool {
	n := 1
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.MUL {
		l, isNumber := b.X.(*ast.BasicLit)
		if e = b.Y; isNumber {
			n, _ = strconv.Atoi(l.Value) // 0 if it has a decimal point
		}
	}
	s, ok := e.(*ast.SelectorExpr)
	return ok && (s.Sel.Name == "LeastRoundLimit" || s.Sel.Name == "Millisecond" || s.Sel.Name == "Microsecond" || s.Sel.Name == "Second" && n < 60)
}
