package table

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// DelayLines says for each link with a delay what holds its packets, how exact that is, and how
// much processor time a mirror took.
func DelayLines(r *metrics.Result) (lines []string) {
	if r.Environment.Link == nil {
		return nil
	}
	for _, d := range r.Environment.Link.Delays {
		line := fmt.Sprintf("%s: %s holds packets of %s, TCP uses %s; a connect took %s longer than twice the delay, a ping-pong %s",
			d.Link, d.By, size(int64(d.MTU)), d.Congestion, doc.Quantity("s", d.Connect.Seconds()), doc.Quantity("s", d.PingPong.Seconds()))
		if d.Limit != "" {
			line += fmt.Sprintf("; one connection sends %s, limited by the %s", doc.Quantity("B/s", d.Stream), d.Limit)
		}
		var mirror []float64
		for _, c := range r.Cells {
			for _, b := range c.Timed() {
				if c.Link.String() == d.Link && b.Link != nil && b.Link.CPU > 0 {
					mirror = append(mirror, b.Link.CPU.Seconds())
				}
			}
		}
		if len(mirror) > 0 {
			line += "; the mirror, a process, took " + doc.Quantity("s", stat.Median(mirror)) + " of processor time per block"
		}
		lines = append(lines, line)
	}
	return lines
}

// MachineView is the name of a view that only markers can ask for.
const MachineView = "machine"

// Heading describes the machine, the day and the build of a result in a line.
func Heading(r *metrics.Result) string {
	e := r.Environment
	line := fmt.Sprintf("%s, %s, kernel %s, %s", e.CPU, doc.Plural(e.CPUs, "processor"), e.Kernel, e.Go) + pythonText(r)
	if e.LLC > 0 {
		line += ", last-level cache " + doc.Quantity("iB", float64(e.LLC))
	}
	line += "; " + r.Started.UTC().Format(time.DateOnly)
	if e.Commit != "" {
		line += ", build " + buildText(e.Commit[:min(12, len(e.Commit))], e.Dirty)
	}
	return line
}

// Environment is the view of the machine, the build and the settings of a result.
func Environment(r *metrics.Result) doc.Section {
	e, p := r.Environment, r.Plan
	t := doc.Table{Key: "about", Help: "a fact about the machine, the build or the settings, in words", Columns: []doc.Column{{Name: "what"}, {Name: "value", Wrap: true}}}
	add := t.Add
	add("machine", facts(e))
	for _, h := range r.Hosts {
		if !h.Server {
			add("host "+h.Name, facts(h.Environment)+"; available: "+size(h.Environment.MemAvailable))
		}
	}
	for _, c := range r.Doctor {
		add("doctor", fmt.Sprintf("%s, %s: %s", c.Name, c.Status, c.What))
	}
	for _, same := range metrics.GroupBy(Only(r.Cells, (*metrics.Cell).IsPeer),
		func(c *metrics.Cell) string { return c.Variant }) {
		add("peer", Variant(same[0])+": "+same[0].Command())
	}
	for _, same := range metrics.GroupBy(r.Cells, softwareText) {
		if text := softwareText(same[0]); text != "" {
			names := doc.Each(same, Variant)
			slices.Sort(names)
			add("software", doc.List(Clip(slices.Compact(names), mostNamed))+": "+text)
		}
	}
	for _, line := range DelayLines(r) {
		add("link", line)
	}
	add("build", buildText(e.Commit, e.Dirty))
	if layouts := layoutTexts(r); layouts != nil {
		add("layouts", strings.Join(layouts, ", "))
	}
	add("run", fmt.Sprintf("%s, %s, %s, data of seed %d, order of seed %d, %s of memory available",
		r.Started.UTC().Format("2006-01-02 15:04 UTC"), r.Elapsed.Round(100*time.Millisecond), p.Mode, p.Seed, p.OrderSeed, size(e.MemAvailable)))
	settings := doc.Plural(p.Blocks, "block") + " per cell"
	if p.Precision > 0 {
		settings += " at least, until the median round is known to ±" + doc.Percent(p.Precision)
	}
	warmup := doc.Plural(p.Warmup, "warm-up round") // in addition to the first two rounds of each block, which never count
	if p.Warmup > 0 && p.Rounds == 0 && p.WarmTime > 0 {
		warmup = fmt.Sprintf("at least %s and %v", warmup, p.WarmTime)
	}
	warmup += Unless(p.Settle == 0, fmt.Sprintf(", until each worker has made %d updates or 10 s are over,", p.Settle))
	settings += fmt.Sprintf("; %s; verify %s", warmup+Unless(p.Starts == 0, fmt.Sprintf(" and 0 to %d at random", p.Starts)), p.Verify)
	if p.Spread > 0 {
		settings += fmt.Sprintf("; spread over %v", p.Spread)
		if level := r.Level(); level != nil {
			settings += fmt.Sprintf(", in whose cycles all cells took %s of their medians", strings.Join(doc.Each(level, func(x float64) string { return fmt.Sprintf("%.3g", x) }), ", "))
		}
	}
	if p.Pin {
		settings += ", pinned"
	}
	if p.ServerCPUs > 0 {
		settings += ", the server on " + doc.Plural(p.ServerCPUs, "processor") + ", all other processes on the others"
	}
	add("settings", settings)
	if len(r.Command) > 0 {
		add("command", commandLine(r.Command))
	}
	return doc.Section{Title: "Environment", Tables: []doc.Table{t}}
}

// layoutTexts returns the number of layouts of each build.
func layoutTexts(r *metrics.Result) (all []string) {
	for _, p := range r.Programs {
		if len(p.Layouts) > 0 {
			all = append(all, fmt.Sprintf("%d of %s", len(p.Layouts), p.Name))
		}
	}
	return all
}

func buildText(commit string, dirty bool) string {
	return commit + Unless(!dirty, ", changed since")
}

// softwareText returns the versions that workers in Python, or a peer, run on.
func softwareText(c *metrics.Cell) string {
	return strings.Join(entries(c.Versions(), ": "), "; ")
}

func facts(e machine.Environment) string {
	nothing := machine.Environment{SocketBuffer: 1} // differs from e in every known property
	if e.Loops != "" {
		nothing.Loops = "unknown"
	}
	if e.AES != nil {
		nothing.AES = new(!*e.AES)
	}
	var all []string
	for _, d := range machine.Diff(nothing, e) {
		all = append(all, d.What+": "+d.Head)
	}
	return strings.Join(all, "; ")
}

func commandLine(command []string) string {
	line := path.Base(command[0])
	for _, word := range command[1:] {
		line += " " + Quoted(word)
	}
	return line
}

// pythonText returns the versions of Python, and of the modules on which its times depend most.
func pythonText(r *metrics.Result) (text string) {
	for _, name := range []string{"python", "numpy", "torch", "orjson"} {
		var all []string
		for _, c := range r.Cells {
			if v := c.Versions()[name]; v != "" && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
		if len(all) > 0 {
			text += ", " + strings.Replace(name, "python", "Python", 1) + " " + strings.Join(all, " and ")
		}
	}
	return text
}
