package report

import (
	"io"
	"math"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// answerVersion is that of what the format json writes. Keys are added to it; it
// changes where one goes or means something else.
const answerVersion = 3

// An answer is what the format json writes of a result: everything that is
// computed from it, and no samples. Seconds, bytes and numbers are in their base
// units. What is unknown is absent or null.
type answer struct {
	Answer      int                  `json:"answer"` // the version; a result file has a schema instead, so that nobody takes one for the other
	Kind        string               `json:"kind"`   // result
	Command     []string             `json:"command"`
	Started     time.Time            `json:"started"`
	Elapsed     float64              `json:"elapsed_s"`
	Partial     string               `json:"partial,omitempty"` // why the run ended early
	Plan        result.Plan          `json:"plan"`              // as in the result file
	Environment machine.Environment  `json:"environment"`       // as in the result file
	Doctor      []machine.Check      `json:"doctor,omitempty"`  // as in the result file
	Against     *machine.Environment `json:"against,omitempty"` // that of the build base, of an interleaved run
	Verdicts    []answerVerdict      `json:"verdicts"`          // one for each model, number of workers and number of clients
	Hosts       []answerHost         `json:"hosts,omitempty"`   // of a run with agents, the server's first
	Findings    []answerFinding      `json:"findings"`          // errors are bugs in the measurement
	Cells       []answerCell         `json:"cells"`
	Sweeps      []answerSweep        `json:"sweeps"` // cells that differ in one quantity alone
	BreakEvens  []answerBreakEven    `json:"break_evens,omitempty"`
	TLS         []answerTLS          `json:"tls,omitempty"`
	Gains       []answerGain         `json:"gains,omitempty"`
	Floors      []answerFloor        `json:"floors"` // what this machine could do at best
}

// A workload is what cells have in common that can be compared.
type workload struct {
	Build   string `json:"build,omitempty"` // base or head, of an interleaved run
	Model   string `json:"model"`
	Up      string `json:"up,omitempty"` // what clients send back, where it is unlike the model
	Workers int    `json:"workers"`
	Clients int    `json:"clients"`

	result.Setup // as in the result file, but for the language
}

func workloadOf(g analysis.Group) workload {
	return workload{g.Build, g.Model.Name, g.Model.Up, g.Workers, g.Clients, g.Setup}
}

// An answerVerdict says which transport to use. Best are the variants that may be
// the fastest, with the language of their workers where that is not Go: several if it is
// too close to call. Proved is true if one is shown to
// be faster than all others.
type answerVerdict struct {
	workload
	Best    []string     `json:"best"`
	Proved  bool         `json:"proved"`
	By      string       `json:"ranked_by,omitempty"` // transfer, where training differs from the control's; else it is the round
	Ranking []answerRank `json:"ranking"`             // the fastest first, without the control
	Text    string       `json:"text"`
}

// An answerRank is what a round of a variant takes more than one of the fastest.
type answerRank struct {
	Variant string    `json:"variant"`
	Round   *estimate `json:"round_more"`
	CPU     *estimate `json:"cpu_more"`
	More    *estimate `json:"transfer_more,omitempty"` // where transfer ranks
}

// An answerHost is a host of a run with agents.
type answerHost struct {
	Name        string              `json:"name"`
	Server      bool                `json:"server,omitempty"`
	SameMachine string              `json:"same_machine,omitempty"` // as in the result file, likewise the next
	Environment machine.Environment `json:"environment"`
	Lanes       [2]int              `json:"lanes"`     // the fewest and the most that a cell had there
	Processes   [2]int              `json:"processes"` // likewise
	OtherClock  bool                `json:"other_clock,omitempty"`
}

func answerHosts(f *analysis.Fleet) []answerHost {
	if f == nil {
		return nil
	}
	var all []answerHost
	for _, h := range f.Hosts {
		all = append(all, answerHost{Name: h.Name, Server: h.Server, SameMachine: h.SameMachine, Environment: h.Environment, Lanes: h.Lanes, Processes: h.Processes, OtherClock: h.OtherClock})
	}
	return all
}

type answerFinding struct {
	Severity analysis.Severity    `json:"severity"` // error, warning or skipped
	Rule     string               `json:"rule"`
	Cell     string               `json:"cell,omitempty"`
	Values   map[string]*estimate `json:"values,omitempty"`
	Text     string               `json:"text"`
}

type answerCell struct {
	workload
	Transport string               `json:"transport"`
	Variant   string               `json:"variant"` // the transport with the settings that differ from their defaults
	Settings  map[string]string    `json:"settings"`
	Hosts     string               `json:"hosts,omitempty"` // as in the result file, as the next three
	Place     string               `json:"place,omitempty"`
	Tensors   int                  `json:"model_tensors"`
	Bytes     int64                `json:"model_bytes"`
	Payload   int64                `json:"payload_bytes"` // of a round: down and up, of all clients
	Control   bool                 `json:"control,omitempty"`
	Language  string               `json:"language,omitempty"` // as in the result file, as the next three
	Software  map[string]string    `json:"software,omitempty"`
	Peer      string               `json:"peer,omitempty"`
	Unproved  string               `json:"unproved,omitempty"` // then it is in no verdict
	HandsOver bool                 `json:"hands_over"`         // tensors travel as handles: there is no bandwidth
	Bound     string               `json:"bound,omitempty"`    // the floor of the metric floor_ratio
	Stopped   string               `json:"stopped"`
	Marks     analysis.Marks       `json:"marks,omitzero"` // what to know about the numbers
	Metrics   map[string]*estimate `json:"metrics"`        // of ipcbench list metrics
}

// An answerSweep says where transports change places. Of what it varies, the workload
// is that of the first step.
type answerSweep struct {
	workload
	Over      string           `json:"over"`  // size, update size, clients or workers
	Steps     []string         `json:"steps"` // in ascending order
	Best      []answerStretch  `json:"best_from"`
	Crossings []answerCrossing `json:"crossings"` // of neighbours in best_from
}

// An answerStretch is steps at all of which no transport is shown to beat some.
type answerStretch struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Variants []string `json:"variants"`
}

// An answerCrossing is where one transport begins to be faster than another.
type answerCrossing struct {
	Below   string    `json:"faster_below"`
	Above   string    `json:"faster_above"`
	Between [2]string `json:"between"` // steps at which they are shown to be faster, or where the sweep ends
	At      *estimate `json:"at"`      // in bytes or a number. A bound is null if it lies beyond the sweep
}

type answerFloor struct {
	Name      string `json:"name"`
	Condition string `json:"condition,omitempty"`
	Model     string `json:"model,omitempty"`
	Up        string `json:"up,omitempty"`
	result.Setup
	Clients int       `json:"clients,omitempty"`
	Variant string    `json:"variant,omitempty"`
	Gap     float64   `json:"gap_s,omitempty"`
	Host    string    `json:"host,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"`
	Help    string    `json:"help"`
	Value   *estimate `json:"value"`
}

// An estimate is a number with its interval. Low and high are null, and confidence
// is 0, where one block says nothing about the next.
type estimate struct {
	Unit       string   `json:"unit"`
	Median     *float64 `json:"median"`
	Low        *float64 `json:"low"`
	High       *float64 `json:"high"`
	Confidence float64  `json:"confidence"` // with which the median lies between low and high
	Blocks     int      `json:"blocks"`
	N          int      `json:"n"` // samples
}

// base is the unit of a share for programs.
func base(unit string) string { return strings.Replace(unit, "%", "1", 1) }

// estimated returns nil if i is not known.
func estimated(unit string, i stat.Interval) *estimate {
	if !i.Known() {
		return nil
	}
	e := &estimate{Unit: unit, Median: finite(i.Center), Confidence: i.Confidence, Blocks: i.Blocks, N: i.N}
	if i.Confidence > 0 {
		e.Low, e.High = finite(i.Low), finite(i.High)
	}
	return e
}

// finite returns nil for what JSON cannot hold.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// writeJSON writes the answer of a result.
func writeJSON(w io.Writer, r *result.Result, _ Options) error {
	v := analysis.New(r)
	a := answer{
		Answer: answerVersion, Kind: "result", Command: r.Command, Started: r.Started, Elapsed: r.Elapsed.Seconds(), Partial: r.Partial, Plan: r.Plan,
		Environment: r.Environment, Doctor: r.Doctor, Against: r.Against, Verdicts: []answerVerdict{}, Hosts: answerHosts(v.Fleet()), Findings: answerFindings(v.Findings()), Cells: []answerCell{}, Sweeps: answerSweeps(v), BreakEvens: answerBreakEvens(v), TLS: answerTunnels(v), Gains: answerGains(v), Floors: []answerFloor{},
	}
	for _, d := range v.Verdicts() {
		text := answerVerdict{workload: workloadOf(d.Group), Proved: d.Proved(), By: instead(d.Yardstick), Text: verdictSentence(d)}
		for _, c := range d.Fastest() {
			text.Best = append(text.Best, c.Label())
		}
		for _, c := range d.Ranked {
			more := d.Cost(c)
			rank := answerRank{Variant: c.Label(), Round: estimated("s", more.Round), CPU: estimated("s", more.CPU)}
			if d.Off != nil {
				rank.More = estimated("s", more.More)
			}
			text.Ranking = append(text.Ranking, rank)
		}
		a.Verdicts = append(a.Verdicts, text)
	}
	metrics := analysis.Metrics()
	for _, c := range v.Cells {
		bound, _ := c.Bound()
		cell := answerCell{
			workload: workloadOf(c.Group()), Transport: c.Transport, Variant: c.Variant, Settings: c.Settings, Hosts: c.Hosts, Place: c.Place, Tensors: c.Model.Tensors, Bytes: c.Model.Bytes,
			Payload: c.Payload(), Control: c.IsControl(), Language: c.Language, Software: c.Software, Peer: c.Peer, Unproved: c.Unproved, HandsOver: c.HandsOver(), Bound: bound, Stopped: c.Stopped, Marks: c.Marks(), Metrics: map[string]*estimate{},
		}
		for _, m := range metrics {
			if e := estimated(m.Unit, c.Of(m.Name)); e != nil {
				cell.Metrics[m.Name] = e
			}
		}
		a.Cells = append(a.Cells, cell)
	}
	for _, f := range r.Floors {
		a.Floors = append(a.Floors, answerFloor{f.Name, f.Condition, f.Model, f.Up, f.Setup, f.Clients, f.Variant, float64(f.Gap) / 1e9, f.Host, f.Bytes, f.Help, estimated(f.Unit, stat.Of(f.Blocks))})
	}
	return doc.WriteJSON(w, a, "\t")
}

func answerSweeps(r *analysis.Result) []answerSweep {
	all := []answerSweep{}
	for _, s := range r.Sweeps() {
		a := answerSweep{workload: workloadOf(s.Group), Over: string(s.Over), Best: []answerStretch{}, Crossings: []answerCrossing{}}
		for i := range s.At {
			a.Steps = append(a.Steps, step(s, i))
		}
		unit := "1"
		if unitOf(s.Over) == "iB" {
			unit = "B"
		}
		for _, of := range s.Envelope() {
			stretch := answerStretch{From: step(s, of.From), To: step(s, of.To)}
			for _, l := range of.Best {
				stretch.Variants = append(stretch.Variants, l.Variant)
			}
			a.Best = append(a.Best, stretch)
			if c := of.Since; c != nil {
				a.Crossings = append(a.Crossings, answerCrossing{
					c.Before.Variant, c.After.Variant, [2]string{step(s, c.Steps[0]), step(s, c.Steps[1])}, estimated(unit, c.At),
				})
			}
		}
		all = append(all, a)
	}
	return all
}

// An answerBreakEven says below which rate a codec pays. Its workload is that of the
// cells that were compared.
type answerBreakEven struct {
	workload
	Variant string        `json:"variant"`
	Codec   string        `json:"codec"`
	Pays    analysis.Pays `json:"pays"`            // below, any link or never; empty if it is not known
	At      *estimate     `json:"at,omitempty"`    // in bit/s; a bound is null where it may be that no time is added
	Saved   *float64      `json:"saved_bytes"`     // of a round
	Added   *estimate     `json:"added,omitempty"` // to a round
}

func answerBreakEvens(r *analysis.Result) []answerBreakEven {
	var all []answerBreakEven
	for _, b := range r.BreakEvens() {
		a := answerBreakEven{workload: workloadOf(b.Coded.Group()), Variant: b.Coded.Variant, Codec: b.Coded.Codec(), Pays: b.Pays,
			At: estimated("bit/s", b.At), Saved: finite(b.Saved), Added: estimated("s", b.Added)}
		all = append(all, a)
	}
	return all
}

// An answerTLS is what a cell over TLS takes, as a multiple of the same without.
type answerTLS struct {
	workload
	Variant   string    `json:"variant"`
	TLS       string    `json:"tls"`               // on or mutual
	Plain     string    `json:"without,omitempty"` // the variant that it is compared with; absent if that was not measured, as are the next three then
	Round     *estimate `json:"round_ratio"`
	CPU       *estimate `json:"cpu_ratio"`
	Wire      *estimate `json:"wire_ratio"`
	Handshake *estimate `json:"handshake"`
	Ciphers   []string  `json:"ciphers,omitempty"`
}

func answerTunnels(r *analysis.Result) []answerTLS {
	var all []answerTLS
	for _, t := range r.Tunnels() {
		for _, c := range t.Cells() {
			if c == t.Plain {
				continue
			}
			a := answerTLS{workload: workloadOf(c.Group()), Variant: c.Variant, TLS: c.TLS(), Round: estimated("1", t.Ratio("round", c)), CPU: estimated("1", t.Ratio("cpu_per_gb", c)),
				Wire: estimated("1", t.Ratio("wire_bytes", c)), Handshake: estimated("s", c.Of("handshake")), Ciphers: c.Ciphers()}
			if t.Plain != nil {
				a.Plain = t.Plain.Variant
			}
			all = append(all, a)
		}
	}
	return all
}

// An answerGain is what a project would gain by another transport.
type answerGain struct {
	workload
	Project  string    `json:"project"`
	Now      string    `json:"now"`      // the variant of a reference row
	Instead  string    `json:"instead"`  // one of ours with workers in Python
	Transfer *estimate `json:"transfer"` // now ÷ instead
	RTT      *estimate `json:"rtt"`      // likewise
}

func answerGains(r *analysis.Result) []answerGain {
	var all []answerGain
	for _, g := range r.Gains() {
		all = append(all, answerGain{workloadOf(g.From.Group()), g.Project, g.From.Variant, g.To.Label(), estimated("1", g.Times("transfer")), estimated("1", g.Times("rtt"))})
	}
	return all
}

func answerFindings(findings []analysis.Finding) []answerFinding {
	all := []answerFinding{}
	for _, f := range findings {
		a := answerFinding{Severity: f.Severity, Rule: f.Rule, Cell: f.Cell, Text: f.Text}
		for _, v := range f.Values {
			if a.Values == nil {
				a.Values = map[string]*estimate{}
			}
			a.Values[v.Name] = estimated(base(v.Unit), v.Interval)
		}
		all = append(all, a)
	}
	return all
}
