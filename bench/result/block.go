package result

import (
	"slices"
	"time"

	"ipcbench/phase/usage"
)

// A Block is the measurement of one session of fresh processes.
//
// Slices with one entry per round hold the timed rounds in order. Slices with one entry per
// round and client hold each round's clients in dispatch order or, if there are many, only
// every k-th: see stride in package bench.
type Block struct {
	// number of the block in its cell, from 0
	Index int `json:"index"`
	// index into the `layouts` of the cell's program; absent means 0
	Layout int `json:"layout,omitempty"`
	// number of the block in the whole run, from 0
	Position int `json:"position"`
	// start of the block, since the start of the run
	At time.Duration `json:"at_ns"`
	// warm-up rounds after the first two, with the ones drawn at random; absent if there were none, or
	// only for `warmup_ns`
	Warmup int `json:"warmup,omitempty" check:"0..20000"`
	// time until all worker processes were connected; with `respawn`, the median over the rounds
	Spawn time.Duration `json:"spawn_ns"`
	// TLS handshakes of the worker processes before the first round; with `respawn`, only of
	// the first session; absent if there were none
	TLS *TLS `json:"tls,omitempty"`
	// the first round, in which memory is touched for the first time; it is not a timed round
	Cold Cold `json:"cold"`

	// duration of each timed round: from publishing the model until the average of all updates
	// is complete
	Round []int64 `json:"round_ns" check:"positive"`
	// duration of the training, one entry per round and client
	Train []int64 `json:"train_ns"`
	// round trip, one entry per round and client: from the server's start of sending to its end
	// of receiving
	//
	// It begins with the start of Dispatch and ends with the end of Collect.
	RTT []int64 `json:"rtt_ns"`

	// downlink, one entry per round and client: from the server's start of sending until the
	// worker has the model; absent if a process has `other_clock`
	//
	// It begins with the start of Dispatch and ends with the end of Receive. See OneClock.
	Down []int64 `json:"down_ns,omitempty"`
	// uplink, one entry per round and client: from the worker's start of the update, training
	// included, until the server has it; absent if a process has `other_clock`
	//
	// It begins with the start of the worker's Reserve and ends with the end of Collect. See
	// OneClock.
	Up []int64 `json:"up_ns,omitempty"`

	// time that no span covers, summed over the timed rounds; absent if it is 0 or a process
	// has `other_clock`
	//
	// See OneClock.
	Unattributed int64 `json:"unattributed_ns,omitempty"`
	// time in each phase, by the phase's name, summed over the timed rounds and all processes;
	// phases of the transport (from `encode` on) are part of the call that needed them.
	// `receive` and `wait`, which may begin before their round, are absent if a process has
	// `other_clock`. `nested` adds `attach` (workers, inside `train`), `detach` (the server
	// before `publish`, workers inside `train`) and `reconstruct` (the server)
	Phases map[string]int64 `json:"phases_ns" check:"sum"`

	// resources that the server process used in the timed rounds
	Server Process `json:"server"`
	// resources of each worker process; null or empty if workers are goroutines of the server
	Processes []Process `json:"processes"`
	// CPU time of the whole machine during the block; absent if unknown
	System *usage.System `json:"system,omitempty"`
	// events in the queues of the link during the block; absent without a link
	Link *LinkCount `json:"link,omitempty"`
	// rounds and updates whose data was checked
	Proof Proof `json:"proof"`

	// profiles were taken in this block, so reports ignore its times
	Profiled bool `json:"profiled,omitempty"`
	// single spans of a few rounds; absent unless the block was profiled
	Timeline *Timeline `json:"timeline,omitempty"`
	// number of spans recorded in the timed rounds
	Spans int64 `json:"spans"`
	// cost of recording one span, as measured in ipcbench's own process
	SpanCost int64 `json:"span_cost_ns"`
}

// OneClock reports whether all processes of the block read the server's clock.
func (b *Block) OneClock() bool {
	return !slices.ContainsFunc(b.Processes, func(p Process) bool { return p.OtherClock })
}

// TLS describes the handshakes of worker processes before the first round of a session.
type TLS struct {
	// number of handshakes of all worker processes
	Handshakes int `json:"handshakes"`
	// total duration of a process's handshakes, the largest of all processes
	Time int64 `json:"handshake_ns"`
	// cipher suite of the connections, as named by crypto/tls, such as `TLS_AES_128_GCM_SHA256`
	Cipher string `json:"cipher" check:"name"`
}

// Cold is the first round of a block, in which memory is touched for the first
// time.
type Cold struct {
	Round     int64         `json:"round_ns"`  // duration of the first round
	Server    usage.Usage   `json:"server"`    // resources that the server process used
	Processes []usage.Usage `json:"processes"` // resources of each worker process
}

// A Process holds the resources that one process used in the timed rounds of a block.
type Process struct {
	// name of the process's host; absent on the server's host
	Host string `json:"host,omitempty"`
	// CPU time, page faults, allocations, input and output
	Usage usage.Usage `json:"usage"`
	// memory at the end of the block
	Memory usage.Memory `json:"memory"`
	// counters by name; docs/reference/result.md#counters lists them. A counter may be negative if a
	// cache became smaller
	//
	// Package phase defines the names.
	Counts map[string]int64 `json:"counts" check:"signed"`
	// processors that the process could use, as reported by the kernel
	CPUs []int `json:"cpus,omitempty"`
	// time that a Python process took to import modules, before the block; else absent
	Import time.Duration `json:"import_ns,omitempty"`

	// `peak_rss_bytes` covers the whole life of the process, because it could not be reset at the
	// start of the block
	//
	// A reset is a write to /proc/self/clear_refs.
	StalePeak bool `json:"stale_peak,omitempty"`

	// the process read another clock than the server: its boot ID or time namespace differs
	//
	// Its block has no times that begin on one clock and end on the other.
	OtherClock bool `json:"other_clock,omitempty"`
}

// A LinkCount counts events in the queues of a link during a block.
type LinkCount struct {
	Dropped    int64 `json:"dropped"`    // packets dropped because a queue was full
	Overlimits int64 `json:"overlimits"` // number of times that a packet had to wait, to keep the rate
	// packets dropped by the loss of the link
	Lost int64 `json:"lost,omitempty"`
	// processor time of the process that holds the packets during the delay
	CPU time.Duration `json:"mirror_cpu_ns,omitempty"`
}

// A Proof counts the rounds and updates of a block whose data was checked.
type Proof struct {
	// number of rounds in which every element of every update was checked; none is timed
	Rounds int `json:"rounds"`
	// number of updates checked in these rounds; with `train`, by the hashes that workers
	// report of the tensors they received and sent
	Updates int `json:"updates"`
	// number of models whose hash was compared with the reference chain; 0 with `train`, which
	// has none
	Hashed int `json:"hashed"`
}

// Proved reports whether the data of every block was checked. Wrong data ends the run, so false
// means that data was not checked.
func (c Cell) Proved() bool {
	for _, b := range c.Blocks {
		if b.Proof.Updates == 0 || b.Proof.Hashed == 0 && c.Train == "" {
			return false
		}
	}
	return len(c.Blocks) > 0
}

// RoundTime returns the total duration of the timed rounds.
func (b *Block) RoundTime() time.Duration {
	var sum time.Duration
	for _, ns := range b.Round {
		sum += time.Duration(ns)
	}
	return sum
}

// Rounds returns the number of timed rounds of all blocks.
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

// Timed returns the blocks without profiles, whose times reports use.
func (c Cell) Timed() []Block {
	return slices.DeleteFunc(slices.Clone(c.Blocks), func(b Block) bool { return b.Profiled })
}
