package program

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/machine"
	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase/usage"
	"ipcbench/python"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// rowsDir unpacks the reference rows into a temporary folder and returns it.
func rowsDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check.Must(t, python.Unpack(t.Context(), dir))
	return dir
}

// everyType returns a model with all data types, scalars, a tensor without elements, and names like the names of
// PyTorch modules.
func everyType(t *testing.T, suffix string, n int) *models.Model {
	t.Helper()
	var specs []tensor.Spec
	for _, d := range tensor.DTypes() {
		specs = append(specs, tensor.Spec{Name: "layer.0/" + d.String() + suffix, DType: d, Shape: []int{3, n}}, tensor.Spec{Name: d.String() + " step", DType: d})
	}
	l := check.Value(tensor.NewLayout(append(specs, tensor.Spec{Name: "none", DType: tensor.F32, Shape: []int{0, 2}})))(t)
	return &models.Model{Name: "every" + suffix, Layout: l}
}

// TestRows: every reference row carries out an order, and its answer passes all checks. Its models agree with the
// reference chain, round by round and tensor by tensor. Whichever of its processes is killed, nothing is left. A row with
// settings is also tested with others than its usual ones. Rows with torch take seconds to start, so only soak runs them.
func TestRows(t *testing.T) {
	dir := rowsDir(t)
	shared := entries(t, scratch.SharedMemory)
	t.Cleanup(func() { // after the rows
		for _, name := range entries(t, scratch.SharedMemory) {
			waiting.Until(t, "the end of "+name+" in /dev/shm", func() bool {
				return slices.Contains(shared, name) || strings.HasPrefix(name, "ipcbench-") || // a session's
					check.Err(os.Lstat(filepath.Join(scratch.SharedMemory, name))) != nil
			})
		}
	})
	for _, row := range python.Rows() {
		p, others := NewRow(row), driver.Settings{}
		for _, k := range row.Knobs {
			if i := slices.Index(k.Values, k.Default); i >= 0 {
				others[k.Name] = k.Values[(i+1)%len(k.Values)]
			}
			if k.Name == "bucket" { // which the largest tensor of everyType just fits
				others[k.Name] = "120B"
			}
		}
		usual, other := check.Value(transports.NewVariant(p, nil))(t), check.Value(transports.NewVariant(p, others))(t)
		t.Run(usual.String(), func(t *testing.T) { testRow(t, usual, dir, row) })
		if other.String() != usual.String() {
			t.Run(other.String(), func(t *testing.T) { testRow(t, other, dir, row) })
		}
	}
}

func testRow(t *testing.T, v transports.Variant, dir string, row python.Row) {
	if slices.Contains(row.Modules, python.Torch()) {
		skip.Soak(t)
	}
	if row.Name != "py-pickle" {
		skip.Long(t)
	}
	t.Parallel()
	p := v.Subject.(*Program)
	if _, err := p.Ready(); err != nil && slices.ContainsFunc(row.Modules, func(m python.Module) bool { return m.Debian == "" }) {
		t.Skip(err) // CI cannot install it
	} else if err != nil {
		skip.Missing(t, "%v", err)
	}
	s, plan := specFor(t, v, dir), result.Plan{Rounds: 2, Warmup: 1, Verify: session.VerifyAll, Pin: true}
	block := blockOfRow(t, p, dir, s, plan)
	if !testing.Short() {
		plan.Rounds, plan.Blocks, plan.Samples, plan.Pin = 100_000, 1, 1, false
		o := blockOrder(s, plan, 0)
		o.Version = exchange.Version
		m := mortal{t, p, dir, block.Server.Import + block.Spawn + 2*time.Duration(block.Cold.Round), check.Value(json.Marshal(o))(t)}
		m.ends(s.Workers)
	}
	if strings.HasSuffix(row.Name, "blazefl") || row.Name == "ray" { // its processes end with their round, and are a part of the server's usage
		check.That(t, block.Server.Usage.CPU() > 0 && block.Processes[0].Memory.Peak > 0, "%+v", block)
		return
	}
	cpus := check.Value(usage.Affinity())(t)
	share := max(1, len(cpus)/(s.Workers+1)) // of each worker; the server has the others
	first := max(1, len(cpus)-share*s.Workers) % len(cpus)
	check.Equal(t, [][]int{block.Server.CPUs, block.Processes[0].CPUs}, [][]int{cpus[:max(1, first)], cpus[first:][:share]}, "processors")
	check.That(t, block.Processes[0].Import > 0 && block.Processes[0].Usage.CPU() > 0 && block.Cold.Processes[0].CPU() > 0,
		"the worker's usage is incomplete: %+v", block.Processes[0])
	if row.Name == "py-pickle5" {
		outOfBand(t, block, int64(s.Model.Layout.Len()))
	}
}

// entries returns the names in a folder.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, e := range check.Value(os.ReadDir(dir))(t) {
		names = append(names, e.Name())
	}
	return names
}

// specFor returns the cell to test a row with: more clients than workers, all types and another update, unless the row
// refuses that.
func specFor(t *testing.T, v transports.Variant, dir string) session.Spec {
	t.Helper()
	flat := check.Value(tensor.NewLayout([]tensor.Spec{{Name: "a", DType: tensor.F32, Shape: []int{3, 5}}, {Name: "b", DType: tensor.F32}}))(t)
	every, lora := everyType(t, "", 5), everyType(t, ".lora", 2)
	specs := []session.Spec{
		{Model: every, Up: lora, Workers: 2, Clients: 3, PerProcess: 1, Depth: 1},
		{Model: every, Up: lora, Workers: 2, Clients: 2, PerProcess: 1, Depth: 1},
		{Model: &models.Model{Name: "flat", Layout: flat}, Workers: 2, Clients: 2, PerProcess: 1, Depth: 1},
	}
	for i := range specs {
		specs[i].Variant = v
	}
	offer := check.Value(v.Subject.(*Program).Ask(t.Context(), specs, Conditions{Dir: dir}))(t)
	i := slices.IndexFunc(specs, func(s session.Spec) bool { return offer.Refused[s.String()] == "" })
	check.Need(t, i >= 0, "refused: %v", offer.Refused)
	return specs[i]
}

// TestFlowerSteps: py-flower has the same models with Flower's SuperNodes and a new process per message, also if
// clients' objects are the same, because they are small.
func TestFlowerSteps(t *testing.T) {
	skip.Long(t)
	p := NewRow(rowNamed("py-flower"))
	if _, err := p.Ready(); err != nil {
		skip.Missing(t, "%v", err)
	}
	v := check.Value(transports.NewVariant(p, map[string]string{"chunk": "1B", "hops": "3", "process": "new"}))(t)
	s := session.Spec{Variant: v, Model: everyType(t, "", 5), Up: everyType(t, ".lora", 2), Workers: 2, Clients: 3, PerProcess: 1, Depth: 1}
	block := blockOfRow(t, p, rowsDir(t), s, result.Plan{Rounds: 2, Verify: session.VerifySample})
	check.That(t, block.Processes[0].Usage.CPU() > 0, "%+v", block)
}

// outOfBand checks that each pickle had want out-of-band buffers.
func outOfBand(t *testing.T, b result.Block, want int64) {
	t.Helper()
	c := b.Counts()
	check.That(t, c["pickles"] != 0 && c["buffers.out_of_band"] == c["pickles"]*want,
		"%d buffers out of band of %d pickles, want %d each", c["buffers.out_of_band"], c["pickles"], want)
}

// blockOfRow makes a peer run a block of s, and compares its models with the reference chain.
func blockOfRow(t *testing.T, p *Program, dir string, s session.Spec, plan result.Plan) result.Block {
	t.Helper()
	process := check.Value(p.process(0, dir))(t)
	if s.Variant.Subject == nil {
		s.Variant = check.Value(transports.NewVariant(p, nil))(t)
	}
	plan.Seed, plan.Blocks, plan.Samples = 1<<64-1, 1, 1
	o := blockOrder(s, plan, 0)
	a := check.Value(exchange.Ask(t.Context(), t.Context(), process, o, 0))(t)
	err := a.Check(o, true, false)
	block, hashes, running := *a.Block, a.Hashes, a.Running
	check.Need(t, err == nil && (running != nil || p.find == nil), "%v %v", running, err)
	check.Equal(t, len(block.Round), max(plan.Rounds, s.BlockPlan(plan).Least), "rounds")
	check.That(t, block.Proof.Rounds >= 2 && a.Software["python"] != "", "%+v; %v", block.Proof, a.Software)
	for i := range block.RTT {
		check.That(t, block.Down[i] > 0 && block.RTT[i] > block.Train[i] && block.Down[i]+block.Up[i] == block.RTT[i],
			"client %d: %d down, %d up, %d in all, %d of them training", i, block.Down[i], block.Up[i], block.RTT[i], block.Train[i])
	}
	run := &session.Run{Spec: s, Plan: plan, Chain: session.NewChain(s, plan), Block: &block, Hashes: hashes, Running: running}
	check.OK(t, run.Compare(t.Context()))
	return block
}

// TestRowCanary: a reference row really burns the share of the last round that a canary asks for (guard 14), and says so.
func TestRowCanary(t *testing.T) {
	skip.Long(t)
	dir, p, s := rowsDir(t), NewRow(python.Rows()[0]), session.Spec{Model: everyType(t, "", 5000), Workers: 1, Clients: 2, PerProcess: 1, Depth: 1}
	var spent [2]float64
	for i, share := range []float64{0, 5} {
		t.Setenv(CanaryVariable, fmt.Sprint(share))
		b := blockOfRow(t, p, dir, s, result.Plan{Rounds: 5, Verify: session.VerifySample})
		spent[i] = float64(b.Server.Usage.CPU())
		s.Variant = check.Value(transports.NewVariant(p, nil))(t)
		a := check.Value(exchange.First(t.Context(), check.Value(p.process(0, dir))(t), firstOrder([]session.Spec{s}), peerAnswers))(t)
		check.Equal(t, a.Canary, share)
	}
	check.That(t, spent[1] > 2*spent[0], "the slow server took %g ns of processor time, the other one %g", spent[1], spent[0])
}

// TestPeerPage: the peer that docs/reference/peer.md shows, examples/peer/mine.py, passes all checks.
func TestPeerPage(t *testing.T) {
	skip.Long(t)
	i, err := python.Find(t.Context(), "", python.Numpy(), python.Xxhash())
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	file := check.Value(filepath.Abs("../../examples/peer/mine.py"))(t)
	dir := rowsDir(t)
	t.Setenv("PYTHONPATH", dir)
	p := check.Value(NewPeer("mine", i.Path+" "+file))(t)
	s := session.Spec{Model: everyType(t, "", 5), Workers: 1, Clients: 2, PerProcess: 1, Depth: 1}
	for _, plan := range []result.Plan{{Rounds: 7, Verify: session.VerifySample}, {Time: 1, WarmTime: time.Millisecond, Verify: session.VerifyAll}} {
		blockOfRow(t, p, dir, s, plan)
	}
}

// TestRowsGolden: a reference row accepts the two golden orders, and its answers have the hashes and refusals of the
// golden answers.
func TestRowsGolden(t *testing.T) {
	skip.Long(t)
	process := processOf(t, python.Rows()[0], rowsDir(t))
	for _, name := range []string{"peer-first", "peer"} {
		_, text := golden(t, name+"-order.json", exchange.ParseOrder)
		want, _ := golden(t, name+"-answer.json", exchange.ParseAnswer)
		cmd := exec.CommandContext(t.Context(), process.Path, process.Args...)
		cmd.Stdin, _ = endless(t, text) // an open stdin, so the peer is not asked to end early
		out := check.Value(cmd.Output())(t)
		got := check.Value(exchange.ParseAnswer(out))(t)
		check.That(t, got.Rules == exchange.Rules && slices.Equal(got.Refused, want.Refused) && slices.Equal(got.Hashes, want.Hashes),
			"%s: %s", name, out)
	}
}

// processOf returns the process that runs a reference row unpacked in dir.
func processOf(t *testing.T, row python.Row, dir string) exchange.Process {
	t.Helper()
	process, err := NewRow(row).process(0, dir)
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	return process
}

// endless returns a pipe that holds text, and its writing end; readers get no end of file until that is closed.
func endless(t *testing.T, text []byte) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	check.Must(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	check.Must(t, check.Err(w.Write(text)))
	return r, w
}

// TestRowsRefuse: every row refuses cells with unknown keys or values and names them. An invalid order, or one for a
// refused cell, gets an error.
func TestRowsRefuse(t *testing.T) {
	skip.Long(t)
	const order = `{"version": 2, "works": [
		{"clients": [{"id": 0}], "down": [{"name": "a", "dtype": "f32", "shape": [2]}]},
		{"down": [{"name": "a", "dtype": "f32", "shape": [2], "var": true}]},
		{"down": [{"name": "a", "dtype": "f8", "shape": [2]}]},
		{"down": [{"name": "a", "dtype": "f32"}, {"name": "a", "dtype": "f32"}]},
		{"down": [], "file": "a.safetensors"}],
		"cells": [
		{"work": 0, "workers": 1, "lanes_per_process": 1, "train_ms": 5},
		{"work": 0, "lanes_per_process": 1, "luck": 1},
		{"work": 4, "lanes_per_process": 1},
		{"work": 0, "lanes_per_process": 2},
		{"work": 1, "lanes_per_process": 1},
		{"work": 2, "lanes_per_process": 1},
		{"work": 3, "lanes_per_process": 1},
		{"work": 5, "lanes_per_process": 1}]`
	dir := rowsDir(t)
	for i, row := range python.Rows() {
		if slices.Contains(row.Modules, python.Torch()) && os.Getenv("IPCBENCH_TEST_SOAK") == "" {
			continue
		}
		process, err := NewRow(row).process(0, dir)
		if err != nil {
			continue // TestRows names what is missing
		}
		for j, c := range []struct{ order, want string }{
			{order + `}`, `"refused": ["", "it has \"luck\", which reference rows do not support", "it has \"file\", which reference rows do not support: choose --values uniform", "a process of a reference row has one worker: choose --lanes-per-process 1", ` +
				`"ValueError: tensor 'a': varying lengths are not supported", "ValueError: tensor 'a': unknown dtype 'f8'", "two tensors have one name", "IndexError: list index out of range"]}`},
			{order + `, "block": {}}`, `"error": "order: must have one cell`},
			{`{"version": 1}`, `"error": "an order of version 1, but this peer reads 2: see docs/reference/peer.md"`},
			{`{"version":`, `order: Expecting value`},
		} {
			if i > 0 && j > 0 {
				break // what all rows share
			}
			cmd := exec.CommandContext(t.Context(), process.Path, process.Args...)
			cmd.Stdin = strings.NewReader(c.order)
			out, err := cmd.CombinedOutput()
			check.That(t, (err == nil) == strings.HasPrefix(c.want, `"`) && strings.Contains(string(out), c.want),
				"%s: %s: %v\n%s\nwant %s", row.Name, c.order, err, out, c.want)
		}
	}
}

// TestUnnamed: py-shm and py-verl work where no name in /dev/shm can be created, so killed ones cannot leave a name.
func TestUnnamed(t *testing.T) {
	named := "def shm_open(*_, **__):\n    raise PermissionError('named shared memory')\nshm_unlink = shm_open\n"
	modules := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(modules, "_posixshmem.py"), []byte(named), 0o600))
	t.Setenv("PYTHONPATH", modules)
	dir, s := rowsDir(t), session.Spec{Model: everyType(t, "", 5), Workers: 2, Clients: 3, PerProcess: 1, Depth: 1}
	for _, name := range []string{"py-shm", "py-verl"} {
		p := NewRow(rowNamed(name))
		if _, err := p.Ready(); err != nil {
			skip.Missing(t, "%v", err)
		}
		blockOfRow(t, p, dir, s, result.Plan{Rounds: 1, Verify: session.VerifySample})
	}
}

// TestZmqTrackers: a worker of py-zmq may write to its update as soon as the trackers of all frames are done. The last
// frame is so small that its tracker is done at once.
func TestZmqTrackers(t *testing.T) {
	skip.Long(t)
	dir, row := rowsDir(t), rowNamed("py-zmq")
	row.File = "py_mine.py"
	check.Must(t, os.WriteFile(filepath.Join(dir, "peers", row.File), []byte(`
import common, py_zmq

def work(worker, *arguments):
    send = py_zmq.send
    def send_and_write(socket, to, job, update, copy):
        tracker = send(socket, to, job, update, copy)
        tracker.wait()
        for a in update.values():
            a[...] = 0
        return tracker
    py_zmq.send = send_and_write
    py_zmq.work(worker, *arguments)

if __name__ == "__main__":
    common.main(py_zmq.Server, work, copy="no", network="unix")
`), 0o600))
	p := NewRow(row)
	if _, err := p.Ready(); err != nil {
		skip.Missing(t, "%v", err)
	}
	l := check.Value(tensor.NewLayout([]tensor.Spec{{Name: "large", DType: tensor.F32, Shape: []int{4 << 20}}, {Name: "last", DType: tensor.F32}}))(t)
	s := session.Spec{Model: &models.Model{Name: "large", Layout: l}, Workers: 2, Clients: 3, PerProcess: 1, Depth: 1}
	blockOfRow(t, p, dir, s, result.Plan{Rounds: 4, Verify: session.VerifyAll})
}

// rowNamed returns the reference row of that name.
func rowNamed(name string) python.Row {
	rows := python.Rows()
	return rows[slices.IndexFunc(rows, func(r python.Row) bool { return r.Name == name })]
}

// TestSmallSharedMemory: a row whose tensors do not fit in /dev/shm is refused with the remedy, and doctor is told of
// its needs.
func TestSmallSharedMemory(t *testing.T) {
	free := check.Value(machine.Room(scratch.SharedMemory))(t)
	l := check.Value(tensor.NewLayout([]tensor.Spec{{Name: "large", DType: tensor.U8, Shape: []int{int(free)}}}))(t)
	o := driver.Options{Down: l, Up: l, Clients: 2}
	row := NewRow(rowNamed("py-blazefl"))
	needs := check.Value(row.Needs(o))(t)
	check.That(t, needs.Dir == scratch.SharedMemory && needs.Bytes >= 5*free, "%+v", needs)
	err := row.Check(o)
	for _, want := range []string{fmt.Sprint(needs.Bytes), "in /dev/shm", "docker run --shm-size=", "choose py-shm"} {
		check.Fails(t, err, want)
	}
	needs = check.Value(NewRow(rowNamed("py-shm")).Needs(o))(t)
	check.Equal(t, needs, driver.Needs{}, "of py-shm")
}

// TestRowScratch: temporary files of a reference row are created in the run's scratch folder, which the run removes.
func TestRowScratch(t *testing.T) {
	skip.Long(t)
	dir := t.TempDir()
	process := processOf(t, python.Row{Name: "py-mine", File: "py_mine.py"}, dir)
	check.Must(t, os.Mkdir(filepath.Join(dir, "peers"), 0o700))
	script := `import tempfile; print('{"version": 2, "rules": 4, "refused": ["%s"]}' % tempfile.gettempdir())`
	check.Must(t, os.WriteFile(filepath.Join(dir, "peers", "py_mine.py"), []byte(script), 0o600))
	a, err := exchange.First(t.Context(), process, firstOrder(nil), time.Minute)
	check.That(t, err == nil && slices.Equal(a.Refused, []string{dir}), "%+v, %v, want files in %s", a, err, dir)
}
