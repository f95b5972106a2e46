package analysis

import (
	"math"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/doctor"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/phase"
)

// A Severity says what a finding means for a result.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // a bug in the measurement: do not use the result
	Warning Severity = "warning" // use it with care
	Skipped Severity = "skipped" // what is not in it
)

// The rules of plausibility. The comment of each says what its finding holds.
const (
	RaceDetector      = "race_detector"       // the build had the race detector
	Partial           = "partial"             // the run ended early; Subject: why
	SpoiledMachine    = "spoiled_machine"     // a check of ipcbench doctor had failed; Subject: which, and what was found
	SmallSocketBuffer = "small_socket_buffer" // sockets hold less than transports ask for; granted, wanted: B
	StalePeak         = "stale_peak"          // the kernel did not reset the server's peak memory
	NotMeasured       = "not_measured"        // a cell was skipped; Subject: why
	FasterThanFloor   = "faster_than_floor"   // bytes moved faster than the machine can; bandwidth, floor: B/s; Subject: the floor
	ShorterThanParts  = "shorter_than_parts"  // a block's rounds took less than the training in them; block: its index; rounds, training: s
	FasterThanControl = "faster_than_control" // leaving the process saved time; overhead: s
	NoControl         = "no_control"          // no control did the same work
	SlowControl       = "slow_control"        // the control is slower than the work called directly; ratio, limit: 1
	SlowControlBeside = "slow_control_beside" // the same, beside the smallest overhead; excess, overhead: s; Subject: that transport
	NotProved         = "not_proved"          // the data of a cell was not checked; Subject: why a peer could not prove it
	RecorderCost      = "recorder_cost"       // recording spans took much of the rounds; share: 1; each: s
	StolenTime        = "stolen_time"         // other virtual machines took processor time; share: 1
	FilesInMemory     = "files_in_memory"     // files had no disk under them; Subject: the file system
	Unencrypted       = "unencrypted"         // bytes that could leave the machine were not encrypted
	Unproven          = "unproven"            // workers that could be elsewhere showed no certificates
	CodecRefuses      = "codec_refuses"       // a codec left tensors plain, as it does not take them; Subject: their names
	CodecNeverPays    = "codec_never_pays"    // a codec that costs time on any link; saved: B
	FullVersions      = "full_versions"       // whole models in timed rounds, beside encoded ones; models: 1/round
	OtherDensity      = "other_density"       // not as many words changed as were asked for; found, expected: 1; Subject: the way
	DroppedPackets    = "dropped_packets"     // a link had no room for packets; packets: 1
	OneMachine        = "one_machine"         // hosts were on one machine; hosts, all: 1; Subject: their names
	UnequalHosts      = "unequal_hosts"       // hosts with lanes differ; Subject: in what
	OtherTraining     = "other_training"      // training took another time than the control's; training, control: s
	SharedLayouts     = "shared_layouts"      // blocks of an interleaved run ran in one layout; blocks, layouts: 1; Subject: of which builds
)

// A Finding is something that a result says and that cannot be, or that puts it
// in doubt.
type Finding struct {
	Severity Severity
	Rule     string  // one of the rules above
	Cell     string  // the name of the cell that it is about; empty for the whole result
	Measured *Cell   // that cell; nil if it was not measured, or there is none
	Subject  string  // see the rule
	Values   []Value // see the rule
}

// A Value is a number of a finding. It has bounds where the rule looks at them.
type Value struct {
	Name, Unit string
	stat.Interval
}

// Value returns the named number, which must be there.
func (f Finding) Value(name string) stat.Interval {
	i := slices.IndexFunc(f.Values, func(v Value) bool { return v.Name == name })
	return f.Values[i].Interval
}

func value(name, unit string, x float64) Value { return Value{name, unit, Exactly(x, 0, 1)} }

func finding(s Severity, rule, subject string, values ...Value) *Finding {
	return &Finding{Severity: s, Rule: rule, Subject: subject, Values: values}
}

// What the rules allow.
const (
	controlRatio  = 1.05   // of the control's round over the same work called directly
	controlSlack  = 100e-6 // seconds of a round below which a ratio says nothing about the control
	controlPart   = 0.1    // of the smallest overhead that the control may add to the work
	recorderShare = 0.01   // of a round that recording may take
	recorderTime  = 5e-6   // seconds of a round that it may take besides: a share of a short round says nothing
	densitySlack  = 0.002  // by which the share of changed words may be off
	quietTime     = 0.5    // seconds: the least that the kernel's 10 ms ticks can measure
)

// Findings applies all rules to the result: those of the whole result first.
func (r *Result) Findings() []Finding {
	var all []Finding
	if r.Environment.Race {
		all = append(all, *finding(Warning, RaceDetector, ""))
	}
	if r.Partial != "" {
		all = append(all, *finding(Warning, Partial, r.Partial))
	}
	for _, c := range doctor.Only(r.Doctor, doctor.Fail) {
		if c.Name != doctor.Build { // see above
			all = append(all, *finding(Warning, SpoiledMachine, c.Name+": "+c.What))
		}
	}
	// A sender with a small socket buffer waits for its reader. Most distributions
	// grant less than the transports ask for.
	if granted := r.Environment.SocketBuffer; granted > 0 && granted < result.SocketBuffer && slices.ContainsFunc(r.Cells, (*Cell).MovesBytes) {
		all = append(all, *finding(Warning, SmallSocketBuffer, "", value("granted", "B", float64(granted)), value("wanted", "B", result.SocketBuffer)))
	}
	// A peak of the server that may be another cell's is not shown.
	if slices.ContainsFunc(r.Cells, func(c *Cell) bool {
		return slices.ContainsFunc(c.timed, func(b result.Block) bool { return b.Server.StalePeak })
	}) {
		all = append(all, *finding(Warning, StalePeak, ""))
	}
	if f := r.sharedLayouts(); f != nil {
		all = append(all, *f)
	}
	all = append(all, r.fleetFindings()...)
	for _, s := range r.Skipped {
		f := finding(Skipped, NotMeasured, s.Why)
		f.Cell = s.ID()
		all = append(all, *f)
	}
	for _, c := range r.Cells {
		for _, f := range []*Finding{
			fasterThanFloor(c), shorterThanParts(c), fasterThanControl(c), noControl(c), slowControl(c), notProved(c), recorderCost(c), stolenTime(c), filesInMemory(c), insecure(c),
			codecRefuses(c), fullVersions(c), otherDensity(c), droppedPackets(c), otherTraining(c),
		} {
			if f != nil {
				f.Cell, f.Measured = c.Name(), c
				all = append(all, *f)
			}
		}
	}
	for _, b := range r.BreakEvens() {
		if b.Pays == Never {
			f := finding(Warning, CodecNeverPays, "", value("saved", "B", b.Saved))
			f.Cell, f.Measured = b.Coded.Name(), b.Coded
			all = append(all, *f)
		}
	}
	return all
}

// sharedLayouts: blocks that share a layout have in common what its linker did, which looks
// as if the builds differed.
func (r *Result) sharedLayouts() *Finding {
	if r.Against == nil {
		return nil
	}
	var builds []string
	blocks, layouts := 0, math.MaxInt
	for _, build := range []string{"base", "head"} {
		most := 0
		for _, c := range r.built(build) {
			most = max(most, len(c.Blocks))
		}
		if n := max(1, len(r.Layouts.Of(build))); most > n { // files had none before there were several
			builds, blocks, layouts = append(builds, build), max(blocks, most), min(layouts, n)
		}
	}
	if builds == nil {
		return nil
	}
	return finding(Warning, SharedLayouts, strings.Join(builds, " and "), value("blocks", "1", float64(blocks)), value("layouts", "1", float64(layouts)))
}

// fasterThanFloor: bytes that were moved faster than this machine can move bytes
// were not moved. Nothing is faster than a link with a rate, or than encrypting.
func fasterThanFloor(c *Cell) *Finding {
	name, floor := "", stat.None() // the fastest that moves bytes
	for _, of := range []string{c.stream(), FloorCopy} {
		if of == FloorCopy && (c.shaped() || c.stream() == "tls-stream") {
			continue
		}
		if f := c.floor(of); f != nil {
			if i := stat.Of(f.Blocks); !floor.Known() || i.Center > floor.Center {
				name, floor = of, i
			}
		}
	}
	if b := c.pace(); b.Known() && b.Low > floor.High*(1+c.leeway()) {
		return finding(Error, FasterThanFloor, name, Value{"bandwidth", "B/s", b}, Value{"floor", "B/s", floor})
	}
	return nil
}

// leeway is the share by which a link may be faster than it was measured: it lets a burst
// pass at once each way, after a pause, and how much of one differs between transfers.
func (c *Cell) leeway() float64 {
	l := c.result.Environment.Link
	if l == nil || !c.shaped() {
		return 0
	}
	down, up := c.wire()
	return 2 * float64(l.Bursts[c.Link.String()]) / max(1, down+up)
}

// pace returns how fast the bytes that travel must have moved, where that is known.
func (c *Cell) pace() stat.Interval {
	down, up := c.wire()
	switch {
	case c.Link == link.Rate{} && c.Of("bandwidth").Known():
		return c.Of("overhead").Map(func(s float64) float64 { return (down + up) / s })
	case c.Link == link.Rate{} && (!c.Remote() || !c.Alone() || c.HandsOver() || c.Respawn):
		return stat.None()
	case c.Alone():
		return c.Of("transfer").Map(func(s float64) float64 { return (down + up) / s })
	}
	return c.Of("round").Map(func(s float64) float64 { return max(down, up) * float64(c.Clients) / s }) // the ways may overlap
}

// shorterThanParts: a round holds the training of its clients.
func shorterThanParts(c *Cell) *Finding {
	for _, b := range c.timed {
		train, round := float64(b.Phases[phase.Train.String()]), float64(b.RoundTime()) // of all clients
		listed := 0.0                                                                   // of those whose times are kept
		for _, ns := range b.Train {
			listed += float64(ns)
		}
		train = max(train, listed)
		if each := train / float64(c.Workers); each > round*(1+1e-9) {
			return finding(Error, ShorterThanParts, "", value("block", "1", float64(b.Index)), value("rounds", "s", round/1e9), value("training", "s", each/1e9))
		}
	}
	return nil
}

// fasterThanControl: leaving the process cannot save time, so the control is in
// doubt: unless others trained, by other means.
func fasterThanControl(c *Cell) *Finding {
	if o := c.Of("overhead"); o.Excludes(0) && o.Center < 0 && !c.elsewhere() {
		return finding(Warning, FasterThanControl, "", Value{"overhead", "s", o})
	}
	return nil
}

func noControl(c *Cell) *Finding {
	if c.Control == nil && c.Train == "" { // which none has
		return finding(Warning, NoControl, "")
	}
	return nil
}

// slowControl: what the control adds to the work itself is missing in every
// overhead. It must be small beside the round, and beside the overheads.
func slowControl(c *Cell) *Finding {
	floor, ratio := c.Bound()
	if floor != FloorWork {
		return nil
	}
	excess := stat.Shift(stat.Medians(c.floor(FloorWork).Blocks), c.Medians("round"))
	if !excess.Excludes(0) || excess.Center <= 0 { // or noise
		return nil
	}
	if ratio.Center > controlRatio && ratio.Low > 1 && excess.Center >= controlSlack {
		return finding(Warning, SlowControl, "", Value{"ratio", "1", ratio}, value("limit", "1", controlRatio))
	}
	if least := c.leastOverhead(); least != nil && excess.Center > controlPart*least.Of("overhead").Center {
		return finding(Warning, SlowControlBeside, least.Label(), Value{"excess", "s", excess}, Value{"overhead", "s", least.Of("overhead")})
	}
	return nil
}

// leastOverhead returns the cell of the same work with the smallest overhead
// whose interval lies above zero, or nil.
func (c *Cell) leastOverhead() *Cell {
	var least *Cell
	for _, o := range c.result.Cells {
		i := o.Of("overhead")
		if o.Control != c.Control || !i.Excludes(0) || i.Center <= 0 {
			continue
		}
		if least == nil || i.Center < least.Of("overhead").Center {
			least = o
		}
	}
	return least
}

func notProved(c *Cell) *Finding {
	if !c.Proved() || c.Unproved != "" {
		return finding(Warning, NotProved, c.Unproved)
	}
	return nil
}

func recorderCost(c *Cell) *Finding {
	i := c.Of("recorder_share")
	if each := i.Center * c.Of("round").Center; i.Center > recorderShare && each > recorderTime {
		return finding(Warning, RecorderCost, "", Value{"share", "1", i}, value("each", "s", each))
	}
	return nil
}

// stolenTime: other virtual machines on the same host took time.
func stolenTime(c *Cell) *Finding {
	var shares []float64
	for _, b := range c.timed {
		if b.System == nil {
			continue
		}
		if all := (b.System.Busy + b.System.Idle + b.System.Steal).Seconds(); all >= quietTime {
			shares = append(shares, b.System.Steal.Seconds()/all)
		}
	}
	if m := stat.Median(shares); m > doctor.StolenShare {
		return finding(Warning, StolenTime, "", value("share", "1", m))
	}
	return nil
}

// filesInMemory: a file system in memory has no disk under it.
func filesInMemory(c *Cell) *Finding {
	if c.FileSystem == "tmpfs" || c.FileSystem == "ramfs" {
		return finding(Warning, FilesInMemory, c.FileSystem)
	}
	return nil
}

// insecure: off the loopback interface both ends have to show certificates, unless
// the user does without.
func insecure(c *Cell) *Finding {
	switch {
	case c.result.Environment.Listen != machine.Insecure || !c.OverTCP():
		return nil
	case c.TLS() == NoTLS:
		return finding(Warning, Unencrypted, "")
	case c.TLS() != MutualTLS:
		return finding(Warning, Unproven, "")
	}
	return nil
}

// codecRefuses: what is not encoded is in no ratio that anybody expects.
func codecRefuses(c *Cell) *Finding {
	if c.Coding == nil || len(c.Coding.Plain) == 0 {
		return nil
	}
	return finding(Warning, CodecRefuses, strings.Join(c.Coding.Plain, ", "))
}

// fullVersions: a round in which a model goes whole is not one that the ratio
// describes. With workers that are started for every round, all do.
func fullVersions(c *Cell) *Finding {
	if i := c.Of("full_versions"); i.Known() && i.High > 0 && !c.Respawn {
		return finding(Warning, FullVersions, "", Value{"models", "1/round", i})
	}
	return nil
}

// otherDensity: the workload was to change a share of the words, of which the average
// of several clients changes more: each of them chooses its own.
func otherDensity(c *Cell) *Finding {
	share := c.Change.Share()
	if share == 1 || c.Change.Rows() || c.Coding == nil || c.Coding.ErrorDown != nil { // rows are of many lengths, and what is lost changes words too
		return nil
	}
	expected := map[string]float64{"down": share} // where the server changes the model, and updates have no base
	if c.Scenario == "" && c.Model.Up == "" {
		expected["down"], expected["up"] = 1-math.Pow(1-share, float64(c.Clients)), share
	}
	for _, w := range ways {
		want, ok := expected[w.name]
		if found := w.density(c.Coding); ok && math.Abs(found-want) > densitySlack {
			return finding(Warning, OtherDensity, w.what, value("found", "1", found), value("expected", "1", want))
		}
	}
	return nil
}

// droppedPackets: what was dropped was sent again, later.
func droppedPackets(c *Cell) *Finding {
	n := int64(0)
	for _, b := range c.timed {
		if b.Link != nil {
			n += b.Link.Dropped
		}
	}
	if n == 0 {
		return nil
	}
	return finding(Warning, DroppedPackets, "", value("packets", "1", float64(n)))
}
