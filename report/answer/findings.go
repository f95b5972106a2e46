package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/doctor"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/phase"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// A Severity is the consequence of a finding.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // a bug in the measurement: do not use the result
	Warning Severity = "warning" // use the result with care
	Skipped Severity = "skipped" // a cell or floor was not measured
)

// Rules that other code refers to.
const (
	NotMeasured   = "not_measured"   // a cell was skipped
	Unencrypted   = "unencrypted"    // data that could leave the machine was not encrypted
	Unproven      = "unproven"       // workers that could be on other hosts showed no certificates
	Partial       = "partial"        // the run ended early
	OneMachine    = "one_machine"    // hosts are one machine
	UnequalHosts  = "unequal_hosts"  // hosts with lanes differ
	OtherTraining = "other_training" // training took another time than the control's

	codecNeverPays = "codec_never_pays"
)

// A Finding is a contradiction in a result, or a reason to doubt it.
type Finding struct {
	Severity Severity
	Rule     string
	Cell     string        // name of the cell; empty for the whole result
	Measured *metrics.Cell // the cell; nil if it was not measured or there is none
	Text     string        // a sentence without the cell's name
	Values   []Value       // numbers in Text
	about    *metrics.Cell // Measured, or the cell that was not measured
}

// A Value is a number of a finding. It has bounds if its rule uses them.
type Value struct {
	Name, Unit string
	stat.Interval
}

// String writes the number in a suitable unit.
func (v Value) String() string {
	if v.Unit == "%" {
		return doc.Percent(v.Center)
	}
	return doc.Quantity(v.Unit, v.Center)
}

func value(name, unit string, x float64) Value { return Value{name, unit, metrics.Exactly(x, 0, 1)} }

// warn returns a warning. Its text contains the values.
func warn(rule, text string, values ...Value) *Finding {
	return &Finding{Severity: Warning, Rule: rule, Text: text, Values: values}
}

// warnIf returns a warning if holds is true, else nil.
func warnIf(holds bool, rule, text string, values ...Value) *Finding {
	if !holds {
		return nil
	}
	return warn(rule, text, values...)
}

func wrong(rule, text string, values ...Value) *Finding {
	return &Finding{Severity: Error, Rule: rule, Text: text, Values: values}
}

// Limits of the rules.
const (
	controlRatio  = 1.05   // largest ratio of the control's round to the same work called directly
	controlSlack  = 100e-6 // seconds per round; a smaller excess of the control is accepted
	controlPart   = 0.1    // share of the smallest overhead that the control may add to the work
	recorderShare = 0.01   // share of a round that recording may take
	recorderTime  = 5e-6   // seconds per round that recording may always take, because shares of short rounds mean little
	densitySlack  = 0.002  // largest error of the share of changed elements
	pagesShare    = 0.2    // share of a round that page faults may take
	pageSize      = 4096   // bytes that a page fault provides
)

// Findings applies all rules to the result. Findings about the whole result come first. The
// caller must not change them.
func Findings(r *metrics.Result) []Finding {
	return metrics.Keep(r, "findings", func() []Finding { return findingsOf(r) })
}

func findingsOf(r *metrics.Result) (all []Finding) {
	add := func(c *metrics.Cell, found ...*Finding) {
		for _, f := range found {
			if f == nil {
				continue
			}
			if c != nil {
				f.Cell, f.Measured, f.about = c.Name(), c, c
			}
			all = append(all, *f)
		}
	}
	add(nil, ofResult(r)...)
	add(nil, fleetFindings(r)...)
	for _, s := range r.Skipped {
		f := &Finding{Severity: Skipped, Rule: NotMeasured, Cell: s.ID(), Text: s.Why}
		if s.Floor == "" {
			f.about = &metrics.Cell{Cell: new(s.Cell())}
		}
		add(nil, f)
	}
	for _, c := range r.Cells {
		add(c, ofCell(r, c)...)
	}
	for _, b := range table.BreakEvensOf(table.PathsOf(r, true)...) {
		saved := value("saved", table.BytesUnit(b.Cell.Model), b.Saved)
		text := fmt.Sprintf("the codec saves %s per round but takes longer than a link of 1 Mbit/s needs to send them: it never pays", saved)
		if b.Saved <= 0 {
			text = "the codec makes nothing smaller, so it never pays"
		}
		add(b.Cell, warnIf(b.Pays == table.Never, codecNeverPays, text, saved))
	}
	return all
}

func ofResult(r *metrics.Result) []*Finding {
	all := []*Finding{
		warnIf(r.Environment.Race, "race_detector", "built with the race detector, which makes all times meaningless"),
		warnIf(r.Partial != "", Partial, "the run ended early ("+r.Partial+"): cells and blocks are missing"),
	}
	for _, c := range doctor.Only(r.Doctor, doctor.Fail) {
		all = append(all, warnIf(c.Name != doctor.Build, "spoiled_machine", "doctor: "+c.Name+": "+c.What)) // the rule race_detector covers the build
	}
	stale := slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool { // a peak that may be another cell's is not shown
		return slices.ContainsFunc(c.Timed(), func(b result.Block) bool { return b.Server.StalePeak })
	})
	// A sender with a small buffer waits for its reader. Most distributions grant less than the transports ask for.
	granted, wanted := value("granted", "B", float64(r.Environment.SocketBuffer)), value("wanted", "B", result.SocketBuffer)
	small := granted.Center > 0 && granted.Center < wanted.Center && slices.ContainsFunc(r.Cells, (*metrics.Cell).MovesBytes)
	return append(all, warnIf(small, "small_socket_buffer", fmt.Sprintf("socket buffers hold %s instead of the %s that transports ask for, "+
		"which slows transports that use sockets; to change it: sysctl net.core.wmem_max=%d", granted, wanted, int(result.SocketBuffer)),
		granted, wanted), warnIf(stale, "stale_peak", "the server's peak RSS is not known: each block must reset it, "+
		"which needs write access to /proc/self/clear_refs"), sharedLayouts(r), newPages(r), uneven(r))
}

// uneven warns of cycles that were not spread as planned.
func uneven(r *metrics.Result) *Finding {
	var late, suspended, moved time.Duration
	for _, p := range r.Pauses {
		late, suspended, moved = max(late, p.Late), suspended+p.Suspended, moved+p.Moved
	}
	values := []Value{value("late", "s", late.Seconds()), value("suspended", "s", suspended.Seconds()), value("clock moved", "s", moved.Seconds())}
	return warnIf(late+suspended+moved.Abs() > 0, "uneven_spread", fmt.Sprintf("cycles were not spread evenly: "+
		"one began %s late; meanwhile, the machine was suspended for %s and its clock was set by %s", values[0], values[1], values[2]), values...)
}

func ofCell(r *metrics.Result, c *metrics.Cell) []*Finding {
	overhead, recorder := Value{"overhead", "s", c.Of("overhead")}, c.Of("recorder_share")
	less := overhead.Map(func(s float64) float64 { return -s })
	recording, each := Value{"share", "%", recorder}, value("each", "s", recorder.Center*c.Of("round").Center)
	stolen, full := Value{"share", "%", c.Of("stolen")}, Value{"models", "1/round", c.Of("full_versions")}
	bare := r.Environment.Listen == machine.Insecure && c.OverTCP() // only --insecure-network allows that
	coding := result.Coding{}
	if c.Coding != nil {
		coding = *c.Coding
	}
	unknown := func(e *result.CodingError) bool { return e != nil && (e.Max == nil || e.RMS == nil) }
	dropped := int64(0)
	for _, b := range c.Timed() {
		if b.Link != nil {
			dropped += b.Link.Dropped
		}
	}
	return []*Finding{
		warnIf(unknown(coding.ErrorDown) || unknown(coding.ErrorUp), "unknown_error",
			"the codec's error is not known: elements of a tensor that has only zeros arrived as other numbers"),
		fasterThanFloor(r, c), shorterThanParts(c),
		// Leaving the process cannot save time, unless training is done by other means.
		warnIf(overhead.Excludes(0) && overhead.Center < 0 && !c.Elsewhere(), "faster_than_control",
			fmt.Sprintf("faster than %s by %s per round, so the control is in doubt", metrics.Control, doc.Bounded("s", less)), overhead),
		warnIf(c.Control == nil && c.Train == "", "no_control",
			"no "+metrics.Control+" cell did the same work, so the overhead is unknown"),
		slowControl(r, c),
		warnIf(c.Unproved != "", "not_proved", "the data of "+c.Variant+" was not proved: "+c.Unproved),
		warnIf(c.Unproved == "" && !c.Proved(), "not_proved", "its data was not proved"),
		warnIf(recording.Center > recorderShare && each.Center > recorderTime, "recorder_cost",
			fmt.Sprintf("recording spans took %s of its rounds, %s per round", recording, each), recording, each),
		warnIf(stolen.Center > doctor.StolenShare, "stolen_time",
			fmt.Sprintf("other virtual machines took %s of the processors' time", stolen), stolen),
		warnIf(c.FileSystem == "tmpfs" || c.FileSystem == "ramfs", "files_in_memory",
			"its files are on "+c.FileSystem+", so no disk was measured; set dir=DIR to a directory on a disk"),
		warnIf(bare && c.TLS() == metrics.NoTLS, Unencrypted, "its server listened beyond the loopback interface without TLS "+
			"(--insecure-network): data on the network could be read and changed"),
		warnIf(bare && c.TLS() != metrics.NoTLS && c.TLS() != metrics.MutualTLS, Unproven, "its server listened beyond the loopback "+
			"interface without asking workers for certificates (--insecure-network): any process with the session's secret could join"),
		// Users of a codec expect neither plain tensors nor full versions. Fresh workers get full versions only.
		warnIf(len(coding.Plain) > 0, "codec_refuses",
			"the codec cannot encode some tensors, which are sent unchanged: "+strings.Join(coding.Plain, ", ")),
		warnIf(full.Known() && full.High > 0 && !c.Respawn, "full_versions",
			fmt.Sprintf("timed rounds include %s full versions per round, which count in times but not in ratios",
				doc.Quantity("1", full.Center)), full),
		otherDensity(c),
		warnIf(dropped > 0, "dropped_packets", fmt.Sprintf("congestion: the link dropped %d packets, which had to be sent again, "+
			"because its queue was full", dropped), value("packets", "1", float64(dropped))),
		otherTraining(c),
	}
}

// newPages warns about rounds in which page faults may take a large part, because their price differs much between
// machines. The price is that of the floor first-touch: the kernel provides a page, and it is written.
func newPages(r *metrics.Result) *Finding {
	var most *metrics.Cell
	var count, each, all Value
	cells, largest := 0, pagesShare
	for _, c := range r.Cells {
		f := c.Floor(metrics.FloorTouch)
		if f == nil {
			continue
		}
		faults, price := c.Of("minor_faults").Center*float64(c.Payload())/1e9, pageSize/stat.Median(stat.Medians(f.Blocks))
		share := faults * price / c.Of("round").Center
		cells += int(table.OneIf(share > pagesShare))
		if share > largest {
			largest, most = share, c
			count, each, all = value("faults", "1/round", faults), value("each", "s", price), value("all", "s", faults*price)
		}
	}
	if most == nil {
		return nil
	}
	return warn("page_faults", fmt.Sprintf("page faults may take over a fifth of the rounds of %s, most of all of %s: %s a round, up to %s if each "+
		"takes %s, as in the floor %s. On a machine with another price, the order may differ; reuse=on, or a transport that keeps its memory, "+
		"needs none", doc.Plural(cells, "cell"), strings.Join(inWords([]*metrics.Cell{most}), ", "), doc.Quantity("1", count.Center), all, each,
		metrics.FloorTouch), count, each, all)
}

// sharedLayouts warns about blocks that share a layout of a build. They also share the effects
// of that layout, which look like a difference between the builds.
func sharedLayouts(r *metrics.Result) *Finding {
	var builds []string
	blocks, layouts := 0, math.MaxInt
	for _, p := range r.Programs {
		most := 0
		for _, c := range r.Cells {
			if c.Build() == p.Name {
				most = max(most, len(c.Blocks))
			}
		}
		if n := len(p.Layouts); n > 0 && most > n {
			builds, blocks, layouts = append(builds, p.Name), max(blocks, most), min(layouts, n)
		}
	}
	if builds == nil {
		return nil
	}
	return warn("shared_layouts", fmt.Sprintf("up to %s of a cell share %s of %s, and a difference between layouts can look like a change. "+
		"For one layout per block, name as many layouts as blocks with --against and --layouts (go build -ldflags=-randlayout=N)",
		doc.Plural(blocks, "block"), doc.Plural(layouts, "layout"), strings.Join(builds, " and ")), value("blocks", "1", float64(blocks)), value("layouts", "1", float64(layouts)))
}

// fasterThanFloor returns an error if bytes moved faster than this machine can move bytes. On
// a link with a rate, and with TLS, a copy in memory is no limit.
func fasterThanFloor(r *metrics.Result, c *metrics.Cell) *Finding {
	name, floor := "", stat.None() // the fastest floor that moves bytes
	for _, of := range []string{c.Stream(), metrics.FloorCopy} {
		if of == metrics.FloorCopy && (c.Link.Shaped() || c.Stream() == "tls-stream") {
			continue
		}
		if i := c.FloorValue(of); i.Known() && (!floor.Known() || i.Center > floor.Center) {
			name, floor = of, i
		}
	}
	if c.Link.Impaired() { // its floors are connections, whose windows limit them; several connections may be faster
		if name, floor = "the rate of "+c.Link.String(), metrics.Exactly(float64(c.Link.Bits())/8, 1, 1); !c.Link.Shaped() {
			return nil
		}
	}
	if b := pace(c); b.Known() && b.Low > floor.High*(1+leeway(r, c)) {
		limit := Value{"floor", "B/s", floor}
		return wrong("faster_than_floor", fmt.Sprintf("moves bytes at %s, faster than the floor %s (%s): a bug in the measurement", doc.Bounded("B/s", b), name, limit),
			Value{"bandwidth", "B/s", b}, limit)
	}
	return nil
}

// leeway returns the share by which a link may be faster than its floor. After a pause, a link
// lets one burst pass at once in each direction. Transfers differ in how much of it they use.
func leeway(r *metrics.Result, c *metrics.Cell) float64 {
	l := r.Environment.Link
	if l == nil || !c.Link.Shaped() {
		return 0
	}
	down, up := c.Wire()
	return 2 * float64(l.Bursts[c.Link.String()]) / max(1, down+up)
}

// pace returns the rate at which wire bytes must have moved, in B/s, if that is known.
func pace(c *metrics.Cell) stat.Interval {
	down, up := c.Wire()
	switch {
	case c.Link == link.Rate{} && c.Of("bandwidth").Known():
		return c.Of("overhead").Map(func(s float64) float64 { return (down + up) / s })
	case c.Link == link.Rate{} && (!c.Remote() || !c.Alone() || c.HandsOver() || c.Respawn):
		return stat.None()
	case c.Alone():
		return c.Of("transfer").Map(func(s float64) float64 { return (down + up) / s })
	}
	return c.Of("round").Map(func(s float64) float64 { return max(down, up) * float64(c.Clients) / s }) // downlink and uplink may overlap
}

// shorterThanParts returns an error if the rounds of a block were shorter than the training in
// them.
func shorterThanParts(c *metrics.Cell) *Finding {
	for _, b := range c.Timed() {
		train, round := float64(b.Phases[phase.Train.String()]), float64(b.RoundTime()) // of all clients
		listed := 0.0                                                                   // of the clients whose times are kept
		for _, ns := range b.Train {
			listed += float64(ns)
		}
		train = max(train, listed)
		if each := train / float64(c.Workers); each > round*(1+1e-9) {
			rounds, training := value("rounds", "s", round/1e9), value("training", "s", each/1e9)
			return wrong("shorter_than_parts", fmt.Sprintf("block %d: its rounds took %s, but each worker trained for %s in them", b.Index, rounds, training),
				value("block", "1", float64(b.Index)), rounds, training)
		}
	}
	return nil
}

// slowControl warns if the control adds much to the work itself, because that time is missing
// in every overhead. It must be small relative to the round and to the overheads.
func slowControl(r *metrics.Result, c *metrics.Cell) *Finding {
	floor, ratio := c.Bound()
	if floor != metrics.FloorWork {
		return nil
	}
	excess := stat.Shift(stat.Medians(c.Floor(metrics.FloorWork).Blocks), c.Medians("round"))
	if !excess.Excludes(0) || excess.Center <= 0 { // none, or noise
		return nil
	}
	if ratio.Center > controlRatio && ratio.Low > 1 && excess.Center >= controlSlack {
		return warn("slow_control", fmt.Sprintf("takes %s the time of the same work called directly, more than the allowed %g×: all overheads are too small by the difference",
			doc.Times(ratio), controlRatio), Value{"ratio", "1", ratio}, value("limit", "1", controlRatio))
	}
	if least := leastOverhead(r, c); least != nil && excess.Center > controlPart*least.Of("overhead").Center {
		more, overhead := Value{"excess", "s", excess}, Value{"overhead", "s", least.Of("overhead")}
		return warn("slow_control_beside", fmt.Sprintf("%s slower than direct calls, so small overheads, such as the one of %s (%s), are too small by this",
			more, least.Label(), overhead), more, overhead)
	}
	return nil
}

// leastOverhead returns the cell with the same control and the smallest overhead whose
// interval is above zero, or nil.
func leastOverhead(r *metrics.Result, c *metrics.Cell) *metrics.Cell {
	above := table.Only(r.Cells, func(o *metrics.Cell) bool {
		i := o.Of("overhead")
		return o.Control == c.Control && i.Excludes(0) && i.Center > 0
	})
	if len(above) == 0 {
		return nil
	}
	return slices.MinFunc(above, func(a, b *metrics.Cell) int { return cmp.Compare(a.Of("overhead").Center, b.Of("overhead").Center) })
}

// otherDensity warns if the share of changed elements is not the share of --change. The
// average of several clients changes more elements, because each client chooses its own.
func otherDensity(c *metrics.Cell) *Finding {
	share := c.Change.Share()
	if share == 1 || c.Change.Rows() || c.Coding == nil || c.Coding.ErrorDown != nil { // rows have many lengths, and lossy codecs also change elements
		return nil
	}
	expected := map[string]float64{"down": share} // if the server changes the model and updates have no base
	if c.Scenario == "" && c.Model.Up == "" {
		expected["down"], expected["up"] = 1-math.Pow(1-share, float64(c.Clients)), share
	}
	for _, w := range [][2]string{{"down", "models"}, {"up", "updates"}} {
		want, ok := expected[w[0]]
		found, expected := Value{"found", "%", c.Of("density_" + w[0])}, value("expected", "%", want)
		if ok && math.Abs(found.Center-want) > densitySlack {
			return warn("other_density", fmt.Sprintf("%s of the elements of %s changed, but %s were expected", found, w[1], expected), found, expected)
		}
	}
	return nil
}

// FindingLine writes a finding on one line that is safe for a terminal.
func FindingLine(f Finding) string { return findingLine(f, f.Cell) }

func findingLine(f Finding, of string) string {
	return doc.Visible(string(f.Severity) + ": " + table.Unless(of == "", of+": ") + f.Text)
}

// FindingSection is the view of all findings, errors first.
func FindingSection(r *metrics.Result) doc.Section {
	return doc.Section{Title: "Findings", Lead: append(ErrorLines(r), OtherLines(r, math.MaxInt)...), Tables: []doc.Table{FindingTable(Findings(r))}}
}

// ErrorLines returns the findings that make a result unusable.
func ErrorLines(r *metrics.Result) []doc.Paragraph {
	return FindingLines(r, func(f Finding) bool { return f.Severity == Error }, doc.Bad)
}

// OtherLines returns the first of the other findings, and the number of the rest.
func OtherLines(r *metrics.Result, most int) []doc.Paragraph {
	lines := FindingLines(r, func(f Finding) bool { return f.Severity != Error }, doc.Plain)
	if left := len(lines) - most; left > 0 {
		lines = append(lines[:most], doc.Paragraph{Text: doc.Plural(left, "more finding") + ": see the view findings."})
	}
	return lines
}

// FindingLines returns the wanted findings. The same finding about several cells is one line.
func FindingLines(r *metrics.Result, wanted func(Finding) bool, tone doc.Tone) []doc.Paragraph {
	return Grouped(table.Only(Findings(r), wanted), tone)
}

// Grouped returns a line for all findings that say the same of several cells, and one for each that
// is about no cell. The line names the cell of one finding, or says what the cells of several have in
// common and how many they are: cnn, 1 worker, 2 cells.
func Grouped(all []Finding, tone doc.Tone) (lines []doc.Paragraph) {
	for _, alike := range metrics.GroupBy(all, func(f Finding) string { return findingLine(f, table.Unless(f.about != nil, f.Cell)) }) {
		words := []string{alike[0].Cell}
		if alike[0].about != nil { // neither a floor nor the whole result
			words = inWords(doc.Each(alike, func(f Finding) *metrics.Cell { return f.about }))
			if len(alike) > 1 {
				words = append(words, doc.Plural(len(alike), "cell"))
			}
		}
		line := findingLine(alike[0], strings.Join(words, ", "))
		lines = append(lines, doc.Paragraph{Text: strings.ToUpper(line[:1]) + line[1:], Tone: tone})
	}
	return lines
}

// inWords returns what cells have in common, of one cell its name: http, cnn, 1 worker, 1 client.
func inWords(cells []*metrics.Cell) []string {
	return table.Phrases(table.NamingOf(cells).Common, cells[0])
}

// FindingTable has a column for each kind of number in findings.
func FindingTable(all []Finding) doc.Table {
	t := doc.Table{Key: "findings", Help: "a contradiction in a result, or a reason to doubt it; the other columns are numbers that its rule looks at", ForPrograms: true, More: true, Keys: 3, Columns: []doc.Column{
		{Name: "severity", Help: "error (a bug in the measurement: do not use the result), warning, or skipped (a cell that was not measured)"},
		{Name: "rule"}, {Name: "cell", Help: "the name of the cell; absent if the finding is about the whole result"}, {Name: "text", Help: "the finding as a sentence"}}}
	for _, f := range all {
		row := doc.Cells(string(f.Severity), f.Rule, f.Cell, f.Text)
		for _, v := range f.Values {
			at := slices.IndexFunc(t.Columns, func(c doc.Column) bool { return c.Name == v.Name })
			if at < 0 {
				at, t.Columns = len(t.Columns), append(t.Columns, doc.Column{Name: v.Name, Unit: v.Unit})
			}
			row = append(row, make([]doc.Cell, max(0, at+1-len(row)))...)
			row[at] = doc.Cells(v.Interval)[0]
		}
		t.Add(row)
	}
	return t
}
