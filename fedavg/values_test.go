package fedavg_test

import (
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"ipcbench/fedavg"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
)

// config is the configuration of a client.
type config struct {
	Rate  int
	After string // the client after which await ends, if any
	File  string // the file that endless makes, if any
	Extra any
}

// payload is the value that the server sends to its clients: tensors, three levels deep, and text.
type payload struct {
	Layers map[string][]layer
	Notes  map[string]string
	Extra  any
}

type layer struct {
	Weight, Bias *receipt.Tensor
}

// note is a type that only interfaces hold.
type note struct{ Text string }

// update is a client's update.
type update struct {
	Client  int
	Seen    int
	Device  string
	Config  config
	PID     int
	Round   int
	Stopped bool
	Delta   map[string]*receipt.Tensor
	Extra   any
}

type job = fedavg.Job[config, payload, update]

// testHost returns the transports and worker functions of these tests.
func testHost() trainer.Host {
	h := exampleHost()
	for name, f := range map[string]func(*job) error{
		"write": write, "rebind": rebind, "count": count, "segments": segments, "await": await, "endless": endless,
	} {
		h.Funcs[name] = fedavg.Worker(func(j *job) error {
			j.Update.Client, j.Update.Device, j.Update.Config = j.Client, j.Device, j.Config
			j.Update.PID, j.Update.Round, j.Update.Extra = os.Getpid(), j.Round, j.Payload.Extra
			err := f(j)
			j.Update.Stopped = j.Stopped()
			return err
		}, note{})
	}
	return h
}

// write writes into the prepared memory.
func write(j *job) error {
	w, delta := floats(j.Payload.Layers["body"][0].Weight), floats(j.Update.Delta["w"])
	for i := range delta {
		delta[i] = w[i] * float32(j.Client+1)
	}
	return logCall(j)
}

// rebind replaces the prepared tensor with a tensor of its own.
func rebind(j *job) error {
	j.Update.Delta = vector(1, 2, 3, float32(j.Client))
	return nil
}

// await waits until the client that the configuration names, if any, is done.
func await(j *job) error {
	dir := j.Payload.Notes["done"]
	if j.Config.After != "" {
		appears(filepath.Join(dir, j.Config.After))
	}
	return os.WriteFile(filepath.Join(dir, strconv.Itoa(j.Client)), nil, 0o600)
}

// appears waits until a file exists.
func appears(path string) {
	waiting.Poll(func() bool { return check.Err(os.Stat(path)) == nil })
}

// vector returns tensors as those of an update, with these numbers.
func vector(numbers ...float32) map[string]*receipt.Tensor {
	w := newTensor(len(numbers))
	copy(floats(w), numbers)
	return map[string]*receipt.Tensor{"w": w}
}

func newPayload(first float32) payload {
	w := vector(first, first+1, first+2, first+3)["w"]
	return payload{
		Layers: map[string][]layer{"body": {{Weight: w, Bias: newTensor()}}},
		Notes:  map[string]string{"k": "v"}, Extra: note{"any"},
	}
}

// over returns a transport, and a launcher of real processes, or of goroutines if the transport works only within a
// process.
func over(t *testing.T, transport string) (transports.Variant, trainer.Launcher) {
	t.Helper()
	h := testHost()
	v := check.Value(transports.Parse(transport, h.Transports))(t)
	if v.Traits().Reach == driver.Process {
		return v, trainer.NewGoroutines(h)
	}
	return v, trainer.NewProcesses()
}

func newTrainer(t *testing.T, transport, fn string, workers int) *fedavg.Trainer[config, payload, update] {
	t.Helper()
	ct := &fedavg.Trainer[config, payload, update]{
		Update: &update{Client: 5, Seen: 999, Delta: vector(0, 0, 0, 0)},
		Config: func(client int) (config, error) { return config{Rate: client, Extra: note{"own"}}, nil },
		Device: fedavg.Devices("cpu", 0), Func: fn, Workers: workers, Known: []any{note{}},
	}
	ct.Variant, ct.Launcher = over(t, transport)
	t.Cleanup(func() { check.OK(t, ct.Close()) })
	return ct
}

// process trains clients, and returns copies of their updates, which it releases.
func process(t *testing.T, ct *fedavg.Trainer[config, payload, update], p payload, clients ...int) (all []update) {
	t.Helper()
	check.Must(t, ct.Process(waiting.Context(t), p, clients))
	for _, r := range ct.Results() {
		check.Equal(t, r.Update.Client, r.Client, "the client of a result's update")
		for name, d := range r.Update.Delta { // Release returns the memory
			r.Update.Delta[name] = &receipt.Tensor{DType: d.DType, Shape: d.Shape, Data: slices.Clone(d.Data)}
		}
		all = append(all, r.Update)
		r.Release()
	}
	return all
}

// upTo returns the ids of the first n clients.
func upTo(n int) (clients []int) {
	for id := range n {
		clients = append(clients, id)
	}
	return clients
}

// ids returns the clients of updates.
func ids(updates []update) []int {
	all := []int{}
	for _, u := range updates {
		all = append(all, u.Client)
	}
	return all
}

// TestValues: B8, B9, B15, B16: every client gets its own configuration, the shared payload and its device, and writes
// into its prepared memory. Both the numbers and the other fields that the worker changed are returned.
func TestValues(t *testing.T) {
	for _, transport := range all.Transports() {
		t.Run(transport.Name(), func(t *testing.T) {
			ct := newTrainer(t, transport.Name(), "write", 2)
			for round := range 3 {
				for n, u := range process(t, ct, newPayload(float32(10*round)), 7, 0, 3) {
					client := []int{7, 0, 3}[n]
					first, factor := float32(10*round), float32(client+1)
					check.Equal(t, u, update{
						Client: client, Seen: 999, Device: "cpu", Config: config{Rate: client, Extra: note{"own"}},
						PID: u.PID, Round: round, Extra: note{"any"},
						Delta: vector(first*factor, (first+1)*factor, (first+2)*factor, (first+3)*factor),
					})
					inside := ct.Variant.Traits().Reach == driver.Process
					check.Equal(t, u.PID == os.Getpid(), inside, "the worker ran in this process")
				}
			}
		})
	}
}

// TestTooDeep: B11: tensors deeper than the limit are reported, and arrive.
func TestTooDeep(t *testing.T) {
	ct := newTrainer(t, "pickle", "write", 1)
	ct.Nesting = 3 // payload, layers, body and the layer itself: its tensors are at depth 4
	u := process(t, ct, newPayload(5), 2)[0]
	check.Equal(t, ct.Untouched, []string{"Layers.body[0].Weight", "Layers.body[0].Bias"})
	check.Equal(t, u.Delta, vector(15, 18, 21, 24)) // the payload's numbers times 3
}

// TestRebound: a worker that replaces a prepared tensor loses nothing.
func TestRebound(t *testing.T) {
	ct := newTrainer(t, "pickle", "rebind", 1)
	check.Equal(t, process(t, ct, newPayload(0), 6)[0].Delta, vector(1, 2, 3, 6))
}

// TestCache: B18, B22: there are as many results as clients, in the clients' order whatever the order of completion,
// and Results returns them once.
func TestCache(t *testing.T) {
	ct := newTrainer(t, "pickle", "await", 3)
	for _, clients := range [][]int{{}, {42}, {0, 1, 2}, {5, 4, 3, 2, 1, 0, 6}} {
		ct.Config = func(client int) (c config, err error) {
			if len(clients) > 1 && client == clients[0] {
				c.After = strconv.Itoa(clients[1]) // the first is done after the second one
			}
			return c, nil
		}
		p := newPayload(0)
		p.Notes["done"] = t.TempDir()
		check.Equal(t, ids(process(t, ct, p, clients...)), clients)
		check.Equal(t, len(ct.Results()), 0) // process has called Results
	}
}

// TestProgress: B19: the hook is called once with all pending results. If it waits for them in another order, they
// still belong to the right clients.
func TestProgress(t *testing.T) {
	ct := newTrainer(t, "pickle", "write", 2)
	var calls int
	var seen []int
	ct.Progress = func(pending iter.Seq[*fedavg.Pending]) iter.Seq[*fedavg.Pending] {
		calls++
		all := slices.Collect(pending)
		slices.Reverse(all)
		return func(yield func(*fedavg.Pending) bool) {
			for _, p := range all {
				if seen = append(seen, p.Client); !yield(p) {
					return
				}
			}
		}
	}
	check.Equal(t, ids(process(t, ct, newPayload(0), 1, 2, 3)), []int{1, 2, 3}) // process checks the pairing
	check.Equal(t, calls, 1)
	check.Equal(t, seen, []int{3, 2, 1})

	ct.Progress = func(pending iter.Seq[*fedavg.Pending]) iter.Seq[*fedavg.Pending] {
		return func(yield func(*fedavg.Pending) bool) {}
	}
	check.Fails(t, ct.Process(waiting.Context(t), newPayload(0), []int{1, 2}), "0 of 2")
}

// TestUnset: B6, B21: the error names a required field that is not set.
func TestUnset(t *testing.T) {
	ct := newTrainer(t, "pickle", "write", 1)
	ct.Config = nil
	check.Fails(t, ct.Process(t.Context(), newPayload(0), []int{0}), "Config is not set")
	ct.Update = nil
	check.Fails(t, ct.Process(t.Context(), newPayload(0), []int{0}), "Update is not set")
}

// TestBadCalls: errors name the caller's mistake, and the next call works.
func TestBadCalls(t *testing.T) {
	ct := newTrainer(t, "pickle", "write", 2)
	fails := func(text string, p payload, clients ...int) {
		t.Helper()
		check.Fails(t, ct.Process(waiting.Context(t), p, clients), text)
		check.Equal(t, len(ct.Results()), 0, text)
	}
	fails("client 1", newPayload(0), 1, 1)
	fails("client -1", newPayload(0), -1)
	fails("payload", payload{Extra: func() {}}, 1)
	usual := ct.Config
	ct.Config = func(int) (config, error) { return config{Extra: func() {}}, nil }
	fails("configuration of client 1", newPayload(0), 1)
	ct.Config, ct.Known = usual, nil
	fails("update of client 2", newPayload(0), 2, 3)
	ct.Known = []any{note{}}
	check.Must(t, ct.Process(waiting.Context(t), newPayload(0), upTo(4)))
	held := ct.Results()
	fails("4 results", newPayload(0), 1)
	for _, r := range held {
		r.Release()
	}
	other := newPayload(0)
	other.Layers["more"] = []layer{{Weight: check.Value(receipt.NewTensor(tensor.I8, 3))(t)}}
	fails("tensors of the payload must be the same", other, 1)
	check.Equal(t, process(t, ct, newPayload(3), 1)[0].Delta, vector(6, 8, 10, 12)) // the payload's numbers times 2
}
