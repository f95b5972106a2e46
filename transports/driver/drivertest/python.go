package drivertest

import (
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/python"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
)

// inPython lists the cases that run with workers in Python. One session tests all packages,
// because an interpreter starts slowly. The other cases test the server or workers in this
// process, so Python adds nothing.
var inPython = []testCase{
	{"all at once", testAllAtOnce},
	{"function", testFunction},
	{"wrong", testWrong},
	{"flat", testFlat},
	{"stops", testStops},
	{"kill", testKill},
}

// RunPython runs the suite's cases about worker processes, with workers in Python. With
// -short it runs only the first.
func RunPython(t *testing.T, newTransport func() driver.Transport) {
	launcher, cases := Python(t, newTransport().Name()), inPython
	if testing.Short() {
		cases = cases[:1]
	}
	runAll(t, func() driver.Transport { return launched{newTransport(), launcher} }, cases)
}

//go:embed testdata/worker.py
var worker []byte

// Python returns the launcher of a transport's worker processes in Python, with the suite's
// worker functions.
func Python(t *testing.T, transport string) trainer.Launcher {
	t.Helper()
	path, args := program(t, worker, transport)
	return trainer.NewCommand("python", path, args)
}

// program returns an interpreter with the modules that workers of these transports import,
// and the arguments to run script with them. It skips the test if there is none.
func program(t *testing.T, script []byte, transports ...string) (path string, args []string) {
	t.Helper()
	if raceDetector {
		t.Skip("other processes, in which the race detector sees nothing")
	}
	found, err := python.Find(t.Context(), "", python.ForWorkers(transports...)...)
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	dir := t.TempDir()
	check.Must(t, python.Unpack(t.Context(), dir))
	file := filepath.Join(dir, "script.py")
	check.Must(t, os.WriteFile(file, script, 0o600))
	return found.Path, []string{file, dir}
}

// launched is a transport whose worker processes come from a launcher, not from this
// program.
type launched struct {
	driver.Transport
	launcher trainer.Launcher
}

// processes returns the launcher of tr's worker processes.
func processes(tr driver.Transport) trainer.Launcher {
	if l, ok := tr.(launched); ok {
		return l.launcher
	}
	return trainer.NewProcesses()
}

// testAllAtOnce: tensors of all types and shapes travel both ways, bit for bit, over
// several lanes, in any order of completion. So do updates unlike the model.
func testAllAtOnce(t *testing.T, tr driver.Transport) {
	var specs []tensor.Spec
	all := layouts(t)
	for name, l := range all {
		if l.Size() > 1<<20 { // the layout tests size only
			continue
		}
		for _, s := range l.Specs() {
			s.Name = name + "/" + s.Name
			specs = append(specs, s)
		}
	}
	slices.SortFunc(specs, func(a, b tensor.Spec) int { return len(a.Name) - len(b.Name) })
	many := Layout(t, specs...)
	for _, c := range []struct {
		name     string
		down, up *tensor.Layout
		workers  int
	}{{"alike", many, many, 3}, {"unlike", all["mixed"], many, 1}, {"nothing", all["none"], all["none"], 1}} {
		t.Run(c.name, func(t *testing.T) {
			cfg := trainer.Config{
				Variant: variant(t, tr), Down: c.down, Up: c.up, Workers: c.workers, Depth: 2, Func: "slow-first", Launcher: processes(tr),
			}
			equal(t, run(t, cfg, 3, 5), reference(t, c.down, c.up, 3, 5))
		})
	}
}
