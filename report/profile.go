package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/phase"
	"ipcbench/profile"
	"ipcbench/profile/capture"
	"ipcbench/report/doc"
)

// profiled returns what was profiled of the cell, or nil.
func (c *cell) profiled(kind string) *bench.Profile {
	i := slices.IndexFunc(c.Profiles, func(p bench.Profile) bool { return p.Kind == kind })
	if i < 0 {
		return nil
	}
	return &c.Profiles[i]
}

// summary returns the summary of the cell's profile of a kind, or nil.
func (c *cell) summary(kind string) *profile.Summary {
	if p := c.profiled(kind); p != nil {
		return p.Summary
	}
	return nil
}

// profileTables say where the time of each transport goes.
func profileTables(v *view) section {
	s := section{title: "Where the time goes"}
	for _, cells := range v.groups() {
		if t := phaseSplits(cells); len(t.rows) > 0 {
			s.tables = append(s.tables, t)
		}
		if t := heaviestPhases(cells); len(t.rows) > 0 {
			s.tables = append(s.tables, t)
		}
		if t := allocationSites(cells); len(t.rows) > 0 {
			s.tables = append(s.tables, t)
		}
	}
	if len(s.tables) == 0 {
		return section{}
	}
	s.tail = []string{
		"Profiles are taken in blocks of their own, whose times do not count. How they slowed down rounds: " + slowdowns(v) + ".",
		"A sample belongs to the innermost phase that was open, or that the table of rules gives to a library's own goroutine; " +
			"the share of samples in transport code for which there is one stands under attributed, and the samples' share of the CPU time that the kernel counted under sampled. Training and folding are work, which every transport has alike.",
	}
	return s
}

// phaseSplits is CPU time by phase.
func phaseSplits(cells []*cell) table {
	t := table{
		caption: "CPU time by phase, " + cells[0].group().title(),
		header:  []string{"transport", "s/GB", "server", "sampled", "attributed", "slowdown", "phases"}, words: 1, endnote: true,
	}
	for _, c := range cells {
		p := c.profiled(capture.CPU)
		if p == nil || p.Summary == nil {
			continue
		}
		s := p.Summary
		var parts []string
		server := int64(0)
		for _, split := range s.Phases {
			server += split.Server
			if x := s.Share(split.Flat); x >= 0.005 {
				parts = append(parts, split.Title()+" "+share(x))
			}
		}
		t.add(c.Variant, perGBText(s, s.Total), share(s.Share(server)), c.sampled(p), attributed(s), slowdownText(c.slowdown(p)), strings.Join(parts, ", "))
	}
	t.trim()
	return t
}

func attributed(s *profile.Summary) string {
	if s.Transport == 0 {
		return none
	}
	return share(float64(s.Attributed) / float64(s.Transport))
}

// heaviestPhases are the functions of the phase of each transport that takes most
// CPU time, besides the work.
func heaviestPhases(cells []*cell) table {
	t := table{
		caption: "The heaviest functions of the heaviest phase besides the work, " + cells[0].group().title(),
		header:  []string{"transport", "phase", "function", "of the phase", "with what it calls", "of all"}, words: 3,
	}
	for _, c := range cells {
		s := c.summary(capture.CPU)
		if s == nil {
			continue
		}
		i := slices.IndexFunc(s.Phases, func(p profile.Split) bool {
			return !p.Rest && p.Flat > 0 && p.Name != phase.Train.String() && p.Name != phase.Fold.String()
		})
		if i < 0 || s.Share(s.Phases[i].Flat) < 0.01 {
			continue
		}
		split := s.Phases[i]
		for j, f := range split.Functions {
			if f.Flat == 0 {
				break
			}
			names := []string{"", ""}
			if j == 0 {
				names = []string{c.Variant, split.Name}
			}
			t.add(names[0], names[1], shortened(f.Name), share(ratio(f.Flat, split.Flat)), share(ratio(f.Cum, split.Flat)), share(s.Share(f.Flat)))
		}
	}
	return t
}

// allocationSites are where the cell's processes allocate most.
func allocationSites(cells []*cell) table {
	t := table{
		caption: "Where memory is allocated, " + cells[0].group().title(),
		header:  []string{"transport", "function", "bytes per byte delivered", "of all"}, words: 2,
	}
	for _, c := range cells {
		s := c.summary(capture.Allocs)
		if s == nil || s.Total == 0 || s.Delivered == 0 {
			continue
		}
		for j, f := range s.Functions {
			if f.Flat == 0 {
				break
			}
			name := ""
			if j == 0 {
				name = c.Variant
			}
			t.add(name, shortened(f.Name), plain.number(ratio(f.Flat, s.Delivered)), share(s.Share(f.Flat)))
		}
	}
	return t
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// shortened leaves out the folders of the functions' packages.
func shortened(names string) string {
	parts := strings.Split(names, " in ")
	for i, name := range parts {
		if front, _, ok := strings.Cut(name, "["); ok { // of a generic one, whose types have folders too
			name = front + "[...]"
		}
		parts[i] = lastOf(name)
	}
	return strings.Join(parts, " in ")
}

// perGBText writes a value per delivered GB.
func perGBText(s *profile.Summary, value int64) string {
	x, ok := s.PerGB(value)
	if !ok {
		return none
	}
	return amount(s.Unit, x)
}

func amount(unit string, x float64) string {
	if unit == "B" {
		return size(int64(x))
	}
	return plain.number(x)
}

// valueText writes a value of a profile.
func valueText(s *profile.Summary, value int64) string {
	if s.Unit == "B" {
		return size(value)
	}
	return duration(float64(value) / 1e9)
}

const memmoveColumn = "by memmove, estimated"

// copyTables say how often a byte is copied on its way.
func copyTables(v *view) section {
	s := section{title: "Copies per byte"}
	for _, cells := range v.groups() {
		t := table{
			caption: cells[0].group().title(),
			header:  []string{"transport", "by our code", "by the kernel", memmoveColumn, "note"}, words: 1, endnote: true,
		}
		for _, c := range cells {
			ours, kernel := c.of("copies"), c.of("kernel_copies")
			if !ours.Known() || !kernel.Known() {
				continue // half the truth would look like more of it
			}
			estimate := c.memmoves()
			text := none
			if estimate >= 0 {
				text = copies(estimate)
			}
			t.add(c.Variant, copies(ours.Center), copies(kernel.Center), text, copyNote(ours, kernel, estimate))
		}
		if len(t.rows) > 0 {
			t.trim()
			s.tables = append(s.tables, t)
		}
	}
	if len(s.tables) == 0 {
		return section{}
	}
	text := "Bytes copied over payload bytes delivered, server and workers together. By our code: tensor bytes that pass our own copy points; what libraries copy is not in it. " +
		"By the kernel: what read and write and their like have moved; in and out again are two."
	if slices.ContainsFunc(s.tables, func(t table) bool { return slices.Contains(t.header, memmoveColumn) }) {
		text += " By memmove: its share of the CPU profile, times the copy floor; it sees what libraries copy too."
	} else {
		text += " A run with --profile cpu estimates what libraries copy."
	}
	s.tail = []string{text}
	return s
}

func copies(x float64) string { return fixed(x, 2) }

// uncopied is how much of the bytes may be copied if none of the tensors is: jobs,
// receipts, and the harness's own reads of /proc.
const uncopied = 0.02

// within25 is how well the estimate of copies is expected to agree with the count.
const within25 = 0.25

// copyNote says what the numbers mean together.
func copyNote(ours, kernel stat.Interval, estimate float64) string {
	var notes []string
	if ours.Center < uncopied && kernel.Center < uncopied && (estimate < 0 || estimate < uncopied) {
		notes = append(notes, "zero-copy")
	}
	if over := estimate - ours.Center; estimate >= 0 && over > within25*max(ours.Center, 1) {
		notes = append(notes, copies(over)+" in libraries")
	} else if estimate >= 0 && -over > within25*ours.Center {
		notes = append(notes, "counted more than memmove can have done: copies in cache")
	}
	return strings.Join(notes, "; ")
}

// memmoves estimates the copies per byte from the CPU time in memmove and the
// speed of copying, or returns -1 if one of them is not known.
func (c *cell) memmoves() float64 {
	s := c.summary(capture.CPU)
	_, floor := c.floor(floorCopy)
	if s == nil || s.Delivered == 0 || !floor.Known() {
		return -1
	}
	return float64(s.Memmove) / 1e9 * floor.Center / float64(s.Delivered)
}

// copyMetrics are the copies per byte that were counted.
func copyMetrics() []Metric {
	payload := func(c *cell, b *bench.Block) float64 { return float64(c.Payload()) * float64(len(b.Round)) }
	return []Metric{
		{Name: "copies", Unit: "1", Better: lower, Help: "copies of a payload byte by our own code, in user space",
			samples: each(func(c *cell, b *bench.Block) (float64, bool) {
				d := payload(c, b)
				return float64(b.Counts()[phase.Copied]) / d, d > 0
			})},
		{Name: "kernel_copies", Unit: "1", Better: lower, Help: "bytes through read, write and their like, over payload bytes: in and out again are two copies",
			samples: sum(func(p *bench.Process) (float64, bool) {
				if p.Usage.IO == nil {
					return 0, false
				}
				return number(p.Usage.IO.ReadBytes + p.Usage.IO.WrittenBytes)
			}, payload)},
	}
}

// WriteProfile writes a profile by phase, with the functions of each phase.
func WriteProfile(w io.Writer, markdown bool, s *profile.Summary) error {
	head := fmt.Sprintf("%s: %s", s.Title(), valueText(s, s.Total))
	if s.Rounds > 0 {
		head += fmt.Sprintf(" in %s of %s", plural(s.Rounds, "round"), plural(s.Blocks, "block"))
	}
	if s.Delivered > 0 {
		head += ", " + size(s.Delivered) + " delivered"
	}
	unit := "s/GB"
	if s.Unit == "B" {
		unit = "per GB"
	}
	t := table{
		header: []string{"phase", "function", unit, "share", "with calls, " + unit, "share", "server"}, words: 2,
	}
	for _, split := range s.Phases {
		server := none
		if split.Flat > 0 {
			server = share(ratio(split.Server, split.Flat))
		}
		t.add(split.Title(), "", perGBText(s, split.Flat), share(s.Share(split.Flat)), perGBText(s, split.Cum), share(s.Share(split.Cum)), server)
		for _, f := range split.Functions {
			if f.Flat > 0 {
				t.add("", shortened(f.Name), perGBText(s, f.Flat), share(s.Share(f.Flat)), perGBText(s, f.Cum), share(s.Share(f.Cum)), "")
			}
		}
	}
	sec := section{title: head, tables: []table{t}}
	if s.Transport > 0 {
		sec.tail = append(sec.tail, fmt.Sprintf("%s of it in transport code, of which %s has a phase.", share(s.Share(s.Transport)), attributed(s)))
	}
	if text := fewSamples(s); text != "" {
		sec.tail = append(sec.tail, text)
	}
	return sec.write(w, markdown)
}

// samplePeriod is the CPU time between two samples, in ns: 100 a second.
const samplePeriod = 10e6

// enoughSamples are those in which a tenth can be told from a fifth.
const enoughSamples = 100

// fewSamples says that a CPU profile is too short to tell shares, or nothing.
func fewSamples(s *profile.Summary) string {
	n := int(s.Total / samplePeriod)
	if s.Kind != capture.CPU || n >= enoughSamples {
		return ""
	}
	return fmt.Sprintf("Only %s, one each 10 ms of CPU time: a line of a few percent is one or two of them, or chance. A run with a longer --time has more.", plural(n, "sample"))
}

// WriteDifference writes what two profiles spend per delivered GB, by phase and by
// the n functions that differ most.
func WriteDifference(w io.Writer, markdown bool, d *profile.Difference, n int) error {
	row := func(t *table, c profile.Change) {
		sign, delta := "+", c.B-c.A
		if delta <= 0 {
			sign, delta = "-", -delta
		}
		if delta == 0 {
			sign = ""
		}
		t.add(c.Name, amount(d.Unit, c.A), amount(d.Unit, c.B), sign+amount(d.Unit, delta), signed((c.B-c.A)/d.Total.A)+" %")
	}
	unit := "s/GB"
	if d.Unit == "B" {
		unit = "per GB"
	}
	tables := []table{}
	for _, of := range []struct {
		what    string
		changes []profile.Change
	}{{"phase", d.Phases}, {"function", d.Functions[:min(n, len(d.Functions))]}} {
		t := table{header: []string{of.what, "A, " + unit, "B, " + unit, "B - A", "of A's total"}, words: 1}
		for _, c := range of.changes {
			c.Name = shortened(c.Name)
			row(&t, c)
		}
		all := d.Total
		all.Name = "all"
		row(&t, all)
		tables = append(tables, t)
	}
	s := section{title: "A: " + d.A.Title() + "; B: " + d.B.Title(), tables: tables}
	return s.write(w, markdown)
}

func (s section) write(w io.Writer, markdown bool) error {
	if !markdown {
		return s.text(w)
	}
	if _, err := fmt.Fprintf(w, "\n### %s\n", doc.EscapeParagraph(s.title)); err != nil {
		return err
	}
	return s.markdown(w)
}
