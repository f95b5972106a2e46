package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// hosts says what ran where, in a run with agents, and what is known of the machines and
// links.
func hosts(r *analysis.Result) doc.Section {
	f := r.Fleet()
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
func ofHosts(f analysis.Finding) bool {
	return f.Rule == analysis.OneMachine || f.Rule == analysis.UnequalHosts
}

// hostTable has a row for each host, the server's first.
func hostTable(f *analysis.Fleet) doc.Table {
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
		t.Add(doc.Words(h.Name), doc.Words(span(h.Lanes)), doc.Words(span(h.Processes)), doc.Estimate(h.TLS), doc.Estimate(h.Stream), doc.Estimate(h.Ping), doc.Words(clock),
			doc.Words(h.SameMachine), doc.Number(float64(e.CPUs)), doc.Words(size(e.MemTotal)), doc.Words(e.Kernel), doc.Words(e.CPU), doc.Words(buildText(e.Commit, e.Dirty)))
	}
	return t
}

// spentTable says, for programs, what each cell had and took on each host, without the
// server: CPU time of a round, and peak memory.
func spentTable(r *analysis.Result, f *analysis.Fleet) doc.Table {
	of := axes()
	t := doc.Table{Key: "spent", Help: "what a cell had and took on a host, without the server", For: doc.Programs, Keys: len(of) + 1,
		Columns: append(axisColumns(of), doc.Column{Name: "host"}, doc.Column{Name: "lanes", Unit: "1"}, doc.Column{Name: "processes", Unit: "1"},
			doc.Column{Name: "cpu_per_round", Unit: "s/round", Help: "CPU time of a round"}, doc.Column{Name: "peak_rss", Unit: "B", Help: "peak resident memory, added up over processes"})}
	for _, h := range f.Hosts {
		for _, c := range r.Cells {
			lanes, processes := c.On(h.Host)
			if processes == 0 || !c.Remote() {
				continue
			}
			cpu, peak := c.Spent(h.Host)
			t.Add(append(axisCells(of, c), doc.Words(h.Name), doc.Number(float64(lanes)), doc.Number(float64(processes)), doc.Estimate(cpu), doc.Estimate(peak))...)
		}
	}
	return t
}

// span writes the fewest and the most of something.
func span(of [2]int) string {
	if of[0] == of[1] {
		return strconv.Itoa(of[0])
	}
	return fmt.Sprintf("%d to %d", of[0], of[1])
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
func placeTable(r *analysis.Result) doc.Table {
	t := doc.Table{Caption: "Processes on each host", Keys: 2, Columns: []doc.Column{{Name: "workers", Unit: "1"}, {Name: "placed"}, {Name: "hosts", Wrap: true}, {Name: "cells", Unit: "1"}}}
	type placement struct {
		workers      int
		place, hosts string
	}
	remote := slices.DeleteFunc(slices.Clone(r.Cells), func(c *analysis.Cell) bool { return !c.Remote() })
	for _, same := range analysis.GroupBy(remote, func(c *analysis.Cell) placement {
		return placement{c.Workers, c.Place, c.Hosts}
	}) {
		c := same[0]
		t.Add(doc.Number(float64(c.Workers)), doc.Words(c.Place), doc.Words(strings.ReplaceAll(c.Hosts, ",", ", ")), doc.Number(float64(len(same))))
	}
	return t
}

// linkPlot shows the links of the hosts side by side.
func linkPlot(f *analysis.Fleet) doc.Plot {
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
func clockNotes(f *analysis.Fleet) []string {
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
func fleetLines(r *analysis.Result) []string {
	f := r.Fleet()
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
func overText(r *analysis.Result) string {
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
	case with[analysis.NoTLS]:
		return "over TCP without TLS"
	case with[analysis.MutualTLS]:
		return "over TCP with mutual TLS"
	}
	return "over TCP with TLS"
}
