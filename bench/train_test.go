package bench_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
	"ipcbench/bench/place"
	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase/usage"
	"ipcbench/python"
	"ipcbench/tensor"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// trainings is a module with training functions, as users write them.
const trainings = `
last = {}

def more(model, update, job):
    """Adds one to all of the model, which therefore grows by one a round."""
    for name in model:
        if job.round > 0 and job.round - 1 in last and abs(model[name] - last[job.round - 1][name]).max() > 1e-4:
            raise ValueError("the next model is not what all clients have sent")
        update[name] = model[name] + 1
    last[job.round] = {name: array.copy() for name, array in update.items()}
    print("on stdout")

def fails(model, update, job):
    more(model, update, job)
    if job.round == 2:
        raise ValueError("no data for client %d" % job.client)

def late(model, update, job):
    """Writes again after the hash of the update has been sent, as a thread would by chance."""
    from ipcbench_worker.control import Control
    more(model, update, job)
    send, name = Control.send, next(iter(update))
    def after(self, kind, body):
        send(self, kind, body)
        if kind == "proof":
            update[name] = -1
    Control.send = after

copy = None

import socket, threading, time
sendall = socket.socket.sendall

def slowly(self, data):
    """The thread that answers marks keeps the lock of Control, so that a function forks while it is held."""
    sendall(self, data)
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0.05)

socket.socket.sendall = slowly

def returns_twice(model, update, job):
    import os
    global copy
    if copy is None:
        copy = os.fork()
    elif copy > 0:
        os.waitpid(copy, 0)
    more(model, update, job)

def leaves(model, update, job):
    import os, subprocess
    with open(os.environ["IPCBENCH_TEST_LEFT"], "a") as f:
        print(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid, file=f)
    more(model, update, job)
`

// pythonWith returns the interpreter for Python workers, and changes to a folder with the module trainings.
func pythonWith(t *testing.T) place.Python {
	t.Helper()
	found, err := python.Find(t.Context(), "", python.Numpy(), python.Xxhash())
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	dir := t.TempDir()
	check.Must(t, python.Unpack(t.Context(), dir))
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("trainings.py", []byte(trainings), 0o600))
	return place.Python{Interpreter: found, Dir: dir}
}

// inPython returns options of a run whose workers train with a function of the module trainings.
func inPython(t *testing.T, rounds int, with place.Python, of driver.Transport, function string) bench.Options {
	t.Helper()
	o := options(t, short(t, rounds, 1))
	o.Plan.Warmup, o.Plan.WarmTime, o.Python = 0, 0, with
	o.Cells = benchtest.Specs[session.Spec](t, []driver.Transport{of}, "shm-slab uniform:4KiB/3 clients=2 language=python train=trainings:"+function)
	return o
}

func slab() driver.Transport {
	ts := all.Transports()
	return ts[slices.IndexFunc(ts, func(of driver.Transport) bool { return of.Name() == "shm-slab" })]
}

// TestTrain: a user's function trains and its updates are averaged. Its rounds are proved by the hashes of the sent
// data, without a control or a reference chain.
func TestTrain(t *testing.T) {
	with := pythonWith(t)
	for _, respawn := range []bool{false, true} {
		o := inPython(t, 1, with, slab(), "more")
		o.Cells[0].Respawn = respawn
		r := run(t, o)
		check.Need(t, len(r.Cells) == 1 && r.Cells[0].Proved() && r.Cells[0].Train == "trainings:more",
			"want one cell of trainings:more that is proved, got %+v", r.Cells)
		b := r.Cells[0].Blocks[0]
		check.That(t, b.Proof.Hashed == 0 && b.Proof.Rounds >= 2 && b.Proof.Updates == 2*b.Proof.Rounds,
			"proof %+v: want all updates of two rounds or more, and no model of a reference chain", b.Proof)
	}
}

// TestTrainLeavesNothing: a process that a user's function has started in a session of its own
// ends with the worker.
func TestTrainLeavesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	t.Setenv("IPCBENCH_TEST_LEFT", file)
	run(t, inPython(t, 1, pythonWith(t), slab(), "leaves"))
	pids := strings.Fields(string(check.Value(os.ReadFile(file))(t)))
	check.Need(t, len(pids) > 0, "no process was started")
	for _, text := range pids {
		check.Equal(t, usage.State(check.Value(strconv.Atoi(text))(t)), "gone", text)
	}
}

// A flipper is shm-slab with one wrong bit in a published model or a collected update.
type flipper struct {
	driver.Transport
	down, up bool
}

func (f flipper) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
	s, err := f.Transport.Listen(ctx, e, o)
	return &flippingServer{s, f, o.Out, 0}, err
}

type flippingServer struct {
	driver.Server
	flipper
	out   *tensor.Ledger
	round int
}

func (s *flippingServer) Publish(ctx context.Context, p *tensor.Package) error {
	if s.round++; s.down && s.round == 2 {
		last(p)[0] ^= 1
	}
	return s.Server.Publish(ctx, p)
}

func (s *flippingServer) Collect(ctx context.Context, lane int) (*tensor.Package, driver.Delivered, error) {
	p, d, err := s.Server.Collect(ctx, lane)
	if err != nil || !s.up || s.round != 2 {
		return p, d, err
	}
	wrong := tensor.Alloc(p.Layout()) // a copy, because workers' memory cannot be written to
	wrong.CopyFrom(p)
	last(wrong)[0] ^= 1
	wrong.Lend(s.out, func(*tensor.Package) { p.Release() })
	return wrong, d, nil
}

// TestTrainFails: a wrong bit in either direction is found in a proved round. A function that raises an exception ends
// the run; the error names the function, the lane, the round and the client. So do two mistakes that a server could
// blame on its transport: an update that changes after its function has returned, and a forked process that returns.
func TestTrainFails(t *testing.T) {
	with := pythonWith(t)
	for _, c := range []struct {
		of       driver.Transport
		function string
		want     []string
	}{
		{flipper{slab(), true, false}, "more", []string{"round 1, client 0: downlink: the hash of the model is ", "shm-slab delivered wrong data"}},
		{flipper{slab(), false, true}, "more", []string{"round 1, client 0: uplink: the hash of the update is ",
			"shm-slab delivered wrong data"}},
		{slab(), "late", []string{"uplink: the hash of the update is ", ": trainings:late has changed it after it had "}},
		{slab(), "returns_twice", []string{"lane 0: trainings:returns_twice has returned in a process that it has forked"}},
		{slab(), "fails", []string{"train=trainings:fails", "round 2, client 0", "lane 0: trainings:fails: ValueError: no data for client 0\n",
			`trainings.py", line 16, in fails`, "on stdout"}},
		{slab(), "missing", []string{"no missing in ", "trainings.py"}},
	} {
		fails(t, inPython(t, 2, with, c.of, c.function), c.want...)
	}
}
