// Package drivertest proves that a transport keeps the contract of package
// driver. A transport's test is two lines:
//
//	func TestMain(m *testing.M)  { drivertest.Main(m, mine.New()) }
//	func TestMine(t *testing.T)  { drivertest.Run(t, mine.New) }
//
// What only that transport does is tested beside it; what every transport must
// do is tested here, with workers in this process and in others.
package drivertest

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// Main is the TestMain of a transport's package: a process that was started as a
// worker becomes one, all others run the tests, as Exit does.
func Main(m *testing.M, all ...driver.Transport) {
	host(all...).MaybeWorker()
	Exit(m)
}

// Exit runs the tests and ends the process. After the tests nothing may be left: no
// goroutine, directory, descriptor, mapping or child process.
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

// A testCase is a part of the suite.
type testCase struct {
	name string
	run  func(t *testing.T, tr driver.Transport)
}

// carrying are the cases about what is carried, and connecting those about who connects,
// dies or keeps silent.
var (
	carrying = []testCase{
		{"layouts", testLayouts},
		{"order", testOrder},
		{"job", testJob},
		{"receipts", testReceipts},
		{"lent", testLent},
		{"clone", testClone},
		{"model", testModelUnchanged},
		{"unlike", testUnlike},
		{"lengths", testLengths},
		{"two models", testTwoModels},
		{"second model", testSecondModel},
		{"mixed", testMixed},
		{"function", testFunction},
		{"wrong", testWrong},
		{"flat", testFlat},
	}
	connecting = []testCase{
		{"tls", testTLS},
		{"misuse", testMisuse},
		{"cancel", testCancel},
		{"shutdown", testShutdown},
		{"silent", testSilent},
		{"strangers", testStrangers},
		{"intruders", testIntruders},
		{"stops", testStops},
		{"kill", testKill},
	}
)

// Run runs the conformance suite against the transport that newTransport makes.
func Run(t *testing.T, newTransport func() driver.Transport) {
	RunCarrying(t, newTransport)
	runAll(t, newTransport, connecting)
}

// RunSibling is Run for a transport whose connections are those of another one, which Run
// tests: where tests are to be short, it leaves out what is about connections and about
// other processes.
func RunSibling(t *testing.T, newTransport func() driver.Transport) {
	if testing.Short() {
		RunCarrying(t, func() driver.Transport { return indoors{newTransport()} })
		return
	}
	Run(t, newTransport)
}

// indoors is a transport whose workers are to be tried in this process alone.
type indoors struct{ driver.Transport }

// RunCarrying runs the part of the suite that is about what is carried: for another form
// of messages over connections to which the whole suite applies.
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

// launchers calls f with workers in this process, and then with real ones if
// the transport can leave the process. Where workers are another program's, there are
// only these.
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

// small is a layout for cases where the shapes do not matter.
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

// Inside reports whether tr's workers have to be in the server's process.
func Inside(t *testing.T, tr driver.Transport) bool {
	t.Helper()
	return variant(t, tr).Traits().Reach == driver.Process
}
