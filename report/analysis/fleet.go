package analysis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
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

// Fleet returns that of the result, or nil if all workers were on one host.
func (r *Result) Fleet() *Fleet {
	if len(r.Hosts) == 0 {
		return nil
	}
	f := new(Fleet)
	for i := range r.Hosts {
		f.Hosts = append(f.Hosts, r.host(&r.Hosts[i]))
	}
	return f
}

func (r *Result) host(h *result.Host) FleetHost {
	f := FleetHost{Host: h, Stream: r.linkFloor("tcp-stream", h.Name), TLS: r.linkFloor("tls-stream", h.Name), Ping: r.linkFloor("tcp-pingpong", h.Name)}
	first := true
	for _, c := range r.Cells {
		if !c.Remote() || len(c.timed) == 0 {
			continue
		}
		lanes, processes := c.On(h)
		if first {
			f.Lanes, f.Processes, first = [2]int{lanes, lanes}, [2]int{processes, processes}, false
		}
		f.Lanes = [2]int{min(f.Lanes[0], lanes), max(f.Lanes[1], lanes)}
		f.Processes = [2]int{min(f.Processes[0], processes), max(f.Processes[1], processes)}
		f.OtherClock = f.OtherClock || slices.ContainsFunc(c.timed[0].Processes, func(p result.Process) bool { return ranOn(p, h) && p.OtherClock })
	}
	return f
}

// On returns how many of the cell's lanes and processes were on a host.
func (c *Cell) On(h *result.Host) (lanes, processes int) {
	if len(c.timed) == 0 {
		return 0, 0
	}
	for n, p := range c.timed[0].Processes {
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

// Spent returns what the cell's worker processes on a host took: CPU time of a round,
// and peak resident memory, added up over them.
func (c *Cell) Spent(h *result.Host) (cpu, peak stat.Interval) {
	var cpus, peaks [][]float64
	for i := range c.timed {
		b := &c.timed[i]
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
func (r *Result) linkFloor(name, host string) stat.Interval {
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
	for _, hosts := range GroupBy(f.Hosts, on) {
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
func (r *Result) fleetFindings() (all []*Finding) {
	f := r.Fleet()
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
func otherTraining(c *Cell) *Finding {
	own, control := c.training()
	if _, ok := c.trainsLike(); ok || !control.Known() || c.Unproved != "" {
		return nil
	}
	training, of := Value{"training", "s", own}, Value{"control", "s", control}
	return warn(OtherTraining, fmt.Sprintf("a training took %s, and %s with %s: overhead and bandwidth are not known, and transfer ranks", training, of, Control), training, of)
}
