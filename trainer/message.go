package trainer

import (
	"fmt"
	"io"
	"slices"
	"time"

	"ipcbench/phase"
	"ipcbench/phase/usage"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// A message travels on the control socket between the server and a process of workers.
// A frame is its length in four bytes, the highest first, and one JSON object with
// one key, the type. Bytes are base64. Durations and times are in nanoseconds, and times
// are those of CLOCK_MONOTONIC. A lane, round or client of -1 is none.
//
//	type     sender   when it is sent, and what it holds
//	hello    both     first, without waiting for the other end: protocol and build
//	assign   server   second: everything that the process needs to know
//	sign     process  after assign, if the session has mutual TLS with its own authority:
//	                  a request for a certificate
//	signed   server   answers sign: the certificate
//	ready    process  answers assign, when all lanes of the process are connected
//	ping     server   when all processes are ready, to the process of lane 0
//	pinged   process  answers ping: the duration of each empty call
//	mark     server   between two rounds: the window that begins
//	marked   process  answers mark, when none of its lanes is in the middle of a job
//	stop     server   any time: worker functions of the rounds below should end early
//	poke     server   when the process has been silent for long: asks what it does
//	news     process  answers poke: what each lane does
//	proof    process  before an update is submitted, if the worker function is a user's
//	                  and the round is not measured: hashes of model and update
//	failure  process  any time: a lane has failed, and the process ends
//	report   process  last, when the transport has ended all lanes: what it has recorded
//
// After its report, a process waits until the server closes the socket. A process ends
// whenever the socket closes. A message that nobody asked for, that is too long, or that
// belongs to another protocol fails the session.
type message struct {
	kind string // the key, set by parse

	Hello   *hello      `json:"hello,omitempty"`
	Assign  *assignment `json:"assign,omitempty"`
	Mark    *mark       `json:"mark,omitempty"`
	Stop    *stop       `json:"stop,omitempty"`
	Ping    *ping       `json:"ping,omitempty"`
	Poke    *poke       `json:"poke,omitempty"`
	Sign    *sign       `json:"sign,omitempty"`
	Signed  *signed     `json:"signed,omitempty"`
	Ready   *ready      `json:"ready,omitempty"`
	Pinged  *pinged     `json:"pinged,omitempty"`
	Marked  *marked     `json:"marked,omitempty"`
	News    *news       `json:"news,omitempty"`
	Proof   *proof      `json:"proof,omitempty"`
	Failure *failure    `json:"failure,omitempty"`
	Report  *report     `json:"report,omitempty"`
}

// protocol is the version of all that is in this file.
const protocol = 4

// hello says what its sender speaks. Both ends of a session are of one build.
type hello struct {
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
}

func newHello() *hello { return &hello{Protocol: protocol, Build: Build()} }

func (h *hello) String() string {
	if h == nil {
		return "nothing of it"
	}
	return fmt.Sprintf("version %d of build %.80q", h.Protocol, h.Build)
}

// assignment is everything that a worker process needs to know.
type assignment struct {
	Process    int             `json:"process"`
	Lanes      []int           `json:"lanes"` // that this process hosts
	Transport  string          `json:"transport"`
	Settings   driver.Settings `json:"settings"`
	Down       []tensor.Spec   `json:"down"`
	Up         []tensor.Spec   `json:"up"`
	TotalLanes int             `json:"total_lanes"`
	Clients    int             `json:"clients"`
	Depth      int             `json:"depth"`
	Addr       string          `json:"addr"`   // where the server listens; empty if it does not
	Secret     string          `json:"secret"` // of the session
	Trust      driver.Trust    `json:"trust,omitzero"`
	Func       string          `json:"func"`
	FuncConfig []byte          `json:"func_config,omitempty"`
	Samples    int             `json:"samples"` // capacity of the recorder
	Window     Window          `json:"window"`
	Pings      int             `json:"pings"` // that lane 0 makes before its first job
	Profiling  *Profiling      `json:"profiling,omitempty"`
}

// Format keeps what an assignment says out of whatever prints one.
func (assignment) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "an assignment") }

// check reports numbers that no server gives.
func (a *assignment) check() error {
	if len(a.Lanes) == 0 || slices.Min(a.Lanes) < 0 || slices.Max(a.Lanes) >= a.TotalLanes || a.TotalLanes > MaxWorkers ||
		a.Clients < 0 || a.Depth < 1 || a.Samples < 0 || a.Pings < 0 || a.Pings > maxPings {
		return fmt.Errorf("%w: lanes %v of %d, %d clients, depth %d, %d samples, %d pings",
			errProtocol, a.Lanes, a.TotalLanes, a.Clients, a.Depth, a.Samples, a.Pings)
	}
	return nil
}

// sign holds a request for a certificate (PKCS #10, DER).
type sign struct {
	Request []byte `json:"request"`
}

// signed holds the certificate (DER).
type signed struct {
	Certificate []byte `json:"certificate"`
}

// ready says which TLS handshakes it took to connect the lanes, and what the process runs
// on, if it is not this program.
type ready struct {
	Handshakes    int64             `json:"handshakes"`
	HandshakeTime int64             `json:"handshake_ns"`        // of all of them
	Cipher        string            `json:"cipher"`              // empty without any
	Software      map[string]string `json:"software,omitempty"`  // versions, by name
	Import        time.Duration     `json:"import_ns,omitempty"` // what importing that took
}

type ping struct{}

type poke struct{}

// pinged holds what each empty call took; none if the transport makes no calls.
type pinged struct {
	Samples []int64 `json:"samples_ns"`
}

// check reports answers that took no time.
func (p *pinged) check(pings int) error {
	if n := len(p.Samples); n > pings || n > 0 && slices.Min(p.Samples) <= 0 {
		return fmt.Errorf("%w: %d answers to %d pings, or such as took no time", errProtocol, n, pings)
	}
	return nil
}

type mark struct {
	Window Window `json:"window"`
	Round  int    `json:"round"` // the first one that is of the window
}

type marked struct {
	Full bool `json:"full"` // the recorder may have no room for many more rounds
}

type stop struct {
	Below int `json:"below"` // the first round that goes on
}

// proof holds hashes ([tensor.Package.Hash]) as 16 hex digits.
type proof struct {
	Lane   int    `json:"lane"`
	Round  int    `json:"round"`
	Client int    `json:"client"`
	Model  string `json:"model"`  // as the worker received it
	Update string `json:"update"` // as it submits it
}

type failure struct {
	Lane   int    `json:"lane"`
	Round  int    `json:"round"`
	Client int    `json:"client"`
	Text   string `json:"text"`
}

// longestFailure is how much of a failure's text is sent: all of it could make the
// message too long, and so hide the failure.
const longestFailure = 64 << 10

// news says what a process has done, and does.
type news struct {
	Moves int64      `json:"moves"` // spans and everything counted
	Lanes []laneNews `json:"lanes"` // all that the process hosts, in order
}

type laneNews struct {
	Lane   int  `json:"lane"`
	Round  int  `json:"round"`
	Client int  `json:"client"`
	Doing  step `json:"doing"` // connecting, receiving, training or submitting
}

// A Window names a part of a session whose costs are summed apart.
type Window string

// The windows of a session.
const (
	Outside Window = ""      // not measured
	Cold    Window = "cold"  // the first round
	Timed   Window = "timed" // the rounds whose times count
)

// UnmarshalText makes w the window of that name.
func (w *Window) UnmarshalText(name []byte) error {
	if *w = Window(name); *w != Outside && *w != Cold && *w != Timed {
		return fmt.Errorf("no window %.20q", name)
	}
	return nil
}

// report is all that a process has recorded.
type report struct {
	Totals
	Samples  columns       `json:"samples"`
	Profiles []phase.Piece `json:"profiles,omitempty"`
}

func newReport(t Totals) *report {
	return &report{Totals: t, Samples: newColumns(t.Samples), Profiles: t.Profiles}
}

// complete adds samples and profiles to the totals of a process that hosts the lanes for
// which hosts says so, unless such a process cannot have recorded them.
func (r *report) complete(c *Config, hosts func(lane int) bool) (err error) {
	if r.Lost < 0 {
		return fmt.Errorf("%w: %d lost samples", errProtocol, r.Lost)
	}
	for _, p := range r.Profiles {
		if c.Profiling == nil || !slices.Contains(c.Profiling.Kinds, p.Kind) {
			return fmt.Errorf("%w: a profile of kind %.20q", errProtocol, p.Kind)
		}
	}
	r.Totals.Profiles = r.Profiles
	r.Totals.Samples, err = r.Samples.samples(c.Samples, hosts)
	return err
}

// columns are samples: the nth one is made of the nth element of each column.
type columns struct {
	Phases []string `json:"phases"` // the names of phases
	Phase  []uint16 `json:"phase"`  // by their index in Phases
	Lane   []int16  `json:"lane"`
	Round  []int32  `json:"round"`
	Client []int32  `json:"client"`
	Start  []int64  `json:"start_ns"`
	End    []int64  `json:"end_ns"`
	Summed []bool   `json:"summed"`
}

func newColumns(samples []phase.Sample) (c columns) {
	for _, p := range phase.Phases() {
		c.Phases = append(c.Phases, p.String())
	}
	first := phase.Phases()[0]
	for _, s := range samples {
		c.Phase = append(c.Phase, uint16(s.Phase-first))
		c.Lane, c.Round, c.Client = append(c.Lane, s.Lane), append(c.Round, s.Round), append(c.Client, s.Client)
		c.Start, c.End, c.Summed = append(c.Start, s.Start), append(c.End, s.End), append(c.Summed, s.Summed)
	}
	return c
}

// samples returns them: at most so many, of a process that hosts the lanes for which hosts
// says so.
func (c *columns) samples(most int, hosts func(lane int) bool) ([]phase.Sample, error) {
	n := len(c.Phase)
	for _, other := range [...]int{len(c.Lane), len(c.Round), len(c.Client), len(c.Start), len(c.End), len(c.Summed)} {
		if other != n || n > most {
			return nil, fmt.Errorf("%w: columns of %d and %d samples: want as many in each, and at most %d", errProtocol, n, other, most)
		}
	}
	samples := make([]phase.Sample, 0, n)
	phases := make([]phase.Phase, len(c.Phases)) // None: unknown
	for _, p := range phase.Phases() {
		if i := slices.Index(c.Phases, p.String()); i >= 0 {
			phases[i] = p
		}
	}
	for i := range n {
		s := phase.Sample{Lane: c.Lane[i], Round: c.Round[i], Client: c.Client[i], Start: c.Start[i], End: c.End[i], Summed: c.Summed[i]}
		if p := int(c.Phase[i]); p < len(phases) {
			s.Phase = phases[p]
		}
		if !s.Phase.Worker() && !s.Phase.Inside() || s.Lane != -1 && !hosts(int(s.Lane)) || s.Round < -1 || s.Client < -1 || s.Start < 0 || s.End < s.Start {
			return nil, fmt.Errorf("%w: sample %+v", errProtocol, s)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// Totals are what one process recorded over a session.
type Totals struct {
	Samples []phase.Sample              `json:"-"`
	Lost    int                         `json:"lost"` // samples for which there was no room
	Usage   map[Window]usage.Usage      `json:"usage"`
	Counts  map[Window]map[string]int64 `json:"counts"` // counters
	Memory  usage.Memory                `json:"memory"` // at the end
	CPUs    []int                       `json:"cpus"`   // that the process could use

	// What the process said when it was ready.
	Software map[string]string `json:"-"`
	Import   time.Duration     `json:"-"`

	Profiles []phase.Piece `json:"-"` // of the window Timed
}
