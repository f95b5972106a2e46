package result

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"ipcbench/internal/machine"
	"ipcbench/phase"
	"ipcbench/phase/usage"
)

// Schema is the version of the result format. Files of another one are refused. Keys are
// only ever added: one that is absent is what it was before there was the key.
const Schema = 4

// SocketBuffer is the buffer of a socket that transports ask for, in bytes.
const SocketBuffer = 1 << 20

// A Result is everything that one run measured: raw samples, and what is needed
// to judge them. Statistics are computed from it by whoever reads it, so that a
// better statistic needs no new run. Times are nanoseconds, sizes bytes.
type Result struct {
	Schema      int                 `json:"schema"`
	Command     []string            `json:"command"` // as it was typed, after the program's name
	Started     time.Time           `json:"started"`
	Elapsed     time.Duration       `json:"elapsed_ns"`
	Partial     string              `json:"partial,omitempty"` // why the run ended early; empty if it did not
	Plan        Plan                `json:"plan"`
	Environment machine.Environment `json:"environment"`
	Hosts       []Host              `json:"hosts,omitempty"` // of a run with agents: the server's, then those in order of rank and name
	Floors      []Floor             `json:"floors"`
	Cells       []Cell              `json:"cells"`
	Skipped     []Skipped           `json:"skipped,omitempty"` // cells that were asked for and could not be measured

	Doctor checks `json:"doctor,omitempty"` // what the machine would spoil, as found before the run: what is not ok

	// Of an interleaved run, the environment that the other build, called base,
	// saw: the same machine, and its own commit.
	Against *machine.Environment `json:"against,omitempty"`

	Layouts *Layouts `json:"layouts,omitempty"` // of an interleaved run

	Canary *Canary `json:"canary,omitempty"`
}

// A Skipped is a cell that was left out of a run because it does not fit.
type Skipped struct {
	Transport string `json:"transport"`
	Variant   string `json:"variant"`
	Model     string `json:"model"`
	Up        string `json:"up,omitempty"` // as in Model
	Workers   int    `json:"workers"`
	Clients   int    `json:"clients"`

	PerProcess int `json:"lanes_per_process"`
	Depth      int `json:"depth"`
	Setup
	Why string `json:"why"` // and what to try
}

// ID names the cell as that of one that was measured.
func (s Skipped) ID() string {
	return Cell{Variant: s.Variant, Model: Model{Name: s.Model, Up: s.Up}, Workers: s.Workers, Clients: s.Clients, Setup: s.Setup}.ID()
}

// A Canary is two copies of one of the cells, which tell whether a gate works.
type Canary struct {
	Slowdown float64 `json:"slowdown" check:"0..100"` // the share by which the slow copy's round was made longer
	Same     Cell    `json:"same"`
	Slow     Cell    `json:"slow"`
}

// Pairs returns what a gate is to be tried on: two results of interleaved
// builds, in the first of which they are the same, and in the second of which the
// head is slower. There are none if the run had no canary.
func (r *Result) Pairs() (same, slow *Result, err error) {
	if r.Canary == nil {
		return nil, nil, fmt.Errorf("the result has no canary: it was measured without --canary, or broken off")
	}
	of := func(head Cell) (*Result, error) {
		i := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.ID() == head.ID() && c.Build == head.Build })
		if i < 0 {
			return nil, fmt.Errorf("canary: %s: no such cell in the result", head.ID())
		}
		pair := *r
		pair.Plan.Interleaved, pair.Canary = true, nil
		if r.Layouts != nil { // both ran in those of head
			pair.Layouts = &Layouts{Base: r.Layouts.Head, Head: r.Layouts.Head}
		}
		base := r.Cells[i]
		base.Build, head.Build = "base", "head"
		pair.Cells = []Cell{base, head}
		return &pair, nil
	}
	if same, err = of(r.Canary.Same); err == nil {
		slow, err = of(r.Canary.Slow)
	}
	return same, slow, err
}

// A Plan holds every setting of a run, defaults included.
type Plan struct {
	Mode        string        `json:"mode"`                                                 // quick, default or thorough
	Rules       int           `json:"rules"`                                                // version of the rules by which a block is measured
	Seed        uint64        `json:"seed"`                                                 // of the data
	OrderSeed   uint64        `json:"order_seed"`                                           // of the order of blocks; zero has the run draw one
	Blocks      int           `json:"blocks" flag:"--blocks" check:"1..10000"`              // of each cell, at least
	Rounds      int           `json:"rounds,omitempty" flag:"--rounds" check:"0..100000"`   // timed rounds per cell; zero goes by Time
	Least       int           `json:"least_rounds,omitempty" check:"0..100000"`             // timed rounds per block, at least; zero means 3
	Warmup      int           `json:"warmup" flag:"--warmup" check:"0..10000"`              // rounds per block that are not counted, besides the first two
	WarmTime    time.Duration `json:"warmup_ns,omitempty"`                                  // that these and the first two take at least, unless the rounds are counted
	Time        time.Duration `json:"time_ns" flag:"--time"`                                // measured time per cell, at most, on average over the cells of the same work
	Precision   float64       `json:"precision" flag:"--precision" check:"0..100"`          // relative half-width of the interval of the median round at which a cell stops; zero means at Blocks
	Verify      string        `json:"verify"`                                               // sample or all
	Pin         bool          `json:"pin"`                                                  // processes have processors of their own
	Samples     int           `json:"span_room" flag:"room for spans" check:"1..268435456"` // spans that each process has room for
	RoundLimit  time.Duration `json:"round_limit_ns,omitempty" flag:"--round-limit"`        // for how long nothing may move in a round; zero means the default of package trainer
	Interleaved bool          `json:"interleaved,omitempty"`                                // with blocks of another build
	retiredPlan
}

// A Floor is a limit of the machine, measured between the cells.
type Floor struct {
	Name      string      `json:"name" check:"name"`   // such as copy or futex
	Condition string      `json:"condition,omitempty"` // that was fastest, where several are tried
	Unit      string      `json:"unit" check:"s|B/s"`  // s or B/s
	Help      string      `json:"help"`
	Model     string      `json:"model,omitempty"` // whose cells it bounds; empty bounds all
	Up        string      `json:"up,omitempty"`    // name of the update of those cells, if it is not like the model
	Setup                 // of the cells that it bounds; a floor without a model has a link and a language alone
	Clients   int         `json:"clients,omitempty"` // of the cells that it bounds; zero bounds any number
	Variant   string      `json:"variant,omitempty"` // of the cells that it bounds, on whose own connection it was measured; empty bounds all
	Gap       int64       `json:"gap_ns,omitempty"`  // of a floor that is measured after other work
	Host      string      `json:"host,omitempty"`    // at the other end, of a floor between the server and an agent's host
	Bytes     int64       `json:"bytes,omitempty"`   // that were moved at once, of a floor of TCP or TLS
	Blocks    [][]float64 `json:"blocks"`            // samples by block, in Unit
}

// A Cell is one combination that was measured.
type Cell struct {
	Transport string            `json:"transport" check:"name"`
	Variant   string            `json:"variant" check:"name"`               // the transport with the settings that differ from their defaults
	Settings  map[string]string `json:"settings"`                           // all of them
	Build     string            `json:"build,omitempty" check:"|base|head"` // of an interleaved run: base or head
	Model
	Workers    int    `json:"workers" flag:"--workers" check:"1..4096"`
	PerProcess int    `json:"lanes_per_process" flag:"--lanes-per-process" check:"1..4096"`
	Clients    int    `json:"clients" flag:"--clients" check:"1..100000"`
	Depth      int    `json:"depth" flag:"--depth" check:"1..1024"`
	Launcher   string `json:"launcher"` // processes, goroutines, agents, python or peer
	Setup
	Hosts      string            `json:"hosts,omitempty"`                 // of a run with agents: how many processes each has, such as h1:2,h2:1
	Place      string            `json:"place,omitempty"`                 // of one, too: how they were placed
	FileSystem string            `json:"file_system,omitempty"`           // of a transport that writes files
	Peer       string            `json:"peer,omitempty"`                  // the command of a peer, which runs whole blocks itself
	Unproved   string            `json:"unproved,omitempty"`              // why a peer could not prove its rounds
	Software   map[string]string `json:"software,omitempty" check:"name"` // versions of what workers run on that are not in Go, or a peer, as they say
	Coding     *Coding           `json:"coding,omitempty"`                // what the codec made of the data; absent where nobody looked
	Stopped    string            `json:"stopped"`                         // why no more blocks were run: blocks (all that were planned), precision, time, rounds, interrupted; of older builds also budget, size (of the result)
	Blocks     []Block           `json:"blocks"`
	Profiles   []Profile         `json:"profiles,omitempty"`
	retiredCell
}

// A Coding is what a codec made of the data of a cell, as the reference chain
// found it.
type Coding struct {
	DensityDown float64      `json:"density_down" check:"0..1"`         // share of the model's words that differ from the version before
	DensityUp   float64      `json:"density_up" check:"0..1"`           // share of the update's words that differ from the model that was trained on
	ErrorDown   *CodingError `json:"error_down,omitempty"`              // of the model, of a codec that loses something
	ErrorUp     *CodingError `json:"error_up,omitempty"`                // of updates
	Bound       float64      `json:"bound,omitempty" check:"0..3.4e38"` // the most that Max can be, where the codec promises something
	Plain       []string     `json:"plain,omitempty" check:"name"`      // names of tensors that the codec does not take
}

// A CodingError is how far decoded words are from those that were encoded.
type CodingError struct {
	Max float64 `json:"max" check:"0..3.4e38"` // the largest, as a share of the largest word of its tensor
	RMS float64 `json:"rms" check:"0..3.4e38"` // the root of the mean square, as a share of that of the words
}

// A Profile is what was profiled of a cell, in blocks of their own.
type Profile struct {
	Kind    string   `json:"kind" check:"cpu|heap|allocs|mutex|block|trace"` // see package capture
	Files   []string `json:"files" check:"name"`                             // relative to the folder of the result's file; one, or one a process for traces
	First   int      `json:"first_block"`                                    // of the cell's, the first in which it was taken; the others follow
	Blocks  int      `json:"blocks"`
	Rounds  int      `json:"rounds"`
	Summary *Summary `json:"summary,omitempty"` // not of a trace
}

// A Timeline holds the spans of a few rounds, one column a property. Sums of laps
// (phase.Sample.Summed) are not among them: nobody knows when they were. Times are
// nanoseconds since the first of these rounds began.
type Timeline struct {
	Processes  []string `json:"processes"`
	Rounds     []int    `json:"rounds"`
	RoundStart []int64  `json:"round_start_ns"`
	RoundEnd   []int64  `json:"round_end_ns"`

	Process []int    `json:"process"`             // an index of Processes
	Lane    []int    `json:"lane" check:"signed"` // -1 where a span belongs to none; likewise the client
	Client  []int    `json:"client" check:"signed"`
	Phase   []string `json:"phase"`
	Start   []int64  `json:"start_ns" check:"signed"` // of what began before its round
	End     []int64  `json:"end_ns" check:"signed"`
}

// Cut forgets all spans from the nth on.
func (t *Timeline) Cut(n int) {
	t.Process, t.Lane, t.Client, t.Phase = t.Process[:n], t.Lane[:n], t.Client[:n], t.Phase[:n]
	t.Start, t.End = t.Start[:n], t.End[:n]
}

// dropWorkers leaves the spans of the server, which is the first process.
func (t *Timeline) dropWorkers() {
	n := 0
	for i, process := range t.Process {
		if process == 0 {
			t.Process[n], t.Lane[n], t.Client[n], t.Phase[n], t.Start[n], t.End[n] = 0, t.Lane[i], t.Client[i], t.Phase[i], t.Start[i], t.End[i]
			n++
		}
	}
	t.Cut(n)
	t.Processes = t.Processes[:min(1, len(t.Processes))]
}

// Model says what was moved.
type Model struct {
	Name    string `json:"model" check:"name"`
	Tensors int    `json:"model_tensors" flag:"number of tensors of --model" check:"0..1048576"`
	Bytes   int64  `json:"model_bytes"` // of one model, and of one update if it is like the model

	// Of an update that is unlike the model; absent if it is like it.
	Up        string `json:"up,omitempty"` // its name, as users write it
	UpTensors int    `json:"up_tensors,omitempty" flag:"number of tensors of --up" check:"0..1048576"`
	UpBytes   int64  `json:"up_bytes,omitempty"`
}

// Label names model and update.
func (m Model) Label() string {
	if m.Up == "" {
		return m.Name
	}
	return m.Name + " up=" + m.Up
}

// Payload returns the bytes that a client gets and sends.
func (m Model) Payload() int64 {
	if m.Up == "" {
		return 2 * m.Bytes
	}
	return m.Bytes + m.UpBytes
}

// Payload returns the bytes that a round delivers: the model to every client and
// an update from each of them, counted once.
func (c Cell) Payload() int64 { return c.Model.Payload() * int64(c.Clients) }

// ID names a cell among those of a run, and the same cell in another run.
func (c Cell) ID() string {
	id := c.Variant + " " + c.Model.Label() + " workers=" + strconv.Itoa(c.Workers) + " clients=" + strconv.Itoa(c.Clients)
	for _, d := range c.Unusual() {
		id += " " + d.Key + "=" + d.Of(c.Setup)
	}
	return id
}

// A Block is one session of fresh processes. Slices with an entry a round hold
// the timed rounds in order; slices with an entry a client hold, for each of
// those rounds, one entry for every client in dispatch order, or of many
// clients for every k-th: see stride.
type Block struct {
	Index    int           `json:"index"`            // of the block among the cell's
	Layout   int           `json:"layout,omitempty"` // in which of its build's it ran; 0 is the first, or the only one
	Position int           `json:"position"`         // in the order of the run
	At       time.Duration `json:"at_ns"`            // since the run began
	Spawn    time.Duration `json:"spawn_ns"`         // until all workers were connected; the median where every round has its own
	TLS      *TLS          `json:"tls,omitempty"`    // handshakes before the first round; absent without any
	Cold     Cold          `json:"cold"`

	Round []int64 `json:"round_ns" check:"positive"` // a round: publishing the model to the end of the average that is the next one
	Train []int64 `json:"train_ns"`                  // a client
	RTT   []int64 `json:"rtt_ns"`                    // a client: start of Dispatch to end of Collect

	// Down, Up and Unattributed take one clock: see OneClock.
	Down []int64 `json:"down_ns,omitempty"` // a client: start of Dispatch to end of Receive
	Up   []int64 `json:"up_ns,omitempty"`   // a client: start of the worker's Reserve to end of Collect

	// Sums over all timed rounds. Unattributed is what no span covers. Phases are
	// all spans of a phase, of all processes; spans of a transport lie inside those
	// of the calls that made them.
	Unattributed int64            `json:"unattributed_ns,omitempty"`
	Phases       map[string]int64 `json:"phases_ns" check:"sum"`

	Server    Process       `json:"server"`
	Processes []Process     `json:"processes"`        // none where workers are goroutines of the server
	System    *usage.System `json:"system,omitempty"` // of the whole machine while the block ran; absent if it does not tell
	Link      *LinkCount    `json:"link,omitempty"`   // what the link's queues did meanwhile
	Proof     Proof         `json:"proof"`

	Profiled bool      `json:"profiled,omitempty"` // profiles were taken: its times do not count
	Timeline *Timeline `json:"timeline,omitempty"` // of some rounds of a profiled block
	Spans    int64     `json:"spans"`              // that were recorded in the timed rounds
	SpanCost int64     `json:"span_cost_ns"`       // of recording one, measured in this process
	retiredBlock
}

// OneClock reports whether all processes of the block read the server's clock.
func (b *Block) OneClock() bool {
	return !slices.ContainsFunc(b.Processes, func(p Process) bool { return p.OtherClock })
}

// DropTwoClocks drops what begins on the server's clock and ends on another one, or the
// other way round.
func (b *Block) DropTwoClocks() {
	if b.OneClock() {
		return
	}
	b.Down, b.Up, b.Unattributed = nil, nil, 0
	for _, p := range []phase.Phase{phase.Receive, phase.Wait} { // begin before their round
		delete(b.Phases, p.String())
	}
	if b.Timeline != nil {
		b.Timeline.dropWorkers()
	}
}

// TLS says what worker processes took to open their connections before the first
// round. Where every round has its own session, it is that of the first.
type TLS struct {
	Handshakes int    `json:"handshakes"`
	Time       int64  `json:"handshake_ns"`        // of the process whose own, added up, took longest
	Cipher     string `json:"cipher" check:"name"` // as crypto/tls names it
}

// Cold is the first round of a block, in which memory is touched for the first
// time.
type Cold struct {
	Round     int64         `json:"round_ns"`
	Server    usage.Usage   `json:"server"`
	Processes []usage.Usage `json:"processes"`
}

// A Process is what one process spent in the timed rounds of a block.
type Process struct {
	Host   string           `json:"host,omitempty"` // of an agent; absent on the server's
	Usage  usage.Usage      `json:"usage"`
	Memory usage.Memory     `json:"memory"`                // at the end of the block
	Counts map[string]int64 `json:"counts" check:"signed"` // by the counter names of package phase; a cache may have become smaller
	CPUs   []int            `json:"cpus,omitempty"`        // that it could use, as the kernel says
	Import time.Duration    `json:"import_ns,omitempty"`   // what importing its modules took before the block, of one in Python

	// The kernel did not let Memory.Peak begin again with the block (it needs to write
	// to /proc/self/clear_refs): it is that of the process so far, whatever ran in it.
	StalePeak bool `json:"stale_peak,omitempty"`

	// OtherClock: the process read another clock than the server. What begins on one of
	// the two clocks and ends on the other is not measured in its block.
	OtherClock bool `json:"other_clock,omitempty"`
}

// A LinkCount is what the queues of a link did while a block ran.
type LinkCount struct {
	Dropped    int64 `json:"dropped"`    // packets that found no room
	Overlimits int64 `json:"overlimits"` // how often one had to wait for the rate
}

// A Proof says how the data of a block was checked.
type Proof struct {
	Rounds  int `json:"rounds"`  // in which every element of every update was checked
	Updates int `json:"updates"` // that were checked so; of a user's worker function, by the hashes that its worker said of model and update
	Hashed  int `json:"hashed"`  // models whose hash was compared with the reference chain
}

// Proved reports whether the data of every block was checked. A block whose data
// is wrong ends the run, so there is no other answer than yes and not yet.
func (c Cell) Proved() bool {
	for _, b := range c.Blocks {
		if b.Proof.Updates == 0 || b.Proof.Hashed == 0 && c.Train == "" {
			return false
		}
	}
	return len(c.Blocks) > 0
}

// RoundTime returns the time of all timed rounds.
func (b *Block) RoundTime() time.Duration {
	var sum time.Duration
	for _, ns := range b.Round {
		sum += time.Duration(ns)
	}
	return sum
}

// Rounds returns how many rounds of the cell were timed.
func (c Cell) Rounds() int {
	n := 0
	for _, b := range c.Blocks {
		n += len(b.Round)
	}
	return n
}

// Counts returns the counters of all processes of the block, summed by name.
func (b Block) Counts() map[string]int64 {
	sum := map[string]int64{}
	for _, p := range slices.Concat([]Process{b.Server}, b.Processes) {
		for name, n := range p.Counts {
			sum[name] += n
		}
	}
	return sum
}

// Timed returns the blocks whose times count: those without profiles.
func (c Cell) Timed() []Block {
	return slices.DeleteFunc(slices.Clone(c.Blocks), func(b Block) bool { return b.Profiled })
}

// A Layout is an executable of a build, as a linker has laid it out.
type Layout struct {
	File   string `json:"file" check:"name"` // its name, without the folder
	SHA256 string `json:"sha256"`            // of its bytes, in hex digits
}

// Layouts are those of both builds of an interleaved run.
type Layouts struct {
	Base []Layout `json:"base"`
	Head []Layout `json:"head"` // this program, and then the others
}

// Of returns the layouts of a build, base or head.
func (l *Layouts) Of(build string) []Layout {
	switch {
	case l == nil:
		return nil
	case build == "base":
		return l.Base
	}
	return l.Head
}

// A Host is one of a run with agents, in its result.
type Host struct {
	Name        string              `json:"name" check:"name"` // an agent's is what its user calls it
	Environment machine.Environment `json:"environment"`       // as it was when the run began
	Server      bool                `json:"server,omitempty"`

	// SameMachine is the first host of the list that is on the same machine: its kernel
	// started at the same time. Empty for that one itself.
	SameMachine string `json:"same_machine,omitempty"`
}
