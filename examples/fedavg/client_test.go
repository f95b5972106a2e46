package main

import (
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
)

// payload is the value that the server sends to its clients: tensors, three levels
// deep, and text.
type payload struct {
	Layers map[string][]layer
	Notes  map[string]string
}

type layer struct {
	Weight, Bias *receipt.Tensor
}

// update is a client's update.
type update struct {
	Client  int
	Seen    int
	Device  string
	Config  string
	PID     int
	Round   int
	Stopped bool
	Delta   map[string]*receipt.Tensor
}

type job = trainer.ValueJob[payload, update]

// testHost returns the transports and worker functions of these tests.
func testHost() trainer.Host {
	h := host()
	for name, f := range map[string]func(*job) error{
		"write": write, "rebind": rebind, "count": count, "segments": segments, "await": await, "endless": endless,
	} {
		h.Funcs[name] = trainer.Values(func(j *job) error {
			j.Update.Client, j.Update.Device, j.Update.Config = j.Client, j.Device, string(j.Config)
			j.Update.PID, j.Update.Round = os.Getpid(), j.Round
			err := f(j)
			j.Update.Stopped = j.Stopped()
			return err
		})
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
	own := newTensor(4)
	copy(floats(own), []float32{1, 2, 3, float32(j.Client)})
	j.Update.Delta = map[string]*receipt.Tensor{"w": own}
	return nil
}

// await waits until the client that the configuration names, if any, is done.
func await(j *job) error {
	dir := j.Payload.Notes["done"]
	if other := string(j.Config); other != "" {
		appears(filepath.Join(dir, other))
	}
	return os.WriteFile(filepath.Join(dir, strconv.Itoa(j.Client)), nil, 0o600)
}

// appears waits until a file exists.
func appears(path string) {
	for _, err := os.Stat(path); err != nil; _, err = os.Stat(path) {
		<-time.After(time.Millisecond)
	}
}

// newUpdate returns the trainers' example of an update.
func newUpdate() update {
	return update{Client: 5, Seen: 999, Delta: map[string]*receipt.Tensor{"w": newTensor(4)}}
}

// rate returns the default configuration of a client.
func rate(client int) ([]byte, error) { return []byte("lr=" + strconv.Itoa(client)), nil }

func newPayload(first float32) payload {
	w, b := newTensor(4), newTensor()
	copy(floats(w), []float32{first, first + 1, first + 2, first + 3})
	return payload{Layers: map[string][]layer{"body": {{Weight: w, Bias: b}}}, Notes: map[string]string{"k": "v"}}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails fails the test unless err contains text.
func fails(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v, want one that contains %q", err, text)
	}
}

// equal fails the test unless got equals want.
func equal[T any](t testing.TB, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// newTrainer returns a trainer over transport with real processes, or with goroutines
// (inside is true) if the transport works only within a process.
func newTrainer(t *testing.T, transport, fn string, workers int) (ct *ClientTrainer, inside bool) {
	t.Helper()
	h := testHost()
	v, err := transports.Parse(transport, h.Transports)
	check(t, err)
	launcher := trainer.NewProcesses()
	if inside = v.Traits().Reach == driver.Process; inside {
		launcher = trainer.NewGoroutines(h)
	}
	ct = &ClientTrainer{Update: newUpdate(), Config: rate, Func: fn, Variant: v, Launcher: launcher, Workers: workers, Device: "cpu"}
	t.Cleanup(func() { check(t, ct.Close()) })
	return ct, inside
}

// process trains clients, and returns copies of their updates, which it releases.
func process(t *testing.T, ct *ClientTrainer, p payload, clients ...int) (all []update) {
	t.Helper()
	check(t, ct.Process(t.Context(), p, clients))
	for _, r := range ct.Results() {
		var u update
		check(t, r.Into(&u))
		if u.Client != r.Client {
			t.Errorf("result of client %d holds the update of client %d", r.Client, u.Client)
		}
		for name, d := range u.Delta { // Release returns the memory
			u.Delta[name] = &receipt.Tensor{DType: d.DType, Shape: d.Shape, Data: slices.Clone(d.Data)}
		}
		all = append(all, u)
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

// TestValues: B8, B9, B15: every client gets its own configuration, the shared
// payload and its device, and writes into its prepared memory. Both the numbers and
// the other fields that the worker changed are returned.
func TestValues(t *testing.T) {
	for _, transport := range all.Transports() {
		t.Run(transport.Name(), func(t *testing.T) {
			ct, inside := newTrainer(t, transport.Name(), "write", 2)
			for round := range 3 {
				for n, u := range process(t, ct, newPayload(float32(10*round)), 7, 0, 3) {
					client := []int{7, 0, 3}[n]
					if u.Client != client || u.Seen != 999 || u.Device != "cpu" || u.Config != "lr="+strconv.Itoa(client) || u.Round != round {
						t.Errorf("round %d: got %+v, want client %d with its own fields", round, u, client)
					}
					if !inside && u.PID == os.Getpid() {
						t.Error("the worker ran in this process")
					}
					for i, got := range floats(u.Delta["w"]) {
						if want := (float32(10*round) + float32(i)) * float32(client+1); got != want {
							t.Errorf("round %d, client %d: element %d is %v, want %v", round, client, i, got, want)
						}
					}
				}
			}
		})
	}
}

// TestTooDeep: B11: tensors deeper than the limit are reported, and arrive.
func TestTooDeep(t *testing.T) {
	ct, _ := newTrainer(t, "pickle", "write", 1)
	ct.Nesting = 3 // payload, layers, body and the layer itself: its tensors are at depth 4
	u := process(t, ct, newPayload(5), 2)[0]
	equal(t, ct.Untouched, []string{"Layers.body[0].Weight", "Layers.body[0].Bias"})
	equal(t, floats(u.Delta["w"]), []float32{15, 18, 21, 24}) // the payload's numbers times 3
}

// TestRebound: a worker that replaces a prepared tensor loses nothing.
func TestRebound(t *testing.T) {
	ct, _ := newTrainer(t, "pickle", "rebind", 1)
	equal(t, floats(process(t, ct, newPayload(0), 6)[0].Delta["w"]), []float32{1, 2, 3, 6})
}

// TestCache: B18, B22: there are as many results as clients, in the clients' order
// whatever the order of completion, and Results returns them once.
func TestCache(t *testing.T) {
	ct, _ := newTrainer(t, "pickle", "await", 3)
	for _, clients := range [][]int{{}, {42}, {0, 1, 2}, {5, 4, 3, 2, 1, 0, 6}} {
		ct.Config = func(client int) ([]byte, error) {
			if len(clients) > 1 && client == clients[0] {
				return []byte(strconv.Itoa(clients[1])), nil // the first is done after the second one
			}
			return nil, nil
		}
		p := newPayload(0)
		p.Notes["done"] = t.TempDir()
		equal(t, ids(process(t, ct, p, clients...)), clients)
		equal(t, len(ct.Results()), 0) // process has called Results
	}
}

// TestProgress: B19: the hook is called once with all pending results. If it waits for
// them in another order, they still belong to the right clients.
func TestProgress(t *testing.T) {
	ct, _ := newTrainer(t, "pickle", "write", 2)
	var calls int
	var seen []int
	ct.Progress = func(pending iter.Seq[*Pending]) iter.Seq[*Pending] {
		calls++
		all := slices.Collect(pending)
		slices.Reverse(all)
		return func(yield func(*Pending) bool) {
			for _, p := range all {
				if seen = append(seen, p.Client); !yield(p) {
					return
				}
			}
		}
	}
	equal(t, ids(process(t, ct, newPayload(0), 1, 2, 3)), []int{1, 2, 3}) // process checks the pairing
	equal(t, calls, 1)
	equal(t, seen, []int{3, 2, 1})

	ct.Progress = func(pending iter.Seq[*Pending]) iter.Seq[*Pending] {
		return func(yield func(*Pending) bool) {}
	}
	fails(t, ct.Process(t.Context(), newPayload(0), []int{1, 2}), "0 of 2")
}

// TestUnset: B6, B21: the error names a required field that is not set.
func TestUnset(t *testing.T) {
	ct, _ := newTrainer(t, "pickle", "write", 1)
	ct.Config = nil
	fails(t, ct.Process(t.Context(), newPayload(0), []int{0}), "Config is not set")
	ct.Update = nil
	fails(t, ct.Process(t.Context(), newPayload(0), []int{0}), "Update is not set")
}

// TestBadCalls: errors name the caller's mistake, and the next call works.
func TestBadCalls(t *testing.T) {
	ct, _ := newTrainer(t, "pickle", "write", 2)
	fails(t, ct.Process(t.Context(), newPayload(0), []int{1, 1}), "client 1")
	fails(t, ct.Process(t.Context(), newPayload(0), []int{-1}), "client -1")
	fails(t, ct.Process(t.Context(), func() {}, []int{1}), "payload")
	check(t, ct.Process(t.Context(), newPayload(0), upTo(4)))
	held := ct.Results()
	fails(t, ct.Process(t.Context(), newPayload(0), []int{1}), "4 results")
	for _, r := range held {
		r.Release()
	}
	other := newPayload(0)
	bytes, err := receipt.NewTensor(tensor.I8, 3)
	check(t, err)
	other.Layers["more"] = []layer{{Weight: bytes}}
	fails(t, ct.Process(t.Context(), other, []int{1}), "tensors of the payload must be the same")
	equal(t, floats(process(t, ct, newPayload(3), 1)[0].Delta["w"]), []float32{6, 8, 10, 12}) // the payload's numbers times 2
}
