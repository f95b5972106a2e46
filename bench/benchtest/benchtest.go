// Package benchtest makes results for the tests of packages that read them.
package benchtest

import (
	"encoding"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/phase/usage"
	"ipcbench/tensor"
)

// Units of the numbers in results.
const (
	MS = int64(time.Millisecond) // in ns
	MB = int64(1e6)              // in B
)

// Models has the models of test cells, by name.
var Models = map[string]result.Model{
	"cnn":       {Name: "cnn", Tensors: 10, Bytes: 248024},
	"resnet18":  {Name: "resnet18", Tensors: 122, Bytes: 46796608},
	"histology": {Name: "histology", Tensors: 20, Bytes: 66608288},
}

// Text parses text as a value of type T, and panics if it cannot.
func Text[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](text string) (x T) {
	if err := P(&x).UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return x
}

// Cell returns a cell with numbers that can be checked by hand. Each element of rounds makes a block of two rounds that
// take that many ms. Of a client's share of a round, the downlink takes 30 %, and the uplink 65 %, which includes
// 50 % of training.
func Cell(transport string, m result.Model, workers, clients int, rounds ...float64) result.Cell {
	c := result.Cell{
		Transport: transport, Variant: transport, Settings: map[string]string{}, Model: m,
		Workers: workers, PerProcess: 1, Clients: clients, Depth: 2, Launcher: "processes", Stopped: "time",
	}
	for i, r := range rounds {
		b := result.Block{
			Index: i, Position: i, Spawn: 20 * time.Millisecond, Phases: map[string]int64{},
			Cold: result.Cold{Round: int64(3 * r * float64(MS))}, Proof: result.Proof{Rounds: 2, Updates: 2 * clients, Hashed: 3},
			System: &usage.System{Busy: time.Second, Idle: time.Second}, Spans: 100, SpanCost: 80,
		}
		for range 2 {
			ns := int64(r * float64(MS))
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
		b.Server = Process(2*r/1e3, 100*MB)
		for range workers {
			b.Processes = append(b.Processes, Process(r/1e3, 50*MB))
		}
		c.Blocks = append(c.Blocks, b)
	}
	return c
}

// Process returns a process's usage in the two rounds of a block: cpu in seconds, peak in bytes.
func Process(cpu float64, peak int64) result.Process {
	pss := peak / 2
	return result.Process{
		Usage: usage.Usage{
			User: time.Duration(cpu * 0.75 * 1e9), System: time.Duration(cpu * 0.25 * 1e9), MinorFaults: 10, VoluntarySwitches: 4,
			AllocBytes: 2000, AllocObjects: 20, Queue: &usage.Queue{Wait: time.Millisecond},
		},
		Memory: usage.Memory{Peak: peak, RSS: peak, Shmem: peak / 4, PSS: &pss},
		Counts: map[string]int64{},
	}
}

func Result(cells ...result.Cell) *result.Result {
	plan := result.Plan{Mode: "default", Rules: 4, Seed: 1, Blocks: 10, Least: 4, Warmup: 2, Starts: 7, WarmTime: 50 * time.Millisecond, Time: 6 * time.Second, Precision: 0.05, Verify: "sample", Samples: 1 << 17}
	plan.OrderSeed = 1
	return &result.Result{
		Schema: result.Schema, Command: []string{"/usr/bin/ipcbench", "run", "--transport", "pickle,shm-slab"},
		Started: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Elapsed: 42 * time.Second, Plan: plan,
		Environment: machine.Environment{
			Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), CPU: "Test CPU", CPUs: 2, Affinity: "0-1", GOMAXPROCS: 2, LLC: 32 << 20,
			Arch: "amd64", Kernel: "6.1.0", MemTotal: 8e9, MemAvailable: 6e9, THP: "madvise", ShmemTHP: "never",
			Shm: &machine.Space{FileSystem: "tmpfs", Size: 4e9, Free: 4e9}, Go: "go1.26.8", Commit: "0123456789abcdef",
		},
		Cells: cells,
	}
}

// Count adds n to the counter name of the server in every block of c.
func Count(c result.Cell, name string, n int64) result.Cell {
	for i := range c.Blocks {
		c.Blocks[i].Server.Counts[name] += n
	}
	return c
}

// Kinds describes how the transports of Synthetic behave.
var Kinds = []struct {
	name           string
	fixed, perByte float64 // seconds per client, and per byte of payload
	handles        bool
	calls          func(tensors int) map[string]int64 // calls per client
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

// Synthetic returns a result like one of a real run, the same at every call: rounds vary by 2 %, sessions by 1 %.
func Synthetic(blocks, rounds int) *result.Result {
	r := rand.New(rand.NewPCG(1, 2))
	vary := func(x, by float64) float64 { return x * math.Exp(by*r.NormFloat64()) }
	res := Result()
	for _, name := range []string{"cnn", "resnet18", "histology"} {
		m := Models[name]
		for _, size := range [][2]int{{1, 1}, {2, 4}} {
			workers, clients := size[0], size[1]
			for _, k := range Kinds {
				c := Cell(k.name, m, workers, clients)
				c.Settings, c.Stopped = map[string]string{"depth": "2"}, "precision"
				for i := range blocks {
					level := vary(1, 0.01)
					b := result.Block{
						Index: i, Position: r.IntN(1000), Spawn: time.Duration(vary(25e6*float64(workers), 0.1)), Phases: map[string]int64{},
						Proof: result.Proof{Rounds: 2, Updates: 2 * clients, Hashed: rounds}, SpanCost: 70, Spans: int64(rounds * clients * 9),
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
					b.Server = Process(float64(b.Round[0])/1e9*float64(rounds)*0.6, 80*MB+3*m.Bytes)
					if k.name != "inproc" {
						for range workers {
							b.Processes = append(b.Processes, Process(float64(b.Round[0])/1e9*float64(rounds)*0.4, 40*MB+2*m.Bytes))
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
			work := result.Floor{Name: "work", Unit: "s", Model: m.Name, Clients: clients, Help: "the arithmetic of a round, by direct calls"}
			for range blocks {
				work.Blocks = append(work.Blocks, []float64{vary((0.6e-9*float64(m.Bytes)+20e-6)*float64(clients)+0.3e-9*float64(m.Bytes)*float64(clients), 0.01)})
			}
			res.Floors = append(res.Floors, work)
		}
		wake := result.Floor{Name: "futex", Unit: "s", Model: m.Name, Gap: 40 * MS, Help: "waking another process and being woken by it"}
		for range blocks {
			wake.Blocks = append(wake.Blocks, []float64{vary(20e-6, 0.05), vary(20e-6, 0.05)})
		}
		res.Floors = append(res.Floors, wake)
	}
	stream := result.Floor{Name: "unix-stream", Condition: "64 KiB", Unit: "B/s", Help: "bytes through a Unix socket"}
	copied := result.Floor{Name: "copy", Unit: "B/s", Help: "one thread copies memory"}
	for range blocks {
		stream.Blocks = append(stream.Blocks, []float64{vary(2.6e9, 0.02)})
		copied.Blocks = append(copied.Blocks, []float64{vary(3.4e9, 0.02)})
	}
	res.Floors = append(res.Floors, stream, copied)
	return res
}

// Six returns the durations of six rounds close to x.
func Six(x float64) []float64 { return []float64{x * 0.98, x * 0.99, x, x, x * 1.01, x * 1.02} }

// Pair returns a result with a control of 10 ms and a transport of 20 ms that moves 100 MB in each direction.
func Pair(workers, clients int) *result.Result {
	m := result.Model{Name: "even", Tensors: 4, Bytes: 100 * MB}
	return Result(
		Cell("inproc", m, workers, clients, Six(10)...),
		Count(Cell("pickle", m, workers, clients, Six(20)...), "body.tensors", 16),
	)
}

// Eight returns the durations of eight rounds close to x, all different.
func Eight(x float64) []float64 {
	return []float64{x * 0.985, x * 1.002, x * 0.995, x * 1.01, x, x * 1.004, x * 0.992, x * 1.015}
}

// Interleaved returns a result with two builds of three cells. Of cell "a", head takes slow times as long as base; the
// other cells take the same time.
func Interleaved(slow float64) *result.Result {
	r := Result()
	for _, row := range []struct {
		program, transport string
		round              float64
	}{{"base", "inproc", 5}, {"base", "a", 20}, {"base", "b", 30.03}, {"head", "inproc", 5}, {"head", "a", 20 * slow}, {"head", "b", 30.03}} {
		c := Cell(row.transport, Models["cnn"], 1, 1, Eight(row.round)...)
		c.Program = row.program
		r.Cells = append(r.Cells, c)
	}
	Builds(r)
	return r
}

// Builds gives r the programs base and head, whose environments are equal.
func Builds(r *result.Result) {
	r.Plan.Baseline = result.Base
	e := r.Environment
	r.Programs = []result.Program{{Name: result.Base, Environment: &e}, {Name: result.Head}}
}

// Peer makes c, one of r's cells, the cell of a peer with a command and software.
func Peer(r *result.Result, c *result.Cell, command string, software map[string]string) {
	c.Program, c.Launcher = c.Transport, "peer"
	if r.ProgramOf(c) == nil {
		r.Programs = append(r.Programs, result.Program{Name: c.Program, Command: command, Software: software})
	}
}

// Rounds returns a cell of 6 blocks of 20 rounds; of gives the duration of each round in ms. All other times in the
// blocks are placeholders.
func Rounds(of func(block, round int) float64) result.Cell {
	c := Cell("pickle", Models["cnn"], 1, 1, 1, 1, 1, 1, 1, 1)
	for i := range c.Blocks {
		b := &c.Blocks[i]
		b.Round, b.Unattributed, b.Train, b.RTT, b.Down, b.Up, b.Phases = nil, 20, nil, nil, nil, nil, nil
		for k := range 20 {
			b.Round = append(b.Round, int64(of(i, k)*float64(MS)))
			for _, s := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
				*s = append(*s, 1)
			}
		}
	}
	return c
}

// Codecs has the codecs of Linked: their ratios in each direction, and the seconds that they add to a round.
var Codecs = []struct {
	Name     string
	Down, Up float64
	Seconds  float64
	Error    float64 // largest error, relative to the largest element
}{
	{"none", 1, 1, 0, 0},
	{"sparse", 0.06, 0.06, 0.05, 0},
	{"int8", 0.25, 0.25, 0.4, 0.004},
	{"zstd", 1.0001, 1.0001, 0.1, 0},
}

// Linked returns a result with codecs over two transports on emulated links, as if nothing overlapped; links maps rates
// to bit/s, 0 being no link. The control and shm-slab are on no link.
func Linked(links map[string]float64) *result.Result {
	m := Models["histology"]
	work := func(c result.Cell, on string) result.Cell {
		c.Change = Text[tensor.Change]("2%")
		if on != "" {
			c.Link = Text[link.Rate](on)
		}
		return c
	}
	slab := Count(Cell("shm-slab", m, 1, 1, Six(65)...), "handle.tensors", 80)
	r := Result(work(Cell("inproc", m, 1, 1, Six(60)...), ""), work(slab, ""))
	for _, on := range slices.Sorted(maps.Keys(links)) {
		for i, transport := range []string{"grpc-stream", "http"} {
			for _, k := range Codecs {
				wire := int64(float64(m.Bytes) * k.Down)
				round := 0.14 + 0.02*float64(i) + k.Seconds
				if rate := links[on]; rate > 0 {
					round += 8 * 2 * float64(wire) / rate
				}
				c := work(Cell(transport, m, 1, 1, Six(1e3*round)...), on)
				for b := range c.Blocks { // training takes 30 ms on every link
					of := &c.Blocks[b]
					for i, ns := range of.Round {
						of.Train[i], of.RTT[i], of.Down[i], of.Up[i] = 30*MS, ns-20*MS, ns/2-25*MS, ns/2+5*MS
					}
				}
				c.Settings = map[string]string{"network": "tcp", "codec": k.Name}
				c.Variant += ":network=tcp"
				Count(c, "body.tensors", 80)
				if k.Name != "none" {
					c.Variant += ":codec=" + k.Name
					c.Coding = &result.Coding{DensityDown: 0.02, DensityUp: 0.02}
					if k.Error > 0 {
						e := result.CodingError{Max: new(k.Error * 0.9), RMS: new(k.Error / 3)}
						c.Coding.ErrorDown, c.Coding.ErrorUp, c.Coding.Bound, c.Coding.Plain = &e, &e, k.Error, []string{"bn1.num_batches_tracked"}
					}
					for name, n := range map[string]int64{
						"codec.down.payload": 2 * m.Bytes, "codec.down.wire": 2 * wire, "codec.up.payload": 2 * m.Bytes, "codec.up.wire": 2 * wire,
						"codec.full.first": 0, "codec.full.missed": 0, "codec.full.bytes": 0, "codec.same": 0, "codec.plain": 0, "codec.unchanged": 4,
					} {
						Count(c, name, n)
					}
					for b := range c.Blocks {
						c.Blocks[b].Phases["compress"] = int64(1.2 * k.Seconds * 1e9)
						c.Blocks[b].Phases["expand"] = int64(0.8 * k.Seconds * 1e9)
					}
				}
				r.Cells = append(r.Cells, c)
			}
		}
		if rate := links[on]; rate > 0 {
			r.Floors = append(r.Floors, result.Floor{Name: "tcp-stream", Unit: "B/s", Setup: result.Setup{Link: Text[link.Rate](on)}, Bytes: m.Bytes, Help: "bytes through a TCP connection on the link",
				Blocks: [][]float64{{rate / 8 * 0.98}, {rate / 8 * 0.981}, {rate / 8 * 0.979}, {rate / 8 * 0.98}, {rate / 8 * 0.982}, {rate / 8 * 0.978}}})
		}
	}
	return r
}

// Encrypted returns a result with transports over TCP, each without TLS and with tls=on and tls=mutual. With TLS, a
// round takes times[transport] times as long.
func Encrypted(times map[string]float64) *result.Result {
	m := Models["histology"]
	r := Result(Cell("inproc", m, 1, 1, Six(60)...))
	for _, transport := range slices.Sorted(maps.Keys(times)) {
		for _, tls := range []string{"off", "on", "mutual"} {
			round, wire, handshake := 150.0, 2*2*m.Bytes, int64(0) // bytes of two rounds
			if tls != "off" {
				round, wire, handshake = round*times[transport], wire+wire/1000, 2*MS
			}
			if tls == "mutual" {
				handshake += MS / 2
			}
			c := Count(Count(Cell(transport, m, 1, 1, Six(round)...), "body.tensors", 80), "wire.sent", wire)
			c.Settings = map[string]string{"network": "tcp", "tls": tls}
			if c.Variant += ":network=tcp"; tls != "off" {
				c.Variant += ":tls=" + tls
				for i, ns := range Six(float64(handshake)) {
					c.Blocks[i].TLS = &result.TLS{Handshakes: 1, Time: int64(ns), Cipher: "TLS_AES_128_GCM_SHA256"}
				}
			}
			r.Cells = append(r.Cells, c)
		}
	}
	return r
}
