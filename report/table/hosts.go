package table

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

// A FleetHost is a host of a run with workers on other hosts than the server's.
type FleetHost struct {
	*result.Host
	Lanes, Processes [2]int // fewest and most of a cell on this host
	OtherClock       bool   // its processes read another clock than the server
}

// FleetOf returns the hosts of the result, the server's first. It returns nil if all workers
// were on that host.
func FleetOf(r *metrics.Result) []FleetHost {
	var all []FleetHost
	for i := range r.Hosts {
		h := FleetHost{Host: &r.Hosts[i]}
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

func HostNames(hosts []FleetHost) []string {
	return doc.Each(hosts, func(h FleetHost) string { return h.Name })
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
	floors := Only(r.Floors, func(f result.Floor) bool { return f.Name == name && f.Host == host })
	if len(floors) == 0 {
		return stat.None()
	}
	return stat.Of(slices.MaxFunc(floors, func(a, b result.Floor) int { return cmp.Compare(a.Bytes, b.Bytes) }).Blocks)
}

// Unequal returns the differences between the machines of lanes, each with the values and
// their hosts.
func Unequal(hosts []FleetHost) []string {
	var all []machine.Difference
	with := Only(hosts, func(h FleetHost) bool { return h.Lanes[1] > 0 })
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

// HostTable has a row for each host, the server's first.
func HostTable(r *metrics.Result, hosts []FleetHost) doc.Table {
	t := doc.Table{Key: "fleet", Help: "a host of a run with agents, the server's first", Columns: []doc.Column{
		{Name: "host"}, {Name: "workers", Help: "workers of a cell on this host, the fewest and the most"}, {Name: "processes", Help: "processes of a cell on this host, the fewest and the most"},
		{Name: "TLS", Unit: "B/s", Help: "bandwidth of one TLS connection between the server's host and this one (floor tls-stream)"},
		{Name: "TCP", Unit: "B/s", Help: "the same without TLS (floor tcp-stream)"},
		{Name: "ping", Unit: "s", Help: "round trip of one byte (floor tcp-pingpong)"},
		{Name: "clock", Help: "the clock that its processes read"}, {Name: "same machine as", Key: "same_machine"}, {Name: "processors", Unit: "1"}, {Name: "memory"}, {Name: "kernel"}, {Name: "processor"}, {Name: "commit"},
	}}
	for _, h := range hosts {
		e := h.Environment
		floor := func(name string) stat.Interval { return linkFloor(r, name, h.Name) }
		clock := Unless(h.OtherClock, "the server's") + Unless(!h.OtherClock, "its own")
		t.Add(h.Name, span(h.Lanes[0], h.Lanes[1]), span(h.Processes[0], h.Processes[1]), floor("tls-stream"),
			floor("tcp-stream"), floor("tcp-pingpong"),
			clock, h.SameMachine, e.CPUs, size(e.MemTotal), e.Kernel, e.CPU,
			buildText(e.Commit[:min(len(e.Commit), 12)], e.Dirty))
	}
	return t
}

// SpentTable lists, for programs, the lanes, processes, CPU time per round and peak memory of
// each cell on each host, without the server.
func SpentTable(r *metrics.Result, hosts []FleetHost) doc.Table {
	axes := Axes()
	t := Keyed("spent", "what a cell used on a host, without the server", axes,
		[]doc.Column{{Name: "host"}, {Name: "lanes", Unit: "1"}, {Name: "processes", Unit: "1"},
			{Name: "cpu_per_round", Unit: "s/round", Help: "CPU time of a round"},
			{Name: "peak_rss", Unit: "B", Help: "peak resident memory, added up over processes"}})
	t.Keys++ // the host
	for _, h := range hosts {
		for _, c := range r.Cells {
			lanes, processes, _ := lanesOn(c, h.Host)
			if processes == 0 || !c.Remote() {
				continue
			}
			cpu, peak := spent(c, h.Host)
			t.Add(AxisCells(axes, c), h.Name, lanes, processes, cpu, peak)
		}
	}
	return t
}

// PlaceTable shows the placement of processes on hosts, for each number of workers.
func PlaceTable(r *metrics.Result) doc.Table {
	t := doc.Table{Caption: "Processes on each host", Keys: 2, Columns: []doc.Column{{Name: "workers", Unit: "1"}, {Name: "placed"}, {Name: "hosts", Wrap: true}, {Name: "cells", Unit: "1"}}}
	placed := func(c *metrics.Cell) [3]string { return [3]string{fmt.Sprint(c.Workers), c.Place, c.Hosts} }
	for _, group := range metrics.GroupBy(Only(r.Cells, (*metrics.Cell).Remote), placed) {
		c := group[0]
		t.Add(c.Workers, c.Place, strings.ReplaceAll(c.Hosts, ",", ", "), len(group))
	}
	return t
}

func LinkPlot(r *metrics.Result, hosts []FleetHost) doc.Plot {
	p := doc.Plot{Caption: "Between the server's host and the others", Kind: doc.Dots, Value: doc.Axis{Name: "bandwidth of one connection", Unit: "B/s"}}
	for i, label := range []string{"with TLS", "without TLS"} {
		s := doc.Series{Name: label}
		for _, h := range hosts {
			if rate := linkFloor(r, []string{"tls-stream", "tcp-stream"}[i], h.Name); rate.Known() {
				s.Points = append(s.Points, doc.Point{Name: h.Name, Value: rate})
			}
		}
		p.Series = append(p.Series, s)
	}
	return p
}

// ClockNotes explains which metrics are missing because workers read another clock.
func ClockNotes(hosts []FleetHost) []string {
	names := HostNames(Only(hosts, func(h FleetHost) bool { return h.OtherClock }))
	if names == nil {
		return nil
	}
	return []string{"down, up, uplink, unattributed and the phases receive and wait need one clock. Workers on " + strings.Join(names, ", ") +
		" read another clock than the server, so these are unknown, and a timeline has no spans of workers."}
}
