package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A fleetHost is a host of a run with workers on other hosts than the server's.
type fleetHost struct {
	*result.Host
	Lanes, Processes [2]int // fewest and most of a cell on this host
	OtherClock       bool   // its processes read another clock than the server
}

// fleetOf returns the hosts of the result, the server's first. It returns nil if all workers
// were on that host.
func fleetOf(r *metrics.Result) []fleetHost {
	var all []fleetHost
	for i := range r.Hosts {
		h := fleetHost{Host: &r.Hosts[i]}
		var lanes, processes []int
		for _, c := range r.Cells {
			if !c.Remote() || len(c.Timed()) == 0 {
				continue
			}
			l, p, other := lanesOn(c, h.Host)
			lanes, processes = append(lanes, l), append(processes, p)
			h.OtherClock = h.OtherClock || other
		}
		if lanes != nil {
			h.Lanes = [2]int{slices.Min(lanes), slices.Max(lanes)}
			h.Processes = [2]int{slices.Min(processes), slices.Max(processes)}
		}
		all = append(all, h)
	}
	return all
}

func hostNames(hosts []fleetHost) []string {
	return each(hosts, func(h fleetHost) string { return h.Name })
}

// lanesOn returns the numbers of the cell's lanes and processes on a host, and whether a
// process there read another clock than the server.
func lanesOn(c *metrics.Cell, h *result.Host) (lanes, processes int, otherClock bool) {
	if len(c.Timed()) == 0 {
		return 0, 0, false
	}
	for n, p := range c.Timed()[0].Processes {
		if ranOn(p, h) {
			processes++
			lanes += max(0, min(c.PerProcess, c.Workers-n*c.PerProcess))
			otherClock = otherClock || p.OtherClock
		}
	}
	return lanes, processes, otherClock
}

func ranOn(p result.Process, h *result.Host) bool {
	return p.Host == h.Name || p.Host == "" && h.Server
}

// spent returns the cost of the cell's worker processes on a host, added up over them: CPU
// time per round in seconds, and peak resident memory in bytes.
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

// linkFloor returns the named floor of the link to a host, for the largest number of bytes at
// once.
func linkFloor(r *metrics.Result, name, host string) stat.Interval {
	of := slices.DeleteFunc(slices.Clone(r.Floors), func(f result.Floor) bool { return f.Name != name || f.Host != host })
	if len(of) == 0 {
		return stat.None()
	}
	return stat.Of(slices.MaxFunc(of, func(a, b result.Floor) int { return cmp.Compare(a.Bytes, b.Bytes) }).Blocks)
}

// unequal returns the differences between the machines of lanes, each with the values and
// their hosts.
func unequal(hosts []fleetHost) []string {
	var all []machine.Difference
	with := slices.DeleteFunc(slices.Clone(hosts), func(h fleetHost) bool { return h.Lanes[1] == 0 })
	for i := 1; i < len(with); i++ {
		first, other := with[0].Environment, with[i].Environment
		first.Listen, other.Listen = "", "" // only servers listen
		for _, d := range machine.Diff(first, other) {
			all = append(all, machine.Difference{What: d.What, Base: d.Base + " on " + with[0].Name, Head: d.Head + " on " + with[i].Name})
		}
	}
	var texts []string
	for _, same := range metrics.GroupBy(all, func(d machine.Difference) string { return d.What }) {
		text := same[0].What + " (" + same[0].Base
		for _, d := range same {
			text += ", " + d.Head
		}
		texts = append(texts, text+")")
	}
	return texts
}

// fleetFindings warns about hosts that are the same machine, and about differences between
// hosts with lanes.
func fleetFindings(r *metrics.Result) (all []*Finding) {
	f := fleetOf(r)
	for _, same := range metrics.GroupBy(f, func(h fleetHost) string { return cmp.Or(h.SameMachine, h.Name) }) {
		if len(same) == 1 {
			continue
		}
		why := "this says nothing about separate hosts or their network"
		if len(same) < len(f) {
			why = "they share its processors and memory"
		}
		text := strings.Join(hostNames(same), ", ") + " are one machine, so " + why
		all = append(all, warn(OneMachine, text, value("hosts", "1", float64(len(same))), value("all", "1", float64(len(f)))))
	}
	if texts := unequal(f); len(texts) > 0 {
		all = append(all, warn(UnequalHosts, "lanes are unequal because their hosts differ: "+strings.Join(texts, "; ")))
	}
	return all
}

// otherTraining warns if training took another time than the control's, because the cost of
// the transport is unknown then.
func otherTraining(c *metrics.Cell) *Finding {
	own, control := c.Training()
	if _, ok := c.TrainsLike(); ok || !control.Known() || c.Unproved != "" {
		return nil
	}
	training, of := Value{"training", "s", own}, Value{"control", "s", control}
	return warn(OtherTraining, fmt.Sprintf("training took %s here but %s in %s, so cells are ranked by transfer, and overhead and bandwidth are omitted", training, of, metrics.Control), training, of)
}

// hosts is the view of a run with agents: the placement of processes, and the machines and
// links.
func hosts(r *metrics.Result) doc.Section {
	f := fleetOf(r)
	if f == nil {
		return doc.Section{}
	}
	about := func(f Finding) bool { return f.Rule == OneMachine || f.Rule == UnequalHosts }
	return doc.Section{
		Title:  "Hosts",
		Lead:   append(doc.Say(fleetLines(r)...), findingLines(r, about, doc.Bad)...),
		Plots:  drawn(nil, linkPlot(r, f)),
		Tables: filled(nil, hostTable(r, f), placeTable(r), spentTable(r, f)),
		Tail:   doc.Say(clockNotes(f)...),
	}
}

// hostTable has a row for each host, the server's first.
func hostTable(r *metrics.Result, hosts []fleetHost) doc.Table {
	t := doc.Table{Key: "fleet", Help: "a host of a run with agents, the server's first", Columns: []doc.Column{
		{Name: "host"}, {Name: "workers", Help: "workers of a cell on this host, the fewest and the most"}, {Name: "processes", Help: "processes of a cell on this host, the fewest and the most"},
		{Name: "TLS", Unit: "B/s", Help: "bandwidth of one TLS connection between the server's host and this one (floor tls-stream)"},
		{Name: "TCP", Unit: "B/s", Help: "the same without TLS (floor tcp-stream)"},
		{Name: "ping", Unit: "s", Help: "round trip of one byte (floor tcp-pingpong)"},
		{Name: "clock", Help: "the clock that its processes read"}, {Name: "same machine as", Key: "same_machine"}, {Name: "processors", Unit: "1"}, {Name: "memory"}, {Name: "kernel"}, {Name: "processor"}, {Name: "commit"},
	}}
	for _, h := range hosts {
		e := h.Environment
		floor := func(name string) doc.Cell { return doc.Estimate(linkFloor(r, name, h.Name)) }
		clock := unless(h.OtherClock, "the server's") + unless(!h.OtherClock, "its own")
		t.Add(doc.Words(h.Name), doc.Words(span(h.Lanes[0], h.Lanes[1])), doc.Words(span(h.Processes[0], h.Processes[1])),
			floor("tls-stream"), floor("tcp-stream"), floor("tcp-pingpong"), doc.Words(clock), doc.Words(h.SameMachine),
			doc.Number(float64(e.CPUs)), doc.Words(size(e.MemTotal)), doc.Words(e.Kernel), doc.Words(e.CPU),
			doc.Words(buildText(e.Commit[:min(len(e.Commit), 12)], e.Dirty)))
	}
	return t
}

// spentTable lists, for programs, the lanes, processes, CPU time per round and peak memory of
// each cell on each host, without the server.
func spentTable(r *metrics.Result, hosts []fleetHost) doc.Table {
	of := axes()
	t := keyed("spent", "what a cell used on a host, without the server", of,
		doc.Column{Name: "host"}, doc.Column{Name: "lanes", Unit: "1"}, doc.Column{Name: "processes", Unit: "1"},
		doc.Column{Name: "cpu_per_round", Unit: "s/round", Help: "CPU time of a round"},
		doc.Column{Name: "peak_rss", Unit: "B", Help: "peak resident memory, added up over processes"})
	t.Keys++ // the host
	for _, h := range hosts {
		for _, c := range r.Cells {
			lanes, processes, _ := lanesOn(c, h.Host)
			if processes == 0 || !c.Remote() {
				continue
			}
			cpu, peak := spent(c, h.Host)
			t.Add(append(axisCells(of, c), doc.Words(h.Name), doc.Number(float64(lanes)), doc.Number(float64(processes)), doc.Estimate(cpu), doc.Estimate(peak))...)
		}
	}
	return t
}

// span writes the first and the last of something, or only one if they are equal.
func span[T comparable](from, to T) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%v to %v", from, to)
}

// placeTable shows the placement of processes on hosts, for each number of workers.
func placeTable(r *metrics.Result) doc.Table {
	t := doc.Table{Caption: "Processes on each host", Keys: 2, Columns: []doc.Column{{Name: "workers", Unit: "1"}, {Name: "placed"}, {Name: "hosts", Wrap: true}, {Name: "cells", Unit: "1"}}}
	remote := slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool { return !c.Remote() })
	placed := func(c *metrics.Cell) [3]string { return [3]string{fmt.Sprint(c.Workers), c.Place, c.Hosts} }
	for _, same := range metrics.GroupBy(remote, placed) {
		c := same[0]
		t.Add(doc.Number(float64(c.Workers)), doc.Words(c.Place), doc.Words(strings.ReplaceAll(c.Hosts, ",", ", ")), doc.Number(float64(len(same))))
	}
	return t
}

func linkPlot(r *metrics.Result, hosts []fleetHost) doc.Plot {
	p := doc.Plot{Caption: "Between the server's host and the others", Kind: doc.Dots, Value: doc.Axis{Name: "bandwidth of one connection", Unit: "B/s"}}
	for _, of := range [][2]string{{"with TLS", "tls-stream"}, {"without TLS", "tcp-stream"}} {
		s := doc.Series{Name: of[0]}
		for _, h := range hosts {
			if rate := linkFloor(r, of[1], h.Name); rate.Known() {
				s.Points = append(s.Points, doc.Point{Name: h.Name, Value: rate})
			}
		}
		if len(s.Points) > 0 {
			p.Series = append(p.Series, s)
		}
	}
	return p
}

// clockNotes explains which metrics are missing because workers read another clock.
func clockNotes(hosts []fleetHost) []string {
	names := hostNames(slices.DeleteFunc(slices.Clone(hosts), func(h fleetHost) bool { return !h.OtherClock }))
	if names == nil {
		return nil
	}
	return []string{"down, up, uplink, unattributed and the phases receive and wait need one clock. Workers on " + strings.Join(names, ", ") +
		" read another clock than the server, so these are unknown, and a timeline has no spans of workers."}
}

// mostHosts is the largest number of hosts that a line names.
const mostHosts = 4

// fleetLines returns one line with the hosts of the workers and the kind of connection. It
// returns none for a run without agents.
func fleetLines(r *metrics.Result) []string {
	var workers []string
	for _, h := range fleetOf(r) {
		if !h.Server || h.Lanes[1] > 0 {
			workers = append(workers, fmt.Sprintf("%s (%d)", h.Name, h.Lanes[1]))
		}
	}
	if workers == nil {
		return nil
	}
	if more := len(workers) - mostHosts; more > 0 {
		workers = append(workers[:mostHosts], doc.Plural(more, "more host"))
	}
	return []string{"workers on " + strings.Join(workers, ", ") + overText(r)}
}

// overText returns the kind of connection to workers on other hosts.
func overText(r *metrics.Result) string {
	var with []string
	for _, c := range r.Cells {
		if c.Remote() && !slices.Contains(with, c.TLS()) {
			with = append(with, c.TLS())
		}
	}
	words := map[string]string{metrics.NoTLS: "without TLS", metrics.MutualTLS: "with mutual TLS"}
	switch len(with) {
	case 0:
		return ""
	case 1:
		return ": over TCP " + cmp.Or(words[with[0]], "with TLS")
	}
	return ": over TCP, some of them with TLS"
}
