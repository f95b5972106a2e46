// Package drivertest proves that a transport keeps the contract of package
// driver. A transport's test is two lines:
//
//	func TestMain(m *testing.M)  { drivertest.Main(m, mine.New()) }
//	func TestMine(t *testing.T)  { drivertest.Run(t, mine.New) }
//
// The suite tests the duties that every transport has, with workers in this process and in
// others. A transport's own package tests its other properties.
package drivertest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// Main is the TestMain of a transport's package. In a process that was started as a worker
// it becomes that worker; otherwise it runs the tests, as Exit does.
func Main(m *testing.M, all ...driver.Transport) { MainWith(m, nil, all...) }

// MainWith is Main for a package whose tests start other roles too; see [Spawn].
func MainWith(m *testing.M, others reexec.Roles, all ...driver.Transport) {
	roles := reexec.Roles{
		reexec.Worker: host(all...).Work,
		"work":        func(question []byte) (any, error) { return Work(question, all...) },
		"lead":        func(question []byte) (any, error) { return lead(question, all...) },
	}
	maps.Copy(roles, others)
	reexec.Main(roles)
	Exit(m)
}

// Exit runs the tests and ends the process. It fails if the tests leave a goroutine,
// directory, descriptor, mapping or child process behind.
func Exit(m *testing.M) {
	before := hold()
	code := m.Run()
	if code == 0 {
		for _, what := range before.left() {
			fmt.Fprintln(os.Stderr, "left after the tests:", what)
			code = 1
		}
	}
	os.Exit(code)
}

func host(all ...driver.Transport) trainer.Host {
	return trainer.Host{Transports: all, Funcs: funcs()}
}

// A testCase is one part of the suite.
type testCase struct {
	name string
	run  func(t *testing.T, tr driver.Transport)
}

// carrying holds the cases about jobs and packages. connecting holds the cases about
// connections and about workers that die or stay silent.
var (
	carrying = []testCase{
		{"layouts", testLayouts},
		{"order", testOrder},
		{"job", testJob},
		{"receipts", testReceipts},
		{"lent", testLent},
		{"clone", testClone},
		{"untouched", testUntouched},
		{"unlike", testUnlike},
		{"lengths", testLengths},
		{"two models", testTwoModels},
		{"second model", testSecondModel},
		{"mixed", testMixed},
		{"masked", testMasked},
		{"function", testFunction},
		{"wrong", testWrong},
		{"flat heap", testFlatHeap},
		{"flat", testFlat},
		{"server killed", testServerKilled},
	}
	connecting = []testCase{
		{"tls", testTLS},
		{"misuse", testMisuse},
		{"cancel", testCancel},
		{"shutdown", testShutdown},
		{"crowd", testCrowd},
		{"strangers", testStrangers},
		{"intruders", testIntruders},
		{"stops", testStops},
		{"kill", testKill},
	}
)

// Run runs the conformance suite on the transport that newTransport makes.
func Run(t *testing.T, newTransport func() driver.Transport) {
	RunCarrying(t, newTransport)
	runAll(t, newTransport, connecting)
}

// RunSibling is Run for a transport that uses the connections of another one, which Run
// tests. With -short it runs RunCarrying only, with workers in this process only.
func RunSibling(t *testing.T, newTransport func() driver.Transport) {
	if testing.Short() {
		RunCarrying(t, func() driver.Transport { return indoors{newTransport()} })
		return
	}
	Run(t, newTransport)
}

// indoors is a transport whose workers are tested in this process only.
type indoors struct{ driver.Transport }

// RunCarrying runs only the cases about jobs and packages. Use it for another message
// format over connections that pass the whole suite.
func RunCarrying(t *testing.T, newTransport func() driver.Transport) {
	runAll(t, newTransport, carrying)
}

func runAll(t *testing.T, newTransport func() driver.Transport, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			waiting.Do(t, "a case of the suite", func() { c.run(t, newTransport()) })
		})
	}
}

// launchers calls f with workers in this process, and again with worker processes if the
// transport can leave the process. A launched transport has its own launcher, so f runs
// only with that.
func launchers(t *testing.T, tr driver.Transport, f func(t *testing.T, l trainer.Launcher)) {
	if l, ok := tr.(launched); ok {
		f(t, l.launcher)
		return
	}
	t.Run("workers=goroutines", func(t *testing.T) {
		f(t, trainer.NewGoroutines(host(tr)))
	})
	if _, stays := tr.(indoors); stays || Inside(t, tr) || raceDetector {
		return
	}
	t.Run("workers=processes", func(t *testing.T) { f(t, processes(tr)) })
}

// has reports whether tr has a setting of that name.
func has(tr driver.Transport, name string) bool {
	return slices.ContainsFunc(tr.Settings(), func(s driver.Setting) bool { return s.Name == name })
}

// variant returns tr with its default settings.
func variant(t *testing.T, tr driver.Transport) transports.Variant {
	t.Helper()
	return check.Value(transports.NewVariant(tr, nil))(t)
}

// small returns a layout for cases in which shapes do not matter.
func small(t *testing.T) *tensor.Layout {
	return Layout(t,
		tensor.Spec{Name: "a", DType: tensor.F32, Shape: []int{33, 7}},
		tensor.Spec{Name: "b", DType: tensor.U8, Shape: []int{1001}},
		tensor.Spec{Name: "c", DType: tensor.I64},
	)
}

func open(t *testing.T, tr driver.Transport, l *tensor.Layout, lanes int) *Session {
	t.Helper()
	return Open(t, variant(t, tr), l, lanes)
}

// Inside reports whether tr's workers must be in the server's process.
func Inside(t *testing.T, tr driver.Transport) bool {
	t.Helper()
	return variant(t, tr).Traits().Reach == driver.Process
}
