package bench

import (
	"time"

	"ipcbench/link"
	"ipcbench/tensor"
)

// What travels between two builds: the order that one reads, and the answer that
// it gives. These structs stand apart from those of the result file and of the
// rest of the program, so that either can change without the other:
//
//   - Fields are only ever added, never renamed, removed or given another meaning.
//     A reader leaves out those that it does not know, and takes an absent one as
//     its zero, which has to mean what it meant before there was the field.
//   - What must not be left out is a need: a word in the list of the cell. A build
//     that does not know the word refuses the cell, by that word.
//   - Whoever must break these rules raises exchangeVersion. Builds of two versions
//     cannot be measured in turn.
//
// testdata/order.json and testdata/answer.json hold both as they are.

// exchangeVersion is the version of orders and answers.
const exchangeVersion = 1

// The needs of a cell, and those that this build knows.
const (
	needValues  = "values"  // first values come from a file
	needRespawn = "respawn" // every round has fresh workers
	needPin     = "pin"
	needSlow    = "slow" // every Submit burns CPU time
	needUp      = "up"   // updates are laid out in a way of their own
	needLink    = "link" // the server listens on a link, whose rate is set
	needChange  = "change"
	needNormal  = "normal" // first values
	needSync    = "sync"   // the server changes the model
	needNested  = "nested" // model and updates travel as Go values with tensors nested in them
)

var knownNeeds = []string{needValues, needRespawn, needPin, needSlow, needUp, needChange, needNormal, needSync, needLink, needNested}

// An order asks for one block of its only cell or, without a block, which of its
// cells the build can run.
type order struct {
	Version int         `json:"version"`
	Works   []orderWork `json:"works"`
	Cells   []orderCell `json:"cells"`
	Block   *orderBlock `json:"block,omitempty"`
}

// An orderWork is what is trained, and by whom: cells share it. Nothing in it says
// which values are expected.
type orderWork struct {
	Model   string        `json:"model"`            // a label
	Values  string        `json:"values,omitempty"` // the file of the first values, a need; if there is none, they are made from the seed
	Down    []orderTensor `json:"down"`
	Up      []orderTensor `json:"up,omitzero"`      // a need; absent if updates are laid out as the model is
	Update  string        `json:"update,omitempty"` // a label of up
	Clients []orderClient `json:"clients"`          // in the order in which they are dispatched

	Change   tensor.Change `json:"change,omitzero"`    // the share of words that change, a need; absent if all do
	First    string        `json:"first,omitempty"`    // what first values are made from the seed: normal, a need; absent if uniform
	Scenario string        `json:"scenario,omitempty"` // sync, a need; absent if clients change the model
}

type orderTensor struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Var   bool   `json:"var,omitempty"` // shape[0] is a capacity
}

type orderClient struct {
	ID     int     `json:"id"`
	Weight float64 `json:"weight"`
	Device string  `json:"device"`
}

type orderCell struct {
	Needs      []string  `json:"needs"`
	Work       int       `json:"work"`    // an index of Works
	Variant    string    `json:"variant"` // as users write it
	Workers    int       `json:"workers"`
	PerProcess int       `json:"lanes_per_process"`
	Depth      int       `json:"depth"`
	Link       link.Rate `json:"link,omitzero"` // a need: its rate; if there is none, there is no link
}

// An orderBlock says how a block is measured.
type orderBlock struct {
	Seed       uint64        `json:"seed"`
	Rounds     int           `json:"rounds"`                 // to time; 0 is by time
	Least      int           `json:"least_rounds,omitempty"` // to time at least, if it is by time; 0 is 3
	Time       time.Duration `json:"time_ns"`                // of timed rounds
	Warmup     int           `json:"warmup"`
	WarmTime   time.Duration `json:"warm_ns"`
	Verify     string        `json:"verify"` // sample or all
	TrainMS    int           `json:"train_ms"`
	Spans      int           `json:"spans"`          // that each process has room for
	RoundLimit time.Duration `json:"round_limit_ns"` // 0 is the build's own
	Respawn    bool          `json:"respawn"`        // a need, as the next two are
	Pin        bool          `json:"pin"`
	Slow       time.Duration `json:"slow_ns"` // CPU time that every Submit burns
}

// An answer is what came of an order.
type answer struct {
	Version     int                `json:"version"`
	Rules       int                `json:"rules"` // the version of those by which the build measures a block
	Error       string             `json:"error,omitempty"`
	Environment *answerEnvironment `json:"environment,omitempty"` // if no block was asked for, as the next
	Refused     []string           `json:"refused,omitempty"`     // why, for each cell; empty if it is not
	Block       *answerBlock       `json:"block,omitempty"`
	Pings       []int64            `json:"pings_ns,omitempty"` // what empty calls took
	Software    map[string]string  `json:"software,omitempty"` // of a peer, which has no environment
	Unproved    string             `json:"unproved,omitempty"` // why a peer has no hashes
	Running     [][]string         `json:"running,omitempty"`  // of a peer: for each round, the hash after each tensor; the last is the model's
	Hashes      []string           `json:"hashes,omitempty"`   // of the model after each round of the block, the untimed ones included: 16 hex digits
}

// An answerBlock has an entry a timed round where nothing else is said.
type answerBlock struct {
	Spawn        time.Duration      `json:"spawn_ns"`
	TLS          *answerTLS         `json:"tls,omitempty"`
	Cold         answerCold         `json:"cold"`
	Round        []int64            `json:"round_ns"`
	Unattributed []int64            `json:"unattributed_ns"`
	Train        []int64            `json:"train_ns"` // for each round an entry a client, as the next three
	RTT          []int64            `json:"rtt_ns"`
	Down         []int64            `json:"down_ns"`
	Up           []int64            `json:"up_ns"`
	Phases       map[string][]int64 `json:"phases_ns"`
	Server       answerProcess      `json:"server"`
	Workers      []answerProcess    `json:"workers"`
	System       *answerSystem      `json:"system,omitempty"`
	Proof        answerProof        `json:"proof"`
	Spans        int64              `json:"spans"`
	SpanCost     int64              `json:"span_cost_ns"`
}

type answerTLS struct {
	Handshakes int    `json:"handshakes"`
	Time       int64  `json:"handshake_ns"`
	Cipher     string `json:"cipher"`
}

type answerCold struct {
	Round   int64         `json:"round_ns"`
	Server  answerUsage   `json:"server"`
	Workers []answerUsage `json:"workers"`
}

type answerProof struct {
	Rounds  int `json:"rounds"`
	Updates int `json:"updates"`
}

type answerProcess struct {
	Usage     answerUsage      `json:"usage"`
	Memory    answerMemory     `json:"memory"`
	Counts    map[string]int64 `json:"counts"`
	CPUs      []int            `json:"cpus,omitempty"`
	StalePeak bool             `json:"stale_peak,omitempty"`
	Import    time.Duration    `json:"import_ns,omitempty"`
}

type answerUsage struct {
	User                time.Duration `json:"user_ns"`
	System              time.Duration `json:"system_ns"`
	MinorFaults         int64         `json:"minor_faults"`
	MajorFaults         int64         `json:"major_faults"`
	VoluntarySwitches   int64         `json:"voluntary_switches"`
	InvoluntarySwitches int64         `json:"involuntary_switches"`
	AllocBytes          int64         `json:"alloc_bytes"`
	AllocObjects        int64         `json:"alloc_objects"`
	GCCycles            int64         `json:"gc_cycles"`
	GCTime              time.Duration `json:"gc_cpu_ns"`
	Queue               *answerQueue  `json:"queue,omitempty"`
	IO                  *answerIO     `json:"io,omitempty"`
}

type answerQueue struct {
	Wait time.Duration `json:"wait_ns"`
}

type answerIO struct {
	ReadBytes    int64 `json:"read_bytes"`
	WrittenBytes int64 `json:"written_bytes"`
	ReadCalls    int64 `json:"read_calls"`
	WriteCalls   int64 `json:"write_calls"`
}

type answerMemory struct {
	Peak  int64  `json:"peak_rss_bytes"`
	RSS   int64  `json:"rss_bytes"`
	Anon  int64  `json:"rss_anon_bytes"`
	File  int64  `json:"rss_file_bytes"`
	Shmem int64  `json:"rss_shmem_bytes"`
	PSS   *int64 `json:"pss_bytes,omitempty"`
}

type answerSystem struct {
	Busy  time.Duration `json:"busy_ns"`
	Idle  time.Duration `json:"idle_ns"`
	Steal time.Duration `json:"steal_ns"`
}

type answerEnvironment struct {
	Time         time.Time     `json:"time"`
	CPU          string        `json:"cpu"`
	CPUs         int           `json:"cpus_online"`
	Affinity     string        `json:"affinity"`
	GOMAXPROCS   int           `json:"gomaxprocs"`
	LLC          int64         `json:"llc_bytes"`
	Governor     string        `json:"governor,omitempty"`
	Hypervisor   string        `json:"hypervisor,omitempty"`
	Arch         string        `json:"arch"`
	Kernel       string        `json:"kernel"`
	AES          *bool         `json:"aes,omitempty"`
	MemTotal     int64         `json:"mem_total_bytes"`
	MemAvailable int64         `json:"mem_available_bytes"`
	Cgroup       *answerCgroup `json:"cgroup,omitempty"`
	Shm          *answerSpace  `json:"dev_shm,omitempty"`
	Tmp          *answerSpace  `json:"tmp,omitempty"`
	THP          string        `json:"thp"`
	ShmemTHP     string        `json:"shmem_thp"`
	HugePages    int           `json:"nr_hugepages"`
	SocketBuffer int64         `json:"wmem_max"`
	Go           string        `json:"go"`
	Commit       string        `json:"commit"`
	Dirty        bool          `json:"dirty,omitempty"`
	Race         bool          `json:"race,omitempty"`
}

type answerCgroup struct {
	Version    string   `json:"version"`
	CPUs       *float64 `json:"cpu_limit"`
	Memory     *int64   `json:"memory_limit_bytes"`
	MemoryUsed int64    `json:"memory_used_bytes"`
}

type answerSpace struct {
	FileSystem string `json:"file_system"`
	Size       int64  `json:"size_bytes"`
	Free       int64  `json:"free_bytes"`
}
