package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver/drivertest"
)

func TestMain(m *testing.M) {
	host().MaybeWorker()
	maybeLimited()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// payload is what the server sends to its clients: tensors three levels deep,
// and other things.
type payload struct {
	Epochs int
	Layers map[string][]layer
	Notes  map[string]string
}

type layer struct {
	Weight, Bias *receipt.Tensor
}

// update is what a client sends back.
type update struct {
	Client  int
	Samples int
	Device  string
	Config  string
	PID     int
	Round   int
	Stopped bool
	Delta   map[string]*receipt.Tensor
}

type job = trainer.ValueJob[payload, update]

func host() trainer.Host {
	note := func(t *job) {
		t.Update.Client, t.Update.Device, t.Update.Config = t.Client, t.Device, string(t.Config)
		t.Update.PID, t.Update.Round, t.Update.Stopped = os.Getpid(), t.Round, t.Stopped()
		t.Update.Samples = 999
	}
	return trainer.Host{Transports: append(all.Transports(), slows()...), Funcs: map[string]trainer.Func{
		"burn":    burn,
		"diverge": diverge,
		"stumble": stumble,
		"freeze":  freeze,
		"linger":  linger,
		"fork":    fork,
		// Writes into the prepared memory.
		"write": trainer.Values(func(t *job) error {
			note(t)
			if err := logCall(t); err != nil {
				return err
			}
			w := tensor.Slice[float32](t.Payload.Layers["body"][0].Weight.Data)
			for i, d := range tensor.Slice[float32](t.Update.Delta["w"].Data) {
				_ = d
				tensor.Slice[float32](t.Update.Delta["w"].Data)[i] = w[i] * float32(t.Client+1)
			}
			return nil
		}),
		// Replaces the prepared tensor by one of its own.
		"rebind": trainer.Values(func(t *job) error {
			note(t)
			own, err := receipt.NewTensor(tensor.F32, 4)
			if err != nil {
				return err
			}
			copy(tensor.Slice[float32](own.Data), []float32{1, 2, 3, float32(t.Client)})
			t.Update.Delta = map[string]*receipt.Tensor{"w": own}
			return nil
		}),
		// Counts those that run at once, in all processes: each has a file meanwhile.
		"count": trainer.Values(func(t *job) error {
			note(t)
			dir := t.Payload.Notes["running"]
			mine := filepath.Join(dir, strconv.Itoa(t.Client))
			if err := os.WriteFile(mine, nil, 0o600); err != nil {
				return err
			}
			<-time.After(20 * time.Millisecond) // long enough for the others to start
			all, err := os.ReadDir(dir)
			t.Update.Samples = len(all)
			return errors.Join(err, os.Remove(mine))
		}),
		// Counts the named segments for updates that its server has.
		"buffers": trainer.Values(func(t *job) error {
			note(t)
			dir, err := serversSegments()
			if err != nil {
				return err
			}
			all, err := filepath.Glob(filepath.Join(dir, "update-*"))
			t.Update.Samples = len(all)
			return err
		}),
		// The lower its number, the longer a client takes.
		"reverse": trainer.Values(func(t *job) error {
			note(t)
			<-time.After(time.Duration(10-t.Client) * 3 * time.Millisecond)
			return nil
		}),
		// Trains until the stop flag is set.
		"endless": trainer.Values(func(t *job) error {
			name := string(t.Config) // says that it runs
			if t.Stopped() {
				name += ".stopped"
			}
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				return err
			}
			epochs, err := os.Create(string(t.Config) + ".epochs")
			for err == nil && !t.Stopped() {
				<-time.After(100 * time.Millisecond)
				_, err = epochs.Write([]byte{'.'})
			}
			note(t)
			return errors.Join(err, epochs.Close())
		}),
	}}
}

// newUpdate is what a client of these tests sends.
func newUpdate(t *testing.T) update {
	t.Helper()
	w, err := receipt.NewTensor(tensor.F32, 4)
	check(t, err)
	return update{Client: 5, Delta: map[string]*receipt.Tensor{"w": w}}
}

// rate is the configuration of a client, unless a test wants another one.
func rate(client int) ([]byte, error) { return []byte("lr=" + strconv.Itoa(client)), nil }

func newPayload(t *testing.T, first float32) payload {
	t.Helper()
	w, err := receipt.NewTensor(tensor.F32, 4)
	check(t, err)
	b, err := receipt.NewTensor(tensor.F64)
	check(t, err)
	copy(tensor.Slice[float32](w.Data), []float32{first, first + 1, first + 2, first + 3})
	return payload{Epochs: 3, Layers: map[string][]layer{"body": {{Weight: w, Bias: b}}}, Notes: map[string]string{"k": "v"}}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newTrainer returns a trainer over transport with real processes, or with
// goroutines where the transport or the test wants that.
func newTrainer(t *testing.T, transport, fn string, workers int, inside bool) *trainer.ClientTrainer {
	t.Helper()
	h := host()
	v, err := transports.Parse(transport, h.Transports)
	check(t, err)
	launcher := trainer.NewGoroutines(h)
	if !inside {
		launcher = trainer.NewProcesses()
	}
	ct := &trainer.ClientTrainer{Update: newUpdate(t), Config: rate, Func: fn, Variant: v, Launcher: launcher, Workers: workers, Device: "cpu"}
	t.Cleanup(func() { check(t, ct.Close()) })
	return ct
}

// take returns the updates of the last Process and releases them.
func take(t *testing.T, ct *trainer.ClientTrainer) []update {
	t.Helper()
	var all []update
	for _, r := range ct.Results() {
		var u update
		check(t, r.Into(&u))
		if u.Client != r.Client {
			t.Errorf("result of client %d holds the update of client %d", r.Client, u.Client)
		}
		for name, d := range u.Delta { // the memory goes back
			u.Delta[name] = &receipt.Tensor{DType: d.DType, Shape: d.Shape, Data: slices.Clone(d.Data)}
		}
		all = append(all, u)
		r.Release()
	}
	return all
}

// TestValues: B8, B9, B15: every client gets its own configuration, the shared
// payload and its device, writes into the memory that was prepared for it, and
// both the numbers and what the worker changed beside them come back.
func TestValues(t *testing.T) {
	for _, transport := range all.Transports() {
		t.Run(transport.Name(), func(t *testing.T) {
			inside := drivertest.Inside(t, transport)
			ct := newTrainer(t, transport.Name(), "write", 2, inside)
			for round := range 3 {
				p := newPayload(t, float32(10*round))
				check(t, ct.Process(t.Context(), p, []int{7, 0, 3}))
				for n, u := range take(t, ct) {
					client := []int{7, 0, 3}[n]
					if u.Client != client || u.Samples != 999 || u.Device != "cpu" || u.Config != "lr="+strconv.Itoa(client) || u.Round != round {
						t.Errorf("round %d: got %+v, want client %d with its own fields", round, u, client)
					}
					if !inside && u.PID == os.Getpid() {
						t.Error("the worker ran in this process")
					}
					for i, got := range tensor.Slice[float32](u.Delta["w"].Data) {
						if want := (float32(10*round) + float32(i)) * float32(client+1); got != want {
							t.Errorf("round %d, client %d: element %d is %v, want %v", round, client, i, got, want)
						}
					}
				}
			}
		})
	}
}

// TestTooDeep: B11: a tensor deeper than the limit is reported, and arrives.
func TestTooDeep(t *testing.T) {
	ct := newTrainer(t, "pickle", "write", 1, false)
	ct.Nesting = 3 // payload, layers, body and the layer itself: its tensors are at depth 4
	if err := ct.Process(t.Context(), newPayload(t, 5), []int{2}); err != nil {
		t.Fatal(err)
	}
	want := []string{"Layers.body[0].Weight", "Layers.body[0].Bias"}
	if got := ct.Untouched(); !slices.Equal(got, want) {
		t.Errorf("untouched are %v, want %v", got, want)
	}
	u := take(t, ct)[0]
	if got := tensor.Slice[float32](u.Delta["w"].Data); !slices.Equal(got, []float32{15, 18, 21, 24}) {
		t.Errorf("got %v, want the payload's numbers times 3", got)
	}
}

// TestRebound: a worker that replaces a prepared tensor loses nothing.
func TestRebound(t *testing.T) {
	ct := newTrainer(t, "pickle", "rebind", 1, false)
	check(t, ct.Process(t.Context(), newPayload(t, 0), []int{6}))
	u := take(t, ct)[0]
	if got := tensor.Slice[float32](u.Delta["w"].Data); !slices.Equal(got, []float32{1, 2, 3, 6}) {
		t.Errorf("got %v, want the worker's own tensor", got)
	}
}

// TestDevices: B16.
func TestDevices(t *testing.T) {
	ct := newTrainer(t, "inproc", "write", 2, true)
	ct.Device, ct.Devices = "cuda", 3
	check(t, ct.Process(t.Context(), newPayload(t, 0), []int{0, 1, 5, 42}))
	for _, u := range take(t, ct) {
		if want := fmt.Sprintf("cuda:%d", u.Client%3); u.Device != want {
			t.Errorf("client %d: device %q, want %q", u.Client, u.Device, want)
		}
	}
}

// TestCache: B18, B22: as many results as clients, in the order of the clients
// whatever the order of completion, and handed out once.
func TestCache(t *testing.T) {
	ct := newTrainer(t, "pickle", "reverse", 3, false)
	for _, clients := range [][]int{{}, {42}, {0, 1, 2}, {5, 4, 3, 2, 1, 0, 6}} {
		check(t, ct.Process(t.Context(), newPayload(t, 0), clients))
		var got []int
		for _, u := range take(t, ct) {
			got = append(got, u.Client)
		}
		if !slices.Equal(got, clients) {
			t.Errorf("got clients %v, want %v", got, clients)
		}
		if again := ct.Results(); len(again) != 0 {
			t.Errorf("%d results were handed out twice", len(again))
		}
	}
}

// TestProgress: B19: the hook is called once with all pending results, and may
// wait for them in another order without mispairing any.
func TestProgress(t *testing.T) {
	ct := newTrainer(t, "pickle", "reverse", 2, false)
	var calls int
	var seen []int
	ct.Progress = func(pending iter.Seq[*trainer.Pending]) iter.Seq[*trainer.Pending] {
		calls++
		all := slices.Collect(pending)
		slices.Reverse(all)
		return func(yield func(*trainer.Pending) bool) {
			for _, p := range all {
				if seen = append(seen, p.Client); !yield(p) {
					return
				}
			}
		}
	}
	check(t, ct.Process(t.Context(), newPayload(t, 0), []int{1, 2, 3}))
	if calls != 1 || !slices.Equal(seen, []int{3, 2, 1}) {
		t.Errorf("hook was called %d times and waited for %v", calls, seen)
	}
	var got []int
	for _, u := range take(t, ct) { // take checks the pairing
		got = append(got, u.Client)
	}
	if !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("got clients %v, want them in the order of Process", got)
	}

	ct.Progress = func(pending iter.Seq[*trainer.Pending]) iter.Seq[*trainer.Pending] {
		return func(yield func(*trainer.Pending) bool) {}
	}
	if err := ct.Process(t.Context(), newPayload(t, 0), []int{1, 2}); err == nil || !strings.Contains(err.Error(), "0 of 2") {
		t.Errorf("a hook that drops results: got error %v", err)
	}
}

// TestUnset: B6, B21: what the author of a training left out is named.
func TestUnset(t *testing.T) {
	for name, unset := range map[string]func(*trainer.ClientTrainer){
		"Update": func(ct *trainer.ClientTrainer) { ct.Update = nil },
		"Config": func(ct *trainer.ClientTrainer) { ct.Config = nil },
	} {
		ct := newTrainer(t, "pickle", "write", 1, false)
		unset(ct)
		want := name + " of the ClientTrainer is not set"
		if err := ct.Process(t.Context(), newPayload(t, 0), []int{0}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
}

// TestBadCalls: mistakes of the caller are named, and the next call works.
func TestBadCalls(t *testing.T) {
	ct := newTrainer(t, "pickle", "write", 2, false)
	for name, c := range map[string]struct {
		payload any
		clients []int
		want    string
	}{
		"client twice":     {newPayload(t, 0), []int{1, 1}, "client 1"},
		"negative client":  {newPayload(t, 0), []int{-1}, "client -1"},
		"not transferable": {func() {}, []int{1}, "payload"},
	} {
		if err := ct.Process(t.Context(), c.payload, c.clients); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
	}
	check(t, ct.Process(t.Context(), newPayload(t, 0), []int{1}))
	other := newPayload(t, 0)
	other.Layers["more"] = []layer{{Weight: other.Layers["body"][0].Bias}}
	other.Layers["body"][0].Bias = nil
	other.Layers["more"][0].Weight, _ = receipt.NewTensor(tensor.I8, 3)
	if err := ct.Process(t.Context(), other, []int{1}); err == nil || !strings.Contains(err.Error(), "other tensors") {
		t.Errorf("another payload's tensors: got error %v", err)
	}
	check(t, ct.Process(t.Context(), newPayload(t, 3), []int{1}))
	if got := tensor.Slice[float32](take(t, ct)[0].Delta["w"].Data); !slices.Equal(got, []float32{6, 8, 10, 12}) {
		t.Errorf("after another payload's tensors: got %v, want the payload's numbers times 2", got)
	}
}

// TestHeldResults: results that are still out are an error at the next call, and
// not a wait for ever.
func TestHeldResults(t *testing.T) {
	ct := newTrainer(t, "pickle", "write", 2, false)
	check(t, ct.Process(t.Context(), newPayload(t, 0), []int{0, 1, 2, 3}))
	held := ct.Results()
	if err := ct.Process(t.Context(), newPayload(t, 0), []int{0, 1}); err == nil || !strings.Contains(err.Error(), "4 results") {
		t.Errorf("got error %v, want one that counts the results", err)
	}
	for _, r := range held {
		r.Release()
	}
	check(t, ct.Process(t.Context(), newPayload(t, 0), []int{0, 1}))
}

// TestGrow: more clients than before get a larger session.
func TestGrow(t *testing.T) {
	ct := newTrainer(t, "pickle", "write", 2, false)
	for _, n := range []int{1, 5, 2} {
		clients := make([]int, n)
		for i := range clients {
			clients[i] = i
		}
		check(t, ct.Process(t.Context(), newPayload(t, 0), clients))
		if got := take(t, ct); len(got) != n {
			t.Errorf("got %d results, want %d", len(got), n)
		}
	}
}

// TestOpenFails: a session that cannot start says why, and leaves nothing.
func TestOpenFails(t *testing.T) {
	h := host()
	v, err := transports.Parse("pickle", h.Transports)
	check(t, err)
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}})
	check(t, err)
	launcher := trainer.NewProcesses()
	good := trainer.Config{Variant: v, Down: l, Up: l, Workers: 1, Clients: 1, Func: "write", FuncConfig: nil, Launcher: launcher}
	for name, c := range map[string]struct {
		change func(*trainer.Config)
		want   string
	}{
		"no workers":               {func(c *trainer.Config) { c.Workers = 0 }, "0 workers"},
		"unknown function":         {func(c *trainer.Config) { c.Func = "nonsense" }, `no worker function "nonsense"`},
		"function's config":        {func(c *trainer.Config) { c.FuncConfig = []byte("rubbish") }, "worker function write: configuration"},
		"negative lanes a process": {func(c *trainer.Config) { c.PerProcess = -1 }, "-1 lanes"},
	} {
		cfg := good
		c.change(&cfg)
		p, err := trainer.Open(context.Background(), cfg)
		if err == nil {
			_, _ = p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
	}
}
