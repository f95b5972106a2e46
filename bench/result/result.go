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
// to judge them.
//
// Statistics are computed from it by whoever reads it, so that a
// better statistic needs no new run. Times are nanoseconds, sizes bytes.
type Result struct {
	// version of this format
	Schema int `json:"schema"`
	// the command as it was typed, and behind it the flags that came from a file of settings;
	// in older results, from variables too
	Command []string `json:"command"`
	// when the run began, as RFC 3339 has it, in UTC
	Started time.Time `json:"started"`
	// how long the whole run took
	Elapsed time.Duration `json:"elapsed_ns"`
	// why the run ended early; absent if it ran to its end
	Partial string `json:"partial,omitempty"`
	// all settings of the run, defaults included
	Plan Plan `json:"plan"`
	// the machine, and the build of ipcbench
	Environment machine.Environment `json:"environment"`
	// of a run with agents: the server's host, and then those of the agents, in order of rank
	// and name
	Hosts []Host `json:"hosts,omitempty"`
	// limits of this machine, measured between the blocks
	Floors []Floor `json:"floors"`
	// what was measured; a cell is one transport with one model and one number of workers and
	// clients
	Cells []Cell `json:"cells"`
	// cells that were asked for and not measured
	Skipped []Skipped `json:"skipped,omitempty"`

	// what the machine would spoil, as `ipcbench doctor` found before the run: the checks that
	// were not `ok`
	Doctor checks `json:"doctor,omitempty"`

	// of a run with `--against`: the environment that the other build saw, on the same machine
	// and with its own commit
	Against *machine.Environment `json:"against,omitempty"`

	// of a run with `--against`: the files of both builds; absent from older files, which had
	// one each
	Layouts *Layouts `json:"layouts,omitempty"`

	// of a run with `--canary`: two copies of one cell that test the gate
	Canary *Canary `json:"canary,omitempty"`
}

// A Skipped is a cell that was left out of a run because it does not fit.
type Skipped struct {
	Transport string `json:"transport"`    // name of the transport
	Variant   string `json:"variant"`      // the transport with its settings
	Model     string `json:"model"`        // name of the model
	Up        string `json:"up,omitempty"` // name of the update, where it is unlike the model
	Workers   int    `json:"workers"`      // number of workers
	Clients   int    `json:"clients"`      // number of clients

	PerProcess int    `json:"lanes_per_process"` // number of workers in one process
	Depth      int    `json:"depth"`             // as of a cell
	Setup             // its keys are among these, as in a cell
	Why        string `json:"why"` // the reason, and what to try instead
}

// ID names the cell as that of one that was measured.
func (s Skipped) ID() string {
	return Cell{Variant: s.Variant, Model: Model{Name: s.Model, Up: s.Up}, Workers: s.Workers, Clients: s.Clients, Setup: s.Setup}.ID()
}

// A Canary is two copies of one of the cells, which tell whether a gate works.
type Canary struct {
	Slowdown float64 `json:"slowdown" check:"0..100" unit:"share"` // by how much rounds of the slow copy were made longer; 0.2 is 20 %
	Same     Cell    `json:"same"`                                 // a copy that is the same: a gate that fails for it is wrong
	Slow     Cell    `json:"slow"`                                 // a copy that was slowed down: a gate that passes it is wrong
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
	// `quick`, `default` or `thorough`
	Mode string `json:"mode"`
	// version of the rules by which a block is measured; blocks of different versions must not
	// be compared
	Rules int `json:"rules"`
	// seed of the data
	Seed uint64 `json:"seed"`
	// seed of the order of the blocks; drawn for each run, unless the user gives it
	//
	// Zero has the run draw one.
	OrderSeed uint64 `json:"order_seed"`
	// the fewest blocks that each cell gets
	Blocks int `json:"blocks" flag:"--blocks" check:"1..10000"`
	// timed rounds of each cell; absent if `time_ns` decides
	Rounds int `json:"rounds,omitempty" flag:"--rounds" check:"0..100000"`
	// timed rounds of a block at least; 3 if absent
	Least int `json:"least_rounds,omitempty" check:"0..100000"`
	// rounds at the start of a block that do not count, besides the first two
	Warmup int `json:"warmup" flag:"--warmup" check:"0..10000"`
	// the least time that these and the first two rounds take; it does not apply if `warmup`
	// is 0 or the rounds are counted
	WarmTime time.Duration `json:"warmup_ns,omitempty"`
	// the most time that a cell spends in timed rounds, averaged over the cells with the same
	// model, workers and clients
	Time time.Duration `json:"time_ns" flag:"--time"`
	// a cell needs no more blocks when its median round is known this well; 0.05 is ±5 %; 0: a
	// cell ends after `blocks`
	//
	// It is the relative half-width of the interval of the median round.
	Precision float64 `json:"precision" flag:"--precision" check:"0..100" unit:"share"`
	// how often all data of a round is checked: `sample` is every eighth round, `all` every
	// second one
	Verify string `json:"verify"`
	// server and workers have processors of their own
	Pin bool `json:"pin"`
	// how many spans each process can record
	Samples int `json:"span_room" flag:"room for spans" check:"1..268435456"`
	// a round in which nothing moves for this long ends the run; absent if ipcbench chooses it
	//
	// Zero means the default of package trainer.
	RoundLimit time.Duration `json:"round_limit_ns,omitempty" flag:"--round-limit"`
	// blocks of two builds were measured in turn
	Interleaved bool `json:"interleaved,omitempty"`
	retiredPlan
}

// A Floor is a limit of the machine, measured between the cells.
type Floor struct {
	// `copy`, `first-touch`, `unix-stream`, `unix-pingpong`, `tcp-stream`, `tcp-pingpong`,
	// `tls-stream`, `futex`, `rpc-empty` or `work`; docs/measuring.md says what each is
	Name string `json:"name" check:"name"`
	// the condition that was fastest, where several were tried, such as the size of a write
	Condition string `json:"condition,omitempty"`
	// unit of the samples: `s` (seconds) or `B/s` (bytes a second)
	Unit string `json:"unit" check:"s|B/s"`
	// what was measured, in one sentence
	Help string `json:"help"`
	// the model to whose cells the floor applies; absent if it applies to all
	Model string `json:"model,omitempty"`
	// the update of those cells, where it is unlike the model
	Up string `json:"up,omitempty"`
	// its keys are among these: those of the cells that the floor bounds. A floor without a
	// model has a link and a language alone
	Setup
	// number of clients of the cells to which the floor applies; absent if it applies to any
	// number
	Clients int `json:"clients,omitempty"`
	// the variant on whose own connection it was measured
	Variant string `json:"variant,omitempty"`
	// how long the process worked before each measurement, where it matters
	Gap int64 `json:"gap_ns,omitempty"`
	// the host at the other end, of a floor between the server and an agent's host
	Host string `json:"host,omitempty"`
	// how much was moved at once, of a floor of TCP or TLS
	Bytes int64 `json:"bytes,omitempty"`
	// one list of samples for each block, in `unit`
	Blocks [][]float64 `json:"blocks" unit:"as unit says"`
}

// A Cell is one combination that was measured.
type Cell struct {
	// name of the transport
	Transport string `json:"transport" check:"name"`
	// the transport with the settings that differ from their defaults, as `--transport` takes
	// it
	Variant string `json:"variant" check:"name"`
	// all settings of the transport, defaults included
	Settings map[string]string `json:"settings"`
	// of a run with `--against`: `base` is the other build, `head` this one
	Build string `json:"build,omitempty" check:"|base|head"`
	Model
	// number of workers that train at the same time
	Workers int `json:"workers" flag:"--workers" check:"1..4096"`
	// number of workers in one process
	PerProcess int `json:"lanes_per_process" flag:"--lanes-per-process" check:"1..4096"`
	// number of clients in a round, shared out among the workers
	Clients int `json:"clients" flag:"--clients" check:"1..100000"`
	// updates of one worker that may wait for the server, the one in the making included
	Depth int `json:"depth" flag:"--depth" check:"1..1024"`
	// what workers are: `processes`, `goroutines`, processes in `python` or that `agents` have
	// started, or those of a `peer`
	Launcher string `json:"launcher"`
	// its keys are among these: what the cell does differently from the usual one
	Setup
	// with agents: how many of its processes each host has, such as `h1:2,h2:1`; absent if all
	// are in the server
	Hosts string `json:"hosts,omitempty"`
	// with agents: what `--place` was, such as `spread`
	Place string `json:"place,omitempty"`
	// type of the file system, if the transport writes files
	FileSystem string `json:"file_system,omitempty"`
	// the command of a peer, which runs whole blocks itself, or the file of a reference row
	Peer string `json:"peer,omitempty"`
	// why a peer could not prove what it moved; absent if it did
	Unproved string `json:"unproved,omitempty"`
	// versions of what workers in Python, or a peer, run on, as they say
	Software map[string]string `json:"software,omitempty" check:"name"`
	// what the codec made of the data; absent if nobody looked
	Coding *Coding `json:"coding,omitempty"`
	// why no more blocks were measured: `precision`, `blocks`, `time`, `rounds` or
	// `interrupted`; in older files also `budget` or `size`
	Stopped string `json:"stopped"`
	// the measurements, in their order
	Blocks []Block `json:"blocks"`
	// what was profiled, in blocks of its own
	Profiles []Profile `json:"profiles,omitempty"`
	retiredCell
}

// A Coding is what a codec made of the data of a cell, as the reference chain
// found it.
type Coding struct {
	// share of the model's words that differ from the version before
	DensityDown float64 `json:"density_down" check:"0..1"`
	// share of the update's words that differ from the model that was trained on; 0 if updates
	// are unlike it
	DensityUp float64 `json:"density_up" check:"0..1"`
	// how far the decoded model is from the encoded one, with a codec that loses something
	ErrorDown *CodingError `json:"error_down,omitempty"`
	// the same of updates
	ErrorUp *CodingError `json:"error_up,omitempty"`
	// the most that `max` can be, where the codec promises something
	Bound float64 `json:"bound,omitempty" check:"0..3.4e38"`
	// names of the tensors that the codec does not take
	Plain []string `json:"plain,omitempty" check:"name"`
}

// A CodingError is how far decoded words are from those that were encoded.
type CodingError struct {
	Max float64 `json:"max" check:"0..3.4e38"` // largest error of a word, as a share of the largest word of its tensor
	RMS float64 `json:"rms" check:"0..3.4e38"` // root of the mean square of all errors, as a share of that of the words
}

// A Profile is what was profiled of a cell, in blocks of their own.
type Profile struct {
	// `cpu`, `heap`, `allocs`, `mutex`, `block` or `trace`
	//
	// See package capture.
	Kind string `json:"kind" check:"cpu|heap|allocs|mutex|block|trace"`
	// files of the profile, relative to the folder of the result's file: one, or one per
	// process for traces
	Files []string `json:"files" check:"name"`
	// index of the first block in which it was taken; the others follow it
	First int `json:"first_block"`
	// number of these blocks
	Blocks int `json:"blocks"`
	// number of their timed rounds
	Rounds int `json:"rounds"`
	// what the profile says in short; absent for a trace
	Summary *Summary `json:"summary,omitempty"`
}

// A Timeline holds the spans of a few rounds, one column a property. Times are
// nanoseconds since the first of these rounds began.
//
// Sums of laps (phase.Sample.Summed) are not among them: nobody knows when they were.
type Timeline struct {
	// names of the processes, the server first
	Processes []string `json:"processes"`
	// the rounds that are drawn
	Rounds []int `json:"rounds"`
	// one entry for each round: its start; 0 is the start of the first
	RoundStart []int64 `json:"round_start_ns"`
	// one entry for each round: its end
	RoundEnd []int64 `json:"round_end_ns"`

	// one entry for each span, as in all lists below: index of its process in `processes`
	Process []int `json:"process"`
	// which worker, from 0; -1 if it belongs to none
	Lane []int `json:"lane" check:"signed"`
	// which client, from 0; -1 if it belongs to none
	Client []int `json:"client" check:"signed"`
	// name of the phase
	Phase []string `json:"phase"`
	// start of the span; below zero if it began before the first round
	Start []int64 `json:"start_ns" check:"signed"`
	// end of the span
	End []int64 `json:"end_ns" check:"signed"`
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
	Name    string `json:"model" check:"name"`                                                   // name of the model, as `--model` takes it
	Tensors int    `json:"model_tensors" flag:"number of tensors of --model" check:"0..1048576"` // its number of tensors
	Bytes   int64  `json:"model_bytes"`                                                          // its size, and that of an update that is like it

	Up        string `json:"up,omitempty"`                                                             // name of the update, where it is unlike the model
	UpTensors int    `json:"up_tensors,omitempty" flag:"number of tensors of --up" check:"0..1048576"` // its number of tensors
	UpBytes   int64  `json:"up_bytes,omitempty"`                                                       // size of the update
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

// A Block is one session of fresh processes.
//
// Slices with an entry a round hold
// the timed rounds in order; slices with an entry a client hold, for each of
// those rounds, one entry for every client in dispatch order, or of many
// clients for every k-th: see stride.
type Block struct {
	// number of the block in its cell, from 0
	Index int `json:"index"`
	// index in `layouts`, in the list of its build; 0 if absent
	Layout int `json:"layout,omitempty"`
	// number of the block in the whole run, from 0
	Position int `json:"position"`
	// when it began, since the start of the run
	At time.Duration `json:"at_ns"`
	// time until all worker processes were connected; with `respawn` the median over the
	// rounds
	Spawn time.Duration `json:"spawn_ns"`
	// the handshakes with which worker processes opened their connections before the first
	// round; absent if there was none; with `respawn` those of the first session
	TLS *TLS `json:"tls,omitempty"`
	// the first round, in which memory is touched for the first time; it is no timed round
	Cold Cold `json:"cold"`

	// one entry for each timed round: from publishing the model until the average of all
	// updates is complete
	Round []int64 `json:"round_ns" check:"positive"`
	// one entry for each round and client: the training
	Train []int64 `json:"train_ns"`
	// one entry for each round and client: from the server's start of sending to its end of
	// receiving
	//
	// From the start of Dispatch to the end of Collect.
	RTT []int64 `json:"rtt_ns"`

	// one entry for each round and client: from the server's start of sending until the worker
	// has the model; absent if a process has `other_clock`
	//
	// From the start of Dispatch to the end of Receive. See OneClock.
	Down []int64 `json:"down_ns,omitempty"`
	// one entry for each round and client: from the start of making an update until the server
	// has it, training included; absent if a process has `other_clock`
	//
	// From the start of the worker's Reserve to the end of Collect. See OneClock.
	Up []int64 `json:"up_ns,omitempty"`

	// sum over the timed rounds: time that no span covers; absent if a process has
	// `other_clock`
	//
	// See OneClock.
	Unattributed int64 `json:"unattributed_ns,omitempty"`
	// sum over the timed rounds and all processes, for each phase by its name; a phase of the
	// transport (from `encode` on) lies inside the call that needed it. `receive` and `wait`,
	// which may begin before their round, are missing if a process has `other_clock`. With
	// `nested` there are `attach` (workers, inside `train`), `detach` (the server before
	// `publish`, workers inside `train`) and `reconstruct` (the server)
	Phases map[string]int64 `json:"phases_ns" check:"sum"`

	// what the server process spent in the timed rounds
	Server Process `json:"server"`
	// the same for each worker process; null or empty if workers are goroutines of the server
	Processes []Process `json:"processes"`
	// processor time of the whole machine during the block; absent if the machine does not
	// tell
	System *usage.System `json:"system,omitempty"`
	// what the queues of the link did during the block
	Link *LinkCount `json:"link,omitempty"`
	// how the data was checked
	Proof Proof `json:"proof"`

	// profiles were taken, so its times do not count
	Profiled bool `json:"profiled,omitempty"`
	// single spans of a few rounds, in a block that was profiled
	Timeline *Timeline `json:"timeline,omitempty"`
	// number of spans that were recorded in the timed rounds
	Spans int64 `json:"spans"`
	// cost of recording one span
	//
	// Measured in this process.
	SpanCost int64 `json:"span_cost_ns"`
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
	// number of handshakes, of all worker processes
	Handshakes int `json:"handshakes"`
	// sum of their times, of the process in which it is longest
	Time int64 `json:"handshake_ns"`
	// cipher suite of the connections as crypto/tls names it, such as `TLS_AES_128_GCM_SHA256`
	Cipher string `json:"cipher" check:"name"`
}

// Cold is the first round of a block, in which memory is touched for the first
// time.
type Cold struct {
	Round     int64         `json:"round_ns"`  // duration of the first round
	Server    usage.Usage   `json:"server"`    // what the server process spent in it
	Processes []usage.Usage `json:"processes"` // what each worker process spent in it
}

// A Process is what one process spent in the timed rounds of a block.
type Process struct {
	// the host of its agent; absent on the server's host
	Host string `json:"host,omitempty"`
	// processor, page faults, allocations
	Usage usage.Usage `json:"usage"`
	// memory at the end of the block
	Memory usage.Memory `json:"memory"`
	// counters by name, which docs/result.md#counters lists; one may be below zero if a cache
	// became smaller
	//
	// The names are those of package phase.
	Counts map[string]int64 `json:"counts" check:"signed"`
	// the processors that it could use, as the kernel says
	CPUs []int `json:"cpus,omitempty"`
	// what a process in Python took to import its modules, before the block
	Import time.Duration `json:"import_ns,omitempty"`

	// `peak_rss_bytes` is that of the whole life of the process, since the kernel did not let
	// it start anew with the block
	//
	// The kernel needs a write to /proc/self/clear_refs for that.
	StalePeak bool `json:"stale_peak,omitempty"`

	// the process read another clock than the server: its boot id or its time namespace is
	// another one
	//
	// What begins on one of the two clocks and ends on the other is not measured in its block.
	OtherClock bool `json:"other_clock,omitempty"`
}

// A LinkCount is what the queues of a link did while a block ran.
type LinkCount struct {
	Dropped    int64 `json:"dropped"`    // packets that found no room in a queue
	Overlimits int64 `json:"overlimits"` // how often a packet had to wait for the rate
}

// A Proof says how the data of a block was checked.
type Proof struct {
	// rounds in which every element of every update was checked; none of them is timed
	Rounds int `json:"rounds"`
	// updates that were checked in them; with `train`, by the hashes that workers say of what
	// they got and sent
	Updates int `json:"updates"`
	// models whose hash was compared with that of a reference; 0 with `train`, of which there
	// is none
	Hashed int `json:"hashed"`
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
	File   string `json:"file" check:"name"` // name of the executable, without its folder
	SHA256 string `json:"sha256"`            // SHA-256 of its bytes, in hex digits
}

// Layouts are those of both builds of an interleaved run. Block i of a cell runs in the
// layout of its build at place i of the list, after the last one in the first again.
type Layouts struct {
	Base []Layout `json:"base"` // the files of `--against`
	Head []Layout `json:"head"` // the program that measures, and the files of `--layouts`
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

// A Host is one of the hosts of a run with agents.
type Host struct {
	// what the agent is called in the run; `server` is the server's host
	Name string `json:"name" check:"name"`
	// the machine when the run began, as the agent's process sees it, and its build of
	// ipcbench
	Environment machine.Environment `json:"environment"`
	// it is the server's host
	Server bool `json:"server,omitempty"`

	// the first host of the list that is on the same machine; absent of that one itself
	//
	// Its kernel started at the same time.
	SameMachine string `json:"same_machine,omitempty"`
}
