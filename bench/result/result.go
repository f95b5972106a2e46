package result

import (
	"strconv"
	"time"

	"ipcbench/internal/machine"
)

// Schema is the version of the result format. Within a version, keys are only added, and a file
// without a new key keeps its meaning. Version 5 has a table of programs. Of version 4, files
// with one build are read; others are rejected.
const Schema = 5

// SocketBuffer is the socket buffer size that transports request, in bytes.
const SocketBuffer = 1 << 20

// A Result holds the raw samples of one run, its settings and its environment.
//
// Reports compute statistics from it, so better statistics need no new run. Durations are
// nanoseconds, sizes bytes.
type Result struct {
	// version of this format
	Schema int `json:"schema"`
	// the command line as typed, followed by flags from a file of settings; in older results,
	// also from environment variables
	Command []string `json:"command"`
	// start of the run, in UTC and the format of RFC 3339
	Started time.Time `json:"started"`
	// duration of the whole run, without pauses
	Elapsed time.Duration `json:"elapsed_ns"`
	// reason why the run ended early; absent if it is complete
	Partial string `json:"partial,omitempty"`
	// all settings of the run, defaults included
	Plan Plan `json:"plan"`
	// the machine and the build of ipcbench
	Environment machine.Environment `json:"environment"`
	// the server's host, then the agents' hosts, ordered by rank and name; absent without
	// agents
	Hosts []Host `json:"hosts,omitempty"`
	// limits of this machine, measured between blocks
	Floors []Floor `json:"floors"`
	// the measured cells; a cell is a combination of transport, model, workers, clients and other
	// settings
	Cells []Cell `json:"cells"`
	// questions of projects that the run asks; absent without `--questions`
	Questions []Question `json:"questions,omitempty"`
	// pauses between the cycles of a run with `spread`; absent if there are none
	Pauses []Pause `json:"pauses,omitempty"`
	// requested cells that cannot run, and floors; absent if there are none
	Skipped []Skipped `json:"skipped,omitempty"`

	// checks by `ipcbench doctor` before the run that were not `ok`: properties of the machine
	// that distort measurements
	Doctor []machine.Check `json:"doctor,omitempty"`

	// the programs that ran blocks in processes of their own; absent if there are none
	Programs []Program `json:"programs,omitempty"`

	// two copies of one cell that test the gate; absent without `--canary`
	Canary *Canary `json:"canary,omitempty"`
	// reason why there is no canary although `--canary` asked for one; absent if there is
	Untried *Untried `json:"canary_untried,omitempty"`
}

// A Question is a claim of a project, which some of the cells test.
type Question struct {
	Name   string   `json:"name" check:"name"` // PROJECT/PART
	Text   string   `json:"text"`              // in words
	Claims []string `json:"claims,omitempty"`  // METRIC CHOICE... against CHOICE...: the sentences that answer it
}

// A Pause is the time between two cycles of a run with `spread`.
type Pause struct {
	At   time.Duration `json:"at_ns"`       // start of the pause, since the start of the run
	Time time.Duration `json:"duration_ns"` // its duration
	// time by which the next cycle began too late, because the one before took longer than its slot; else absent
	Late time.Duration `json:"late_ns,omitempty"`
	// time for which the machine was suspended; else absent
	Suspended time.Duration `json:"suspended_ns,omitempty"`
	// the run had been interrupted, and was resumed at the end of the pause
	Resumed bool `json:"resumed,omitempty"`
	// change of the wall clock, which was set; else absent
	Moved time.Duration `json:"clock_moved_ns,omitempty" check:"signed"`
}

// A Skipped is a requested cell or a floor that was not measured, because it cannot run.
type Skipped struct {
	Floor     string `json:"floor,omitempty"` // name of the floor, whose other keys but `why` have no value; absent for cells
	Transport string `json:"transport"`       // name of the transport
	Variant   string `json:"variant"`         // the transport with its settings
	Model     string `json:"model"`           // name of the model
	Up        string `json:"up,omitempty"`    // name of the update; absent if it has the model's tensors
	Workers   int    `json:"workers"`         // number of workers
	Clients   int    `json:"clients"`         // number of clients

	PerProcess int    `json:"lanes_per_process"` // number of lanes in each worker process
	Depth      int    `json:"depth"`             // updates that one worker may have pending, see Cell
	Setup             // keys of Setup, stored in this object
	Why        string `json:"why"` // the reason, and a remedy
}

// ID names the floor, or returns the ID that the cell would have if it had been measured, see
// [Cell.ID].
func (s Skipped) ID() string {
	if s.Floor != "" {
		return "floor " + s.Floor
	}
	return s.Cell().ID()
}

// Cell returns the cell without blocks.
func (s Skipped) Cell() Cell {
	return Cell{
		Transport: s.Transport, Variant: s.Variant, Model: Model{Name: s.Model, Up: s.Up},
		Workers: s.Workers, Clients: s.Clients, PerProcess: s.PerProcess, Setup: s.Setup,
	}
}

// A Plan holds every setting of a run, defaults included.
type Plan struct {
	// `quick`, `default` or `thorough`
	Mode string `json:"mode"`
	// version of the rules for measuring a block; blocks of different versions must not be
	// compared
	Rules int `json:"rules"`
	// seed of the data
	Seed uint64 `json:"seed"`
	// seed of the order of the blocks, drawn at random unless the user set it
	//
	// Before the run, zero means that it draws one.
	OrderSeed uint64 `json:"order_seed"`
	// minimum number of blocks per cell
	Blocks int `json:"blocks" flag:"--blocks" check:"1..10000"`
	// timed rounds per cell; absent if `time_ns` determines the number
	Rounds int `json:"rounds,omitempty" flag:"--rounds" check:"0..100000"`
	// minimum number of timed rounds per block, if they take less than 5 s each; absent means 4
	Least int `json:"least_rounds,omitempty" check:"0..100000"`
	// warm-up rounds per block, untimed, after the first two rounds
	Warmup int `json:"warmup" flag:"--warmup" check:"0..10000"`
	// updates that each worker makes in the warm-up rounds of a block, as far as these take at most 10 s; absent
	// if `warmup` alone determines their number
	Settle int `json:"warm_updates,omitempty" check:"0..1000"`
	// most further warm-up rounds of a block, whose number is drawn at random, so that timed rounds begin at
	// no fixed position in the life of the processes; absent if there are none
	Starts int `json:"random_warmup,omitempty" check:"0..1000"`
	// minimum duration of the warm-up and the first two rounds; ignored if `warmup` is 0 or
	// `rounds` is present
	WarmTime time.Duration `json:"warmup_ns,omitempty"`
	// maximum time in timed rounds per cell; cells with the same model, workers and clients
	// share their total
	Time time.Duration `json:"time_ns" flag:"--time"`
	// time over which the blocks of each cell are spread: cycles begin at random moments of equal parts of it; absent
	// if they follow each other
	Spread time.Duration `json:"spread_ns,omitempty" flag:"--spread"`
	// precision of the median round at which a cell ends; 0.05 means ±5 %; 0 means that it ends
	// after `blocks`
	//
	// It is the relative half-width of the interval of the median round.
	Precision float64 `json:"precision" flag:"--precision" check:"0..100" unit:"share"`
	// rounds whose data is all checked: `last`, `sample` (every eighth, too) or `all` (every second, too)
	Verify string `json:"verify"`
	// server and workers were pinned to separate processors
	Pin bool `json:"pin"`
	// number of processors that the server had for itself, while all other processes had the
	// others; absent without such a limit
	ServerCPUs int `json:"server_cpus,omitempty" flag:"--server-cpus" check:"0..4096"`
	// number of spans that each process can record
	Samples int `json:"span_room" flag:"room for spans" check:"1..268435456"`
	// time without progress in a round that ends the run; absent if ipcbench chooses it
	//
	// Zero means the default of package trainer.
	RoundLimit time.Duration `json:"round_limit_ns,omitempty" flag:"--round-limit"`
	// with what all other programs are compared: `base`, with `--against`, or the variant of a
	// peer, with `--baseline`; absent without one of them
	Baseline string `json:"baseline,omitempty"`
}

// A Floor is a limit of the machine without a transport, measured between blocks.
type Floor struct {
	// `copy`, `first-touch`, `unix-stream`, `unix-pingpong`, `tcp-stream`, `tcp-pingpong`,
	// `tls-stream`, `futex`, `rpc-empty` or `work`; docs/measuring.md describes each. On a link with
	// a delay, also `tcp-stream-idle` and `tls-stream-idle`: after a second without bytes
	Name string `json:"name" check:"name"`
	// fastest of several conditions, such as a size of writes, or one that ends in `,cached`
	// because its memory fit in a cache; else absent
	Condition string `json:"condition,omitempty"`
	// unit of the samples: `s` (seconds) or `B/s` (bytes per second)
	Unit string `json:"unit" check:"s|B/s"`
	// description of the floor, in one sentence
	Help string `json:"help"`
	// name of the model whose cells the floor bounds; absent if it bounds all cells
	Model string `json:"model,omitempty"`
	// name of the update of these cells; absent if it has the model's tensors
	Up string `json:"up,omitempty"`
	// keys of Setup, stored in this object, of the cells that the floor bounds; a floor without a
	// model has at most `link`, `language` and `pages`
	Setup
	// number of clients of the cells that the floor bounds; absent if it bounds any number
	Clients int `json:"clients,omitempty"`
	// variant on whose worker connection the floor was measured; absent without one
	Variant string `json:"variant,omitempty"`
	// time that the measuring process computed before each sample; absent if the floor does not
	// depend on it
	Gap int64 `json:"gap_ns,omitempty"`
	// agent's host at the other end; absent if both ends are on one host
	Host string `json:"host,omitempty"`
	// bytes per transfer of a TCP or TLS stream; absent for other floors
	Bytes int64 `json:"bytes,omitempty"`
	// samples in `unit`, one list per measurement of the floor
	Blocks [][]float64 `json:"blocks" unit:"as unit says"`
}

// A Cell is one combination that was measured.
type Cell struct {
	// name of the transport
	Transport string `json:"transport" check:"name"`
	// transport and the settings that differ from their defaults, in the syntax of
	// `--transport`
	Variant string `json:"variant" check:"name"`
	// all settings of the transport, defaults included
	Settings map[string]string `json:"settings"`
	// name of the program, one of `programs`, that ran the blocks; absent if the measuring
	// process was the server
	Program string `json:"program,omitempty"`
	Model
	// number of workers that train at the same time
	Workers int `json:"workers" flag:"--workers" check:"1..4096"`
	// number of lanes in each worker process
	PerProcess int `json:"lanes_per_process" flag:"--lanes-per-process" check:"1..4096"`
	// number of clients per round, distributed among the workers
	Clients int `json:"clients" flag:"--clients" check:"1..100000"`
	// updates that one worker may have pending, including the one it is computing
	Depth int `json:"depth" flag:"--depth" check:"1..1024"`
	// how workers ran: as `processes`, `goroutines` of the server, processes in `python`,
	// processes started by `agents`, or processes of a `peer`
	Launcher string `json:"launcher"`
	// keys of Setup, stored in this object: differences from the usual cell
	Setup
	// worker processes per host, such as `h1:2,h2:1`; absent without agents, or if workers are
	// in the server's process
	Hosts string `json:"hosts,omitempty"`
	// value of `--place`, such as `spread`; absent without agents
	Place string `json:"place,omitempty"`
	// type of the file system that the transport writes to; absent if none or unknown
	FileSystem string `json:"file_system,omitempty"`
	// reason why the peer's data could not be checked; absent if it was checked
	Unproved string `json:"unproved,omitempty"`
	// software versions, as reported by Python workers; absent for others
	Software map[string]string `json:"software,omitempty" check:"name"`
	// densities of the data and errors of the codec; absent if they were not computed
	Coding *Coding `json:"coding,omitempty"`
	// reason why no more blocks were measured: `precision`, `blocks`, `time`, `rounds` or
	// `interrupted`; in older files also `budget` or `size`
	Stopped string `json:"stopped"`
	// the measured blocks, in order of time
	Blocks []Block `json:"blocks"`
	// profiles, taken in separate blocks; absent if there are none
	Profiles []Profile `json:"profiles,omitempty"`
}

// A Coding holds the densities of a cell's data and the errors of its codec, from the reference
// chain.
type Coding struct {
	// share of the model's elements that differ from the previous version
	DensityDown float64 `json:"density_down" check:"0..1"`
	// share of the update's elements that differ from the trained model; 0 if updates do not
	// have the model's tensors
	DensityUp float64 `json:"density_up" check:"0..1"`
	// error of the decoded model; absent without a lossy codec
	ErrorDown *CodingError `json:"error_down,omitempty"`
	// error of the decoded updates; absent without a lossy codec
	ErrorUp *CodingError `json:"error_up,omitempty"`
	// upper limit that the codec guarantees for `max`, and with which proved values were
	// compared; absent if it guarantees none, so that no error would be too large
	Bound float64 `json:"bound,omitempty" check:"0..1"`
	// names of the tensors that the codec does not accept; absent if there are none
	Plain []string `json:"plain,omitempty" check:"name"`
}

// A CodingError is the difference between decoded elements and the encoded ones. A number is
// null if its divisor is 0.
type CodingError struct {
	Max *float64 `json:"max" check:"0..3.5e38"` // largest error of an element, divided by the largest element of its tensor
	RMS *float64 `json:"rms" check:"0..3.5e38"` // root mean square of all errors, divided by the root mean square of the elements
}

// A Profile describes one profile of a cell, taken in separate blocks.
type Profile struct {
	// `cpu`, `heap`, `allocs`, `mutex`, `block` or `trace`
	//
	// See package capture.
	Kind string `json:"kind" check:"cpu|heap|allocs|mutex|block|trace"`
	// files of the profile, relative to the folder of the result file: one, or for traces one
	// per process
	Files []string `json:"files" check:"name"`
	// index of the first profiled block in `blocks` of the cell; profiled blocks are consecutive
	First int `json:"first_block"`
	// number of profiled blocks
	Blocks int `json:"blocks"`
	// number of timed rounds in the profiled blocks
	Rounds int `json:"rounds"`
	// summary of the profile; absent for a trace
	Summary *Summary `json:"summary,omitempty"`
}

// A Timeline holds the spans of a few rounds, one list per property. Times are
// nanoseconds since the start of the first of these rounds.
//
// Sums of several stays (phase.Sample.Summed) are left out, because they have no single
// start and end.
type Timeline struct {
	// names of the processes, the server first
	Processes []string `json:"processes"`
	// numbers of the rounds
	Rounds []int `json:"rounds"`
	// start of each round; 0 for the first
	RoundStart []int64 `json:"round_start_ns"`
	// end of each round
	RoundEnd []int64 `json:"round_end_ns"`

	// process of each span, as an index into `processes`; all lists below also have one entry
	// per span
	Process []int `json:"process"`
	// lane, from 0; -1 if the span belongs to none
	Lane []int `json:"lane" check:"signed"`
	// client, from 0; -1 if the span belongs to none
	Client []int `json:"client" check:"signed"`
	// name of the phase
	Phase []string `json:"phase"`
	// start of the span; negative if it began before the first round
	Start []int64 `json:"start_ns" check:"signed"`
	// end of the span
	End []int64 `json:"end_ns" check:"signed"`
}

// Model names and sizes the model and the update of a cell.
type Model struct {
	Name    string `json:"model" check:"name"`                                                   // name of the model, in the syntax of `--model`
	Tensors int    `json:"model_tensors" flag:"number of tensors of --model" check:"0..1048576"` // number of tensors of the model
	Bytes   int64  `json:"model_bytes"`                                                          // size of the model, and of the update if `up` is absent

	Up        string `json:"up,omitempty"`                                                             // name of the update; absent if it has the model's tensors
	UpTensors int    `json:"up_tensors,omitempty" flag:"number of tensors of --up" check:"0..1048576"` // number of tensors of the update; absent without `up`
	UpBytes   int64  `json:"up_bytes,omitempty"`                                                       // size of the update; absent without `up`
}

// Label returns the model's name, followed by " up=" and the update's name if they differ.
func (m Model) Label() string {
	if m.Up == "" {
		return m.Name
	}
	return m.Name + " up=" + m.Up
}

// Payload returns the payload of one client's round trip: model plus update, in bytes.
func (m Model) Payload() int64 {
	if m.Up == "" {
		return 2 * m.Bytes
	}
	return m.Bytes + m.UpBytes
}

// Payload returns the payload of one round in bytes: a model and an update per client.
func (c Cell) Payload() int64 { return c.Model.Payload() * int64(c.Clients) }

// ID returns a text that identifies the cell, except for its program, in its run and in other runs.
func (c Cell) ID() string {
	id := c.Variant + " " + c.Model.Label() + " workers=" + strconv.Itoa(c.Workers) + " clients=" + strconv.Itoa(c.Clients)
	for _, d := range c.Unusual() {
		id += " " + d.Key + "=" + d.Of(c.Setup)
	}
	return id
}

// A Host is one of the hosts of a run with agents.
type Host struct {
	// name of the agent in the run; `server` for the server's host
	Name string `json:"name" check:"name"`
	// machine and build at the start of the run, as seen by the agent's process
	Environment machine.Environment `json:"environment"`
	// the host is the server's
	Server bool `json:"server,omitempty"`

	// name of the first earlier host in `hosts` on the same machine; absent if there is none
	//
	// Hosts with the same boot ID are on the same machine.
	SameMachine string `json:"same_machine,omitempty"`
}
