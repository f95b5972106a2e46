package report

import (
	"fmt"
	"slices"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/transports/driver"
)

// A Severity says what a finding means for a result.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // a bug in the measurement: the result is not to be used
	Warning Severity = "warning" // it is to be used with care
	Skipped Severity = "skipped" // what is not in it
)

// A Finding is something that a result says and that cannot be, or that puts it
// in doubt.
type Finding struct {
	Severity Severity `json:"severity"`
	Cell     string   `json:"cell,omitempty"` // whose it is; empty of the whole result
	Text     string   `json:"text"`
}

// String writes the finding as a line.
func (f Finding) String() string {
	text := string(f.Severity) + ": "
	if f.Cell != "" {
		text += f.Cell + ": "
	}
	return doc.Visible(text + f.Text)
}

// Findings applies the rules of plausibility to a result.
func Findings(r *bench.Result) []Finding { return newView(r).findings() }

// What the rules allow.
const (
	controlRatio  = 1.05   // of the control's round over the same work called directly
	controlSlack  = 100e-6 // seconds of a round below which a ratio says nothing about the control
	controlPart   = 0.1    // of the smallest overhead that the control may add to the work
	recorderShare = 0.01   // of a round that recording may take
	recorderTime  = 5e-6   // seconds of a round that it may take besides: a share of a short round says nothing
	stolenShare   = 0.05   // of the processors' time that the hypervisor may give to others
	quietTime     = 0.5    // seconds: the least that the kernel's 10 ms ticks can measure
)

func (v *view) findings() []Finding {
	var all []Finding
	if v.Environment.Race {
		all = append(all, Finding{Warning, "", "built with the race detector: no time means anything"})
	}
	if text := partial(v.Result); text != "" {
		all = append(all, Finding{Warning, "", text})
	}
	for _, rule := range []func(v *view) string{smallSockets, stalePeaks} {
		if text := rule(v); text != "" {
			all = append(all, Finding{Warning, "", text})
		}
	}
	for _, s := range v.Skipped {
		all = append(all, Finding{Skipped, s.ID(), s.Why})
	}
	for _, c := range v.cells {
		for _, rule := range []func(c *cell) (Severity, string){
			beatsByteFloor, shorterThanItsParts, fasterThanControl, noControl, slowControl, unproved, recorderCost, stolen, filesInMemory,
		} {
			if severity, text := rule(c); text != "" {
				all = append(all, Finding{severity, c.name(), text})
			}
		}
	}
	return all
}

// name is the cell's identity with its build.
func (c *cell) name() string {
	if c.Build == "" {
		return c.ID()
	}
	return c.ID() + " " + c.Build
}

// smallSockets: whoever sends through a small socket waits for its reader. Most
// distributions grant less than the transports ask for.
func smallSockets(v *view) string {
	granted := v.Environment.SocketBuffer
	if granted == 0 || granted >= driver.SocketBuffer || !slices.ContainsFunc(v.cells, (*cell).movesBytes) {
		return ""
	}
	return fmt.Sprintf("sockets hold %s and not %s, which slows down what moves bytes through them: sysctl net.core.wmem_max=%d",
		size(granted), size(int64(driver.SocketBuffer)), driver.SocketBuffer)
}

// stalePeaks: a peak of the server that may be another cell's is not shown.
func stalePeaks(v *view) string {
	if !slices.ContainsFunc(v.cells, func(c *cell) bool {
		return slices.ContainsFunc(c.timed, func(b bench.Block) bool { return b.Server.StalePeak })
	}) {
		return ""
	}
	return "there is no peak RSS of the server: the kernel did not let it begin anew with each block, which takes write access to /proc/self/clear_refs"
}

// beatsByteFloor: bytes that were moved faster than this machine can move bytes
// were not moved.
func beatsByteFloor(c *cell) (Severity, string) {
	f, floor := c.byteFloor()
	b := c.of("bandwidth")
	if f == nil || !c.movesBytes() || !b.Known() || b.Low <= floor.High {
		return "", ""
	}
	return Error, fmt.Sprintf("moves bytes at %s (%s to %s), more than the %s of the floor %s: a bug in the measurement",
		rate(b.Center), rate(b.Low), rate(b.High), rate(floor.Center), f.Name)
}

// shorterThanItsParts: a round holds the training of its clients.
func shorterThanItsParts(c *cell) (Severity, string) {
	for _, b := range c.timed {
		train, round := 0.0, float64(b.RoundTime())
		for _, ns := range b.Train {
			train += float64(ns)
		}
		if at := train / float64(c.Workers); at > round*(1+1e-9) {
			return Error, fmt.Sprintf("block %d: its rounds took %s, but each worker trained for %s in them", b.Index, duration(round/1e9), duration(at/1e9))
		}
	}
	return "", ""
}

// fasterThanControl: leaving the process cannot save time, so the control is in
// doubt.
func fasterThanControl(c *cell) (Severity, string) {
	o := c.of("overhead")
	if !o.Known() || !o.Excludes(0) || o.Center >= 0 {
		return "", ""
	}
	return Warning, fmt.Sprintf("faster than %s by %s a round (%s to %s): the control is in doubt", control, duration(-o.Center), duration(-o.High), duration(-o.Low))
}

func noControl(c *cell) (Severity, string) {
	if c.control != nil {
		return "", ""
	}
	return Warning, "no cell of " + control + " did the same work: there is no overhead"
}

// slowControl: what the control adds to the work itself, every overhead lacks.
// It must be small beside the round, and beside the overheads.
func slowControl(c *cell) (Severity, string) {
	f, work := c.floor(floorWork)
	round := c.of("round")
	if c.control != c || f == nil || c.Workers > 1 {
		return "", ""
	}
	excess := stat.Shift(stat.Medians(f.Blocks), c.medianOf("round"))
	if !excess.Excludes(0) || excess.Center <= 0 { // or noise
		return "", ""
	}
	if ratio := quotient(round, work); ratio.Center > controlRatio && ratio.Low > 1 && excess.Center >= controlSlack {
		return Warning, fmt.Sprintf("takes %s the time of the same work called directly, more than %g: all overheads are too small by that",
			times(ratio), controlRatio)
	}
	if least := c.leastOverhead(); least != nil && excess.Center > controlPart*least.of("overhead").Center {
		return Warning, fmt.Sprintf("takes %s (%s to %s) longer than the same work called directly, more than a tenth of the overhead of %s, %s: small overheads are too small by that",
			duration(excess.Center), duration(excess.Low), duration(excess.High), least.Variant, duration(least.of("overhead").Center))
	}
	return "", ""
}

// leastOverhead returns the cell of the same work with the smallest overhead that
// is told from zero, or nil.
func (c *cell) leastOverhead() *cell {
	var least *cell
	for _, o := range c.view.cells {
		i := o.of("overhead")
		if o.control != c.control || !i.Excludes(0) || i.Center <= 0 {
			continue
		}
		if least == nil || i.Center < least.of("overhead").Center {
			least = o
		}
	}
	return least
}

func unproved(c *cell) (Severity, string) {
	if c.Proved() {
		return "", ""
	}
	return Warning, "its data was not proved"
}

func recorderCost(c *cell) (Severity, string) {
	i := c.of("recorder_share")
	if !i.Known() || i.Center <= recorderShare {
		return "", ""
	}
	took := i.Center * c.of("round").Center
	if took <= recorderTime {
		return "", ""
	}
	return Warning, fmt.Sprintf("recording took %s of its rounds, %s each", share(i.Center), duration(took))
}

// stolen: other virtual machines on the same host took time.
func stolen(c *cell) (Severity, string) {
	var shares []float64
	for _, b := range c.timed {
		if b.System == nil {
			continue
		}
		if all := (b.System.Busy + b.System.Idle + b.System.Steal).Seconds(); all >= quietTime {
			shares = append(shares, b.System.Steal.Seconds()/all)
		}
	}
	if m := stat.Median(shares); m > stolenShare {
		return Warning, "other virtual machines took " + share(m) + " of the processors' time"
	}
	return "", ""
}

// filesInMemory: a file system in memory has no disk under it.
func filesInMemory(c *cell) (Severity, string) {
	if c.FileSystem != "tmpfs" && c.FileSystem != "ramfs" {
		return "", ""
	}
	return Warning, "its files are in memory (" + c.FileSystem + "), where they cost no disk but room: dir=DIR takes another directory"
}

func findingsSection(v *view) section {
	s := section{title: "Findings"}
	for _, f := range v.findings() {
		s.lead = append(s.lead, f.String())
	}
	return s
}
