package report

import (
	"bytes"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ipcbench/bench"
	"ipcbench/machine"
	"ipcbench/phase/usage"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nrun the test with -update and look at the difference", path, diff)
	}
}

func format(t testing.TB, name string, r *bench.Result) string {
	t.Helper()
	for _, f := range Formats() {
		if f.Name != name {
			continue
		}
		var b bytes.Buffer
		if err := f.Write(&b, r); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	t.Fatalf("no format %s", name)
	return ""
}

const (
	ms = int64(time.Millisecond)
	mb = int64(1e6)
)

var models = map[string]bench.Model{
	"cnn":       {Name: "cnn", Tensors: 10, Bytes: 248024},
	"resnet18":  {Name: "resnet18", Tensors: 122, Bytes: 46796608},
	"histology": {Name: "histology", Tensors: 20, Bytes: 66608288},
}

// plainCell returns a cell whose numbers can be checked by hand: every block has
// two rounds, and each of its rounds takes as many ms as rounds says for the
// block. Training takes half of a round, the way down 30 % and that back 15 %, so
// that up, which holds the training, is 65 %.
func plainCell(transport string, m bench.Model, workers, clients int, rounds ...float64) bench.Cell {
	c := bench.Cell{
		Transport: transport, Variant: transport, Settings: map[string]string{}, Model: m,
		Workers: workers, PerProcess: 1, Clients: clients, Depth: 2, Launcher: "processes", Stopped: "time",
	}
	for i, r := range rounds {
		b := bench.Block{
			Index: i, Position: i, Spawn: 20 * time.Millisecond, Phases: map[string]int64{},
			Cold: bench.Cold{Round: int64(3 * r * float64(ms))}, Proof: bench.Proof{Rounds: 2, Updates: 2 * clients, Hashed: 3},
			System: &usage.System{Busy: time.Second, Idle: time.Second}, Spans: 100, SpanCost: 80,
		}
		for range 2 {
			ns := int64(r * float64(ms))
			b.Round = append(b.Round, ns)
			b.Unattributed += ns / 100
			b.Phases["train"] += ns / 2
			for range clients {
				share := ns * int64(workers) / int64(clients)
				b.Train = append(b.Train, share/2)
				b.RTT = append(b.RTT, share*95/100)
				b.Down = append(b.Down, share*30/100)
				b.Up = append(b.Up, share*65/100)
			}
		}
		b.Server = process(2*r/1e3, 100*mb)
		for range workers {
			b.Processes = append(b.Processes, process(r/1e3, 50*mb))
		}
		c.Blocks = append(c.Blocks, b)
	}
	return c
}

// process returns what a process spent on the two rounds of a block.
func process(cpu float64, peak int64) bench.Process {
	pss := peak / 2
	return bench.Process{
		Usage: usage.Usage{
			User: time.Duration(cpu * 0.75 * 1e9), System: time.Duration(cpu * 0.25 * 1e9), MinorFaults: 10, VoluntarySwitches: 4,
			AllocBytes: 2000, AllocObjects: 20, Queue: &usage.Queue{Wait: time.Millisecond},
		},
		Memory: usage.Memory{Peak: peak, RSS: peak, Shmem: peak / 4, PSS: &pss},
		Counts: map[string]int64{},
	}
}

func plainResult(cells ...bench.Cell) *bench.Result {
	plan, err := bench.DefaultPlan(bench.Default)
	if err != nil {
		panic(err)
	}
	return &bench.Result{
		Schema: bench.Schema, Command: []string{"/usr/bin/ipcbench", "run", "--transport", "pickle,shm-slab"},
		Started: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Elapsed: 42 * time.Second, Plan: plan,
		Environment: machine.Environment{
			Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), CPU: "Test CPU", CPUs: 2, Affinity: "0-1", GOMAXPROCS: 2, LLC: 32 << 20,
			Arch: "amd64", Kernel: "6.1.0", MemTotal: 8e9, MemAvailable: 6e9, THP: "madvise", ShmemTHP: "never",
			Shm: &machine.Space{FileSystem: "tmpfs", Size: 4e9, Free: 4e9}, Go: "go1.26.8", Commit: "0123456789abcdef",
		},
		Cells: cells,
	}
}

// count adds a counter to the server of every block of c.
func count(c bench.Cell, name string, n int64) bench.Cell {
	for i := range c.Blocks {
		c.Blocks[i].Server.Counts[name] += n
	}
	return c
}

// kinds say how the transports of the synthetic result behave.
var kinds = []struct {
	name           string
	fixed, perByte float64 // seconds a client, and a byte of the payload
	handles        bool
	calls          func(tensors int) map[string]int64 // a client
}{
	{name: "inproc", handles: true},
	{name: "pickle", fixed: 150e-6, perByte: 0.9e-9},
	{name: "storage", fixed: 400e-6, perByte: 1.3e-9},
	{name: "shm-slab", fixed: 60e-6, perByte: 0.02e-9, handles: true},
	{name: "grpc-tensor", fixed: 300e-6, perByte: 2.1e-9, calls: func(tensors int) map[string]int64 {
		return map[string]int64{"GetTasks": 1, "GetTensor": int64(tensors), "SendResults": 3}
	}},
	{name: "http", fixed: 120e-6, perByte: 0.6e-9, calls: func(int) map[string]int64 { return map[string]int64{"jobs": 1, "batch": 1, "results": 1} }},
	{name: "http-shm", fixed: 260e-6, perByte: 0.03e-9, handles: true, calls: func(int) map[string]int64 { return map[string]int64{"jobs": 1, "results": 1} }},
}

// synthetic returns a result as a run would have made it, the same at every
// call: rounds vary by 2 % and sessions by 1 %.
func synthetic(blocks, rounds int) *bench.Result {
	r := rand.New(rand.NewPCG(1, 2))
	vary := func(x, by float64) float64 { return x * math.Exp(by*r.NormFloat64()) }
	res := plainResult()
	for _, name := range []string{"cnn", "resnet18", "histology"} {
		m := models[name]
		for _, size := range [][2]int{{1, 1}, {2, 4}} {
			workers, clients := size[0], size[1]
			for _, k := range kinds {
				c := bench.Cell{
					Transport: k.name, Variant: k.name, Settings: map[string]string{"depth": "2"}, Model: m, Workers: workers, PerProcess: 1,
					Clients: clients, Depth: 2, Launcher: "processes", Stopped: "precision",
				}
				for i := range blocks {
					level := vary(1, 0.01)
					b := bench.Block{
						Index: i, Position: r.IntN(1000), Spawn: time.Duration(vary(25e6*float64(workers), 0.1)), Phases: map[string]int64{},
						Proof: bench.Proof{Rounds: 2, Updates: 2 * clients, Hashed: rounds}, SpanCost: 70, Spans: int64(rounds * clients * 9),
						System: &usage.System{Busy: 3 * time.Second, Idle: time.Second},
					}
					turns := float64(clients) / float64(workers)
					for range rounds {
						work := vary(0.6e-9*float64(m.Bytes)+20e-6, 0.02) * level
						move := (k.fixed + k.perByte*2*float64(m.Bytes)) * level
						fold := 0.3e-9 * float64(m.Bytes) * level
						round := (work+vary(move, 0.02))*turns + fold*float64(clients)
						b.Round = append(b.Round, int64(round*1e9))
						b.Unattributed += 5000
						sum := map[string]float64{"train": 0, "fold": fold * float64(clients), "publish": 1e-6}
						for range clients {
							down, up := vary(move*0.6, 0.05), vary(move*0.4, 0.05)
							b.Train = append(b.Train, int64(work*1e9))
							b.Down = append(b.Down, int64(down*1e9))
							b.Up = append(b.Up, int64((work+up)*1e9))
							b.RTT = append(b.RTT, int64((work+down+up)*1e9))
							sum["train"] += work
							sum["receive"] += down
							sum["submit"] += up / 2
							sum["collect"] += up / 2
							if !k.handles {
								sum["encode"] += move * 0.2
								sum["decode"] += move * 0.3
							}
						}
						for name, s := range sum {
							b.Phases[name] += int64(s * 1e9)
						}
					}
					b.Cold.Round = b.Round[0] * 2
					n := int64(rounds * clients)
					b.Server = process(float64(b.Round[0])/1e9*float64(rounds)*0.6, 80*mb+3*m.Bytes)
					if k.name != control {
						for range workers {
							b.Processes = append(b.Processes, process(float64(b.Round[0])/1e9*float64(rounds)*0.4, 40*mb+2*m.Bytes))
						}
					}
					tensors := 2 * n * int64(m.Tensors)
					if k.handles {
						b.Server.Counts["handle.tensors"] = tensors
					} else {
						b.Server.Counts["body.tensors"] = tensors
						b.Server.Counts["wire.sent"] = 2*n*m.Bytes + 100*n
					}
					if k.calls != nil {
						for name, calls := range k.calls(m.Tensors) {
							b.Server.Counts["calls."+name] = n * calls
						}
					}
					c.Blocks = append(c.Blocks, b)
				}
				res.Cells = append(res.Cells, c)
			}
			var work [][]float64
			for range blocks {
				work = append(work, []float64{vary((0.6e-9*float64(m.Bytes)+20e-6)*float64(clients)+0.3e-9*float64(m.Bytes)*float64(clients), 0.01)})
			}
			res.Floors = append(res.Floors, bench.Floor{Name: "work", Unit: "s", Model: m.Name, Clients: clients, Blocks: work, Help: "the arithmetic of a round, by direct calls"})
		}
		var wake [][]float64
		for range blocks {
			wake = append(wake, []float64{vary(20e-6, 0.05), vary(20e-6, 0.05)})
		}
		res.Floors = append(res.Floors, bench.Floor{Name: "futex", Unit: "s", Model: m.Name, Gap: 40 * ms, Blocks: wake, Help: "waking another process and being woken by it"})
	}
	var stream, copied [][]float64
	for range blocks {
		stream = append(stream, []float64{vary(2.6e9, 0.02)})
		copied = append(copied, []float64{vary(3.4e9, 0.02)})
	}
	res.Floors = append(res.Floors,
		bench.Floor{Name: "unix-stream", Variant: "64 KiB", Unit: "B/s", Blocks: stream, Help: "bytes through a Unix socket"},
		bench.Floor{Name: "copy", Unit: "B/s", Blocks: copied, Help: "one thread copies memory"})
	return res
}

// TestSynthetic: the results of this file are such as a run could write.
func TestSynthetic(t *testing.T) {
	for i, r := range []*bench.Result{synthetic(6, 10), plainResult(plainCell("pickle", models["cnn"], 1, 1, 1, 2))} {
		if err := r.Validate(); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestFormats: every format has a golden of a realistic result, and one for
// pull requests stays below GitHub's limit.
func TestFormats(t *testing.T) {
	r := synthetic(6, 10)
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			res := r
			if f.Name == "json" { // its samples are many: one small cell will do
				res = plainResult(plainCell("pickle", models["cnn"], 1, 1, 10, 11))
			}
			golden(t, "result."+f.Name, format(t, f.Name, res))
		})
	}
}

func TestHelp(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		if m.Help == "" || m.Unit == "" || seen[m.Name] || (m.Better != "" && m.Better != lower && m.Better != higher) || (m.samples == nil) == (m.derived == nil) {
			t.Errorf("metric %+v", m)
		}
		seen[m.Name] = true
	}
	for _, name := range []string{"round", "overhead", "transfer", "down", "up", "train", "bandwidth", "goodput", "unattributed", "proved"} {
		if !seen[name] {
			t.Errorf("no metric %s, which scripts read", name)
		}
	}
	for _, v := range Views() {
		if v.Help == "" || seen["view "+v.Name] {
			t.Errorf("view %q", v.Name)
		}
		seen["view "+v.Name] = true
	}
}
