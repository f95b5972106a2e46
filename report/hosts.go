package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A Fleet is the hosts of a run whose workers were not all on the server's.
type Fleet struct {
	Hosts []FleetHost // the server's first
}

// A FleetHost is what is known of one of them.
type FleetHost struct {
	*result.Host
	Lanes, Processes [2]int        // the fewest and the most that a cell had here
	OtherClock       bool          // its processes read another clock than the server
	Stream, TLS      stat.Interval // the floors tcp-stream and tls-stream to the server's host, of the most bytes at once
	Ping             stat.Interval // the floor tcp-pingpong
}

// fleetOf returns that of the result, or nil if all workers were on one host.
func fleetOf(r *metrics.Result) *Fleet {
	if len(r.Hosts) == 0 {
		return nil
	}
	f := new(Fleet)
	for i := range r.Hosts {
		f.Hosts = append(f.Hosts, fleetHost(r, &r.Hosts[i]))
	}
	return f
}

func fleetHost(r *metrics.Result, h *result.Host) FleetHost {
	f := FleetHost{Host: h, Stream: linkFloor(r, "tcp-stream", h.Name), TLS: linkFloor(r, "tls-stream", h.Name), Ping: linkFloor(r, "tcp-pingpong", h.Name)}
	first := true
	for _, c := range r.Cells {
		if !c.Remote() || len(c.Timed()) == 0 {
			continue
		}
		lanes, processes := lanesOn(c, h)
		if first {
			f.Lanes, f.Processes, first = [2]int{lanes, lanes}, [2]int{processes, processes}, false
		}
		f.Lanes = [2]int{min(f.Lanes[0], lanes), max(f.Lanes[1], lanes)}
		f.Processes = [2]int{min(f.Processes[0], processes), max(f.Processes[1], processes)}
		f.OtherClock = f.OtherClock || slices.ContainsFunc(c.Timed()[0].Processes, func(p result.Process) bool { return ranOn(p, h) && p.OtherClock })
	}
	return f
}

// lanesOn returns how many of the cell's lanes and processes were on a host.
func lanesOn(c *metrics.Cell, h *result.Host) (lanes, processes int) {
	if len(c.Timed()) == 0 {
		return 0, 0
	}
	for n, p := range c.Timed()[0].Processes {
		if ranOn(p, h) {
			processes++
			lanes += max(0, min(c.PerProcess, c.Workers-n*c.PerProcess))
		}
	}
	return lanes, processes
}

func ranOn(p result.Process, h *result.Host) bool {
	return p.Host == h.Name || p.Host == "" && h.Server
}

// spent returns what the cell's worker processes on a host took: CPU time of a round,
// and peak resident memory, added up over them.
func spent(c *metrics.Cell, h *result.Host) (cpu, peak stat.Interval) {
	var cpus, peaks [][]float64
	for i := range c.Timed() {
		b := &c.Timed()[i]
		var used time.Duration
		var most int64
		for _, p := range b.Processes {
			if ranOn(p, h) {
				used += p.Usage.CPU()
				most += p.Memory.Peak
			}
		}
		cpus, peaks = append(cpus, []float64{used.Seconds() / float64(len(b.Round))}), append(peaks, []float64{float64(most)})
	}
	return stat.Of(cpus), stat.Of(peaks)
}

// linkFloor returns the named floor of the link to a host.
func linkFloor(r *metrics.Result, name, host string) stat.Interval {
	var found *result.Floor
	for i := range r.Floors {
		if f := &r.Floors[i]; f.Name == name && f.Host == host && (found == nil || f.Bytes > found.Bytes) {
			found = f
		}
	}
	if found == nil {
		return stat.None()
	}
	return stat.Of(found.Blocks)
}

// Together returns the names of hosts that are on one machine with others: a list for
// each such machine.
func (f *Fleet) Together() [][]string {
	on := func(h FleetHost) string {
		if h.SameMachine != "" {
			return h.SameMachine
		}
		return h.Name
	}
	var all [][]string
	for _, hosts := range metrics.GroupBy(f.Hosts, on) {
		var names []string
		for _, h := range hosts {
			names = append(names, h.Name)
		}
		if len(names) > 1 {
			all = append(all, names)
		}
	}
	return all
}

// Unequal returns in what the machines of lanes differ: what it is, and the values with
// the names of their hosts.
func (f *Fleet) Unequal() []machine.Difference {
	var all []machine.Difference
	with := slices.DeleteFunc(slices.Clone(f.Hosts), func(h FleetHost) bool { return h.Lanes[1] == 0 })
	for i := 1; i < len(with); i++ {
		first, other := with[0].Environment, with[i].Environment
		first.Listen, other.Listen = "", "" // only servers listen
		for _, d := range machine.Diff(first, other) {
			d.Base, d.Head = d.Base+" on "+with[0].Name, d.Head+" on "+with[i].Name
			if k := slices.IndexFunc(all, func(other machine.Difference) bool { return other.What == d.What }); k >= 0 {
				all[k].Head += ", " + d.Head
				continue
			}
			all = append(all, d)
		}
	}
	return all
}

// fleetFindings are what a result says of its hosts.
func fleetFindings(r *metrics.Result) (all []*Finding) {
	f := fleetOf(r)
	if f == nil {
		return nil
	}
	for _, names := range f.Together() {
		text := strings.Join(names, ", ") + " are one machine: a rig, and no result about hosts or the network between them"
		if len(names) < len(f.Hosts) {
			text = strings.Join(names, ", ") + " are one machine: they share its processors and its memory"
		}
		all = append(all, warn(OneMachine, text, value("hosts", "1", float64(len(names))), value("all", "1", float64(len(f.Hosts)))))
	}
	var texts []string
	for _, d := range f.Unequal() {
		texts = append(texts, d.What+" ("+d.Base+", "+d.Head+")")
	}
	if len(texts) > 0 {
		all = append(all, warn(UnequalHosts, "lanes are unequal, as their hosts differ: "+strings.Join(texts, "; ")))
	}
	return all
}

// otherTraining: without the control's training, nothing tells what a transport costs.
func otherTraining(c *metrics.Cell) *Finding {
	own, control := c.Training()
	if _, ok := c.TrainsLike(); ok || !control.Known() || c.Unproved != "" {
		return nil
	}
	training, of := Value{"training", "s", own}, Value{"control", "s", control}
	return warn(OtherTraining, fmt.Sprintf("a training took %s, and %s with %s: overhead and bandwidth are not known, and transfer ranks", training, of, metrics.Control), training, of)
}

// hosts says what ran where, in a run with agents, and what is known of the machines and
// links.
func hosts(r *metrics.Result) doc.Section {
	f := fleetOf(r)
	if f == nil {
		return doc.Section{}
	}
	s := doc.Section{Title: "Hosts", Lead: doc.Say(fleetLines(r)...), Tail: doc.Say(clockNotes(f)...)}
	s.Lead = append(s.Lead, findingLines(r, ofHosts, doc.Bad)...)
	s.Plots = drawn(s.Plots, linkPlot(f))
	s.Tables = filled(s.Tables, hostTable(f), placeTable(r), spentTable(r, f))
	return s
}

// ofHosts are the findings about hosts.
func ofHosts(f Finding) bool {
	return f.Rule == OneMachine || f.Rule == UnequalHosts
}

// hostTable has a row for each host, the server's first.
func hostTable(f *Fleet) doc.Table {
	t := doc.Table{Key: "fleet", Help: "a host of a run with agents, the server's first", Columns: []doc.Column{
		{Name: "host"}, {Name: "workers", Help: "that a cell had there, the fewest and the most"}, {Name: "processes", Help: "likewise"},
		{Name: "TLS", Unit: "B/s", Help: "bytes through one connection with TLS between the server's host and this one (floor tls-stream)"},
		{Name: "TCP", Unit: "B/s", Help: "the same without TLS (floor tcp-stream)"},
		{Name: "ping", Unit: "s", Help: "one byte there and one back (floor tcp-pingpong)"},
		{Name: "clock", Help: "which one its processes read"}, {Name: "same machine as", Key: "same_machine"}, {Name: "processors", Unit: "1"}, {Name: "memory"}, {Name: "kernel"}, {Name: "processor"}, {Name: "commit"},
	}}
	for _, h := range f.Hosts {
		e := h.Environment
		clock := "the server's"
		if h.OtherClock {
			clock = "its own"
		}
		t.Add(doc.Words(h.Name), doc.Words(span(h.Lanes[0], h.Lanes[1])), doc.Words(span(h.Processes[0], h.Processes[1])), doc.Estimate(h.TLS), doc.Estimate(h.Stream), doc.Estimate(h.Ping), doc.Words(clock),
			doc.Words(h.SameMachine), doc.Number(float64(e.CPUs)), doc.Words(size(e.MemTotal)), doc.Words(e.Kernel), doc.Words(e.CPU), doc.Words(buildText(e.Commit, e.Dirty)))
	}
	return t
}

// spentTable says, for programs, what each cell had and took on each host, without the
// server: CPU time of a round, and peak memory.
func spentTable(r *metrics.Result, f *Fleet) doc.Table {
	of := axes()
	t := doc.Table{Key: "spent", Help: "what a cell had and took on a host, without the server", For: doc.Programs, Keys: len(of) + 1,
		Columns: append(axisColumns(of), doc.Column{Name: "host"}, doc.Column{Name: "lanes", Unit: "1"}, doc.Column{Name: "processes", Unit: "1"},
			doc.Column{Name: "cpu_per_round", Unit: "s/round", Help: "CPU time of a round"}, doc.Column{Name: "peak_rss", Unit: "B", Help: "peak resident memory, added up over processes"})}
	for _, h := range f.Hosts {
		for _, c := range r.Cells {
			lanes, processes := lanesOn(c, h.Host)
			if processes == 0 || !c.Remote() {
				continue
			}
			cpu, peak := spent(c, h.Host)
			t.Add(append(axisCells(of, c), doc.Words(h.Name), doc.Number(float64(lanes)), doc.Number(float64(processes)), doc.Estimate(cpu), doc.Estimate(peak))...)
		}
	}
	return t
}

// span writes the least and the most of something, or its beginning and its end.
func span[T comparable](from, to T) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%v to %v", from, to)
}

// buildText names what a build was made of, for readers.
func buildText(commit string, dirty bool) string {
	text := commit[:min(len(commit), 12)]
	if dirty {
		text += ", changed since"
	}
	return text
}

// placeTable says where the processes of cells were, by their number of workers.
func placeTable(r *metrics.Result) doc.Table {
	t := doc.Table{Caption: "Processes on each host", Keys: 2, Columns: []doc.Column{{Name: "workers", Unit: "1"}, {Name: "placed"}, {Name: "hosts", Wrap: true}, {Name: "cells", Unit: "1"}}}
	type placement struct {
		workers      int
		place, hosts string
	}
	remote := slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool { return !c.Remote() })
	for _, same := range metrics.GroupBy(remote, func(c *metrics.Cell) placement {
		return placement{c.Workers, c.Place, c.Hosts}
	}) {
		c := same[0]
		t.Add(doc.Number(float64(c.Workers)), doc.Words(c.Place), doc.Words(strings.ReplaceAll(c.Hosts, ",", ", ")), doc.Number(float64(len(same))))
	}
	return t
}

// linkPlot shows the links of the hosts side by side.
func linkPlot(f *Fleet) doc.Plot {
	p := doc.Plot{Caption: "Between the server's host and the others", Kind: doc.Dots, Value: doc.Axis{Name: "bandwidth of one connection", Unit: "B/s"}}
	tls, tcp := doc.Series{Name: "with TLS"}, doc.Series{Name: "without TLS"}
	for _, h := range f.Hosts {
		for _, of := range []struct {
			series *doc.Series
			value  stat.Interval
		}{{&tls, h.TLS}, {&tcp, h.Stream}} {
			if of.value.Known() {
				of.series.Points = append(of.series.Points, doc.Point{Name: h.Name, Value: of.value})
			}
		}
	}
	for _, s := range []doc.Series{tls, tcp} {
		if len(s.Points) > 0 {
			p.Series = append(p.Series, s)
		}
	}
	return p
}

// clockNotes say what cells do not have that have workers with a clock of their own.
func clockNotes(f *Fleet) []string {
	var names []string
	for _, h := range f.Hosts {
		if h.OtherClock {
			names = append(names, h.Name)
		}
	}
	if names == nil {
		return nil
	}
	return []string{"down, up, uplink, unattributed and the phases receive and wait take one clock. With workers on " + strings.Join(names, ", ") +
		" there are two, so they are not known, and a timeline has no spans of workers."}
}

// lineWidth is how wide the line of a fleet may be, in columns.
const lineWidth = 80

// fleetLines say in a line where workers were, and over what they spoke with the server.
// There are none in a run without agents.
func fleetLines(r *metrics.Result) []string {
	f := fleetOf(r)
	if f == nil {
		return nil
	}
	end, workers := "", []string{}
	for _, h := range f.Hosts {
		if !h.Server || h.Lanes[1] > 0 {
			workers = append(workers, fmt.Sprintf("%s (%d)", h.Name, h.Lanes[1]))
		}
	}
	if over := overText(r); over != "" {
		end = ": " + over
	}
	line := func(named int) string {
		text := "workers on " + strings.Join(workers[:named], ", ")
		if left := len(workers) - named; left > 0 {
			text += ", " + doc.Plural(left, "more host")
		}
		return text + end
	}
	named := len(workers)
	for named > 1 && utf8.RuneCountInString(line(named)) > lineWidth {
		named--
	}
	return []string{line(named)}
}

// overText says over what the tensors of workers on other hosts went.
func overText(r *metrics.Result) string {
	with := map[string]bool{}
	for _, c := range r.Cells {
		if c.Remote() {
			with[c.TLS()] = true
		}
	}
	switch {
	case len(with) == 0:
		return ""
	case len(with) > 1:
		return "over TCP, of which some with TLS"
	case with[metrics.NoTLS]:
		return "over TCP without TLS"
	case with[metrics.MutualTLS]:
		return "over TCP with mutual TLS"
	}
	return "over TCP with TLS"
}
