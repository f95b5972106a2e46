package trainer

import (
	"fmt"
	"io"
	"slices"
	"time"

	"ipcbench/phase"
	"ipcbench/phase/usage"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// A message is sent on the control socket between the server and a worker process, which has the
// socket as descriptor 3. While rounds are timed, the socket is silent. A frame
// is the length in four bytes, big-endian, and one JSON object with one key, the type. Bytes
// are base64. Durations and times are in nanoseconds; times are read from CLOCK_MONOTONIC. A
// lane, round or client of -1 means none.
//
//	type     sender   when it is sent, and its content
//	hello    both     first, without waiting for the other end: protocol and build
//	assign   server   second: the process's lanes and settings
//	sign     process  after assign, if the session has mutual TLS with its own authority:
//	                  a request for a certificate
//	signed   server   answers sign: the certificate
//	ready    process  answers assign, when all lanes of the process are connected
//	ping     server   when all processes are ready, to the process of lane 0
//	pinged   process  answers ping: the duration of each empty call
//	mark     server   between two rounds: the window that begins
//	marked   process  answers mark, when none of its lanes is in the middle of a job
//	stop     server   any time: worker functions of earlier rounds should end early
//	poke     server   when the process has been silent for long: asks for news
//	news     process  answers poke: the current activity of each lane
//	proof    process  before an update is submitted, if the worker function is user code
//	                  and the round is not measured: hashes of model and update
//	failure  process  any time: a lane has failed, and the process ends
//	report   process  last, when the transport has ended all lanes: its recordings
//
// After its report, a process waits until the server closes the socket. A process ends
// whenever the socket closes. A message that is unrequested or too long, or that belongs to
// another protocol, fails the session.
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

// protocol is the version of the messages in this file.
const protocol = 4

// hello identifies its sender. Both ends of a session must send the same.
type hello struct {
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
}

func newHello() *hello { return &hello{Protocol: protocol, Build: Build()} }

func (h *hello) String() string {
	if h == nil {
		return "an unknown version"
	}
	return fmt.Sprintf("version %d of build %.80q", h.Protocol, h.Build)
}

// assignment has everything that a worker process needs to serve its lanes.
type assignment struct {
	Process    int             `json:"process"`
	Lanes      []int           `json:"lanes"` // the lanes of this process
	Transport  string          `json:"transport"`
	Settings   driver.Settings `json:"settings"`
	Down       []tensor.Spec   `json:"down"`
	Up         []tensor.Spec   `json:"up"`
	TotalLanes int             `json:"total_lanes"`
	Clients    int             `json:"clients"`
	Depth      int             `json:"depth"`
	Pages      pages.Size      `json:"pages,omitempty"`
	Addr       string          `json:"addr"`   // address of the server; empty if it does not listen
	Secret     string          `json:"secret"` // the secret of the session
	Trust      endpoint.Trust  `json:"trust,omitzero"`
	Func       string          `json:"func"`
	FuncConfig []byte          `json:"func_config,omitempty"`
	Samples    int             `json:"samples"` // capacity of the recorder
	Window     Window          `json:"window"`
	Pings      int             `json:"pings"` // empty calls to measure on lane 0, before its first job
	Profiling  *Profiling      `json:"profiling,omitempty"`
}

// Format keeps the content of an assignment, such as the secret, out of logs and errors.
func (assignment) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "an assignment") }

// check rejects numbers that no server sends.
func (a *assignment) check() error {
	if len(a.Lanes) == 0 || slices.Min(a.Lanes) < 0 || slices.Max(a.Lanes) >= a.TotalLanes || a.TotalLanes > MaxWorkers ||
		a.Clients < 0 || a.Depth < 1 || !a.Pages.Valid() || a.Samples < 0 || a.Samples > maxSamples || a.Pings < 0 || a.Pings > maxPings {
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

// ready reports the TLS handshakes made to connect the lanes. A process that runs another
// program also reports its software.
type ready struct {
	Handshakes    int64             `json:"handshakes"`
	HandshakeTime int64             `json:"handshake_ns"`        // sum of all handshakes
	Cipher        string            `json:"cipher"`              // empty without handshakes
	Software      map[string]string `json:"software,omitempty"`  // versions, by name
	Import        time.Duration     `json:"import_ns,omitempty"` // time to import that software
}

type ping struct{}

type poke struct{}

// pinged holds the duration of each empty call; it is empty if the transport makes no calls.
type pinged struct {
	Samples []int64 `json:"samples_ns"`
}

// check rejects more durations than pings, and durations of 0 or less.
func (p *pinged) check(pings int) error {
	if n := len(p.Samples); n > pings || n > 0 && slices.Min(p.Samples) <= 0 {
		return fmt.Errorf("%w: %d answers to %d pings, or an answer that took no time", errProtocol, n, pings)
	}
	return nil
}

type mark struct {
	Window Window `json:"window"`
	Round  int    `json:"round"` // the first round of the window
}

type marked struct {
	Full bool `json:"full"` // the recorder may have no room for many more rounds
}

type stop struct {
	Below int `json:"below"` // the first round whose jobs need not end early
}

// proof holds hashes ([tensor.Package.Hash]) as 16 hex digits.
type proof struct {
	Lane   int    `json:"lane"`
	Round  int    `json:"round"`
	Client int    `json:"client"`
	Model  string `json:"model"`  // hash of the model as received
	Update string `json:"update"` // hash of the update as submitted
}

type failure struct {
	Lane   int    `json:"lane"`
	Round  int    `json:"round"`
	Client int    `json:"client"`
	Text   string `json:"text"`
}

// longestFailure is the most bytes of a failure's text to send: a longer text could make the
// message too long, and so hide the failure.
const longestFailure = 64 << 10

// news reports the progress of a process and the current activity of its lanes.
type news struct {
	Moves int64      `json:"moves"` // number of spans recorded plus the sum of all counters
	Lanes []laneNews `json:"lanes"` // all lanes of the process, in order
}

type laneNews struct {
	Lane   int  `json:"lane"`
	Round  int  `json:"round"`
	Client int  `json:"client"`
	Doing  step `json:"doing"` // connecting, receiving, training or submitting
}

// A Window names a part of a session whose costs are summed separately.
type Window string

// The windows of a session.
const (
	Outside Window = ""      // not measured
	Cold    Window = "cold"  // the first round
	Timed   Window = "timed" // the rounds whose times count
)

// UnmarshalText sets w to the window of that name. It fails if there is none.
func (w *Window) UnmarshalText(name []byte) error {
	if *w = Window(name); *w != Outside && *w != Cold && *w != Timed {
		return fmt.Errorf("no window %.20q", name)
	}
	return nil
}

// report holds the recordings of a process.
type report struct {
	Totals
	Samples  columns       `json:"samples"`
	Profiles []phase.Piece `json:"profiles,omitempty"`
}

func newReport(t Totals) *report {
	return &report{Totals: t, Samples: newColumns(t.Samples), Profiles: t.Profiles}
}

// complete adds samples and profiles to the totals. It fails if they are impossible for
// a process that hosts exactly the lanes for which hosts returns true.
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

// columns hold samples: element n of each column belongs to sample n.
type columns struct {
	Phases []string `json:"phases"` // names of phases
	Phase  []uint16 `json:"phase"`  // indices into Phases
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

// samples returns the samples. It fails if there are more than most, or if one is impossible
// for a process that hosts exactly the lanes for which hosts returns true.
func (c *columns) samples(most int, hosts func(lane int) bool) ([]phase.Sample, error) {
	n := len(c.Phase)
	for _, other := range [...]int{len(c.Lane), len(c.Round), len(c.Client), len(c.Start), len(c.End), len(c.Summed)} {
		if other != n || n > most {
			return nil, fmt.Errorf("%w: columns of %d and %d samples: must be equally long, and at most %d", errProtocol, n, other, most)
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

// Totals are the recordings of one process over a session.
type Totals struct {
	Samples []phase.Sample              `json:"-"`
	Lost    int                         `json:"lost"` // number of samples for which there was no room
	Usage   map[Window]usage.Usage      `json:"usage"`
	Counts  map[Window]map[string]int64 `json:"counts"` // by the names of counters
	Memory  usage.Memory                `json:"memory"` // after the last timed window
	CPUs    []int                       `json:"cpus"`   // processors that the process could use

	// From the message ready; empty for the server.
	Software map[string]string `json:"-"`
	Import   time.Duration     `json:"-"`

	Profiles []phase.Piece `json:"-"` // of the window Timed
}
