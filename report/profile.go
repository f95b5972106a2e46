package report

import (
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/profile"
	"ipcbench/profile/capture"
	"ipcbench/report/analysis"
)

// profileTables say where the time of each transport goes.
func profileTables(v *analysis.Result) section {
	s := section{title: "Where the time goes"}
	for _, cells := range v.Groups() {
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
func phaseSplits(cells []*analysis.Cell) table {
	t := table{
		caption: "CPU time by phase, " + groupTitle(cells[0].Group()),
		header:  []string{"transport", "s/GB", "server", "sampled", "attributed", "slowdown", "phases"}, words: 1, endnote: true,
	}
	for _, c := range cells {
		p := c.Profiled(capture.CPU)
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
		t.add(c.Variant, perGBText(s, s.Total), share(s.Share(server)), sampledText(c, p), attributed(s), slowdownText(c.Slowdown(p)), strings.Join(parts, ", "))
	}
	t.trim()
	return t
}

func sampledText(c *analysis.Cell, p *bench.Profile) string {
	part, known := c.Sampled(p)
	if !known {
		return none
	}
	return share(part)
}

func slowdownText(i stat.Interval) string {
	if i.Confidence == 0 { // of one block against another
		return none
	}
	return change(i)
}

// slowdowns says for each kind of profile in how many cells a slowdown by it is
// shown, how much at most, and how sure the bounds of all slowdowns are.
func slowdowns(v *analysis.Result) string {
	var texts []string
	least := 1.0
	for _, s := range v.Slowdowns() {
		least = min(least, s.Confidence)
		if s.Shown == 0 {
			texts = append(texts, fmt.Sprintf("%s: none shown in %s", s.Kind, plural(s.Cells, "cell")))
			continue
		}
		texts = append(texts, fmt.Sprintf("%s in %d of %s, by up to %s", s.Kind, s.Shown, plural(s.Cells, "cell"), change(s.Worst)))
	}
	text := strings.Join(texts, "; ")
	if least < 1 {
		text += "; bounds hold with at least " + share(least)
	}
	return text
}

func attributed(s *profile.Summary) string {
	if s.Transport == 0 {
		return none
	}
	return share(float64(s.Attributed) / float64(s.Transport))
}

// heaviestPhases are the functions of the phase of each transport that takes most
// CPU time, besides the work.
func heaviestPhases(cells []*analysis.Cell) table {
	t := table{
		caption: "The heaviest functions of the heaviest phase besides the work, " + groupTitle(cells[0].Group()),
		header:  []string{"transport", "phase", "function", "of the phase", "with what it calls", "of all"}, words: 3,
	}
	for _, c := range cells {
		s := c.Summary(capture.CPU)
		if s == nil {
			continue
		}
		split := analysis.HeaviestPhase(s)
		if split == nil {
			continue
		}
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
func allocationSites(cells []*analysis.Cell) table {
	t := table{
		caption: "Where memory is allocated, " + groupTitle(cells[0].Group()),
		header:  []string{"transport", "function", "bytes per byte delivered", "of all"}, words: 2,
	}
	for _, c := range cells {
		s := c.Summary(capture.Allocs)
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
func copyTables(v *analysis.Result) section {
	s := section{title: "Copies per byte"}
	for _, cells := range v.Groups() {
		t := table{
			caption: groupTitle(cells[0].Group()),
			header:  []string{"transport", "by our code", "by the kernel", memmoveColumn, "note"}, words: 1, endnote: true,
		}
		for _, c := range cells {
			k, known := c.Copies()
			if !known {
				continue
			}
			text := none
			if k.Memmove >= 0 {
				text = copies(k.Memmove)
			}
			t.add(c.Variant, copies(k.Ours.Center), copies(k.Kernel.Center), text, copyNote(k))
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

// copyNote says what the numbers mean together.
func copyNote(k analysis.Copies) string {
	var notes []string
	if k.Zero {
		notes = append(notes, "zero-copy")
	}
	if k.InLibraries > 0 {
		notes = append(notes, copies(k.InLibraries)+" in libraries")
	}
	if k.InCache {
		notes = append(notes, "counted more than memmove can have done: copies in cache")
	}
	return strings.Join(notes, "; ")
}
