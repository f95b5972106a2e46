package report

import (
	"strings"

	"ipcbench/profile"
	"ipcbench/profile/capture"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// profiles say where the CPU time of each transport goes, and where memory is
// allocated.
func profiles(r *analysis.Result) doc.Section {
	s := doc.Section{Title: "Where the CPU time goes"}
	for _, cells := range r.Groups() {
		for _, t := range []doc.Table{phaseSplits(cells), heaviestFunctions(cells), allocationSites(cells), slowdowns(cells)} {
			if len(t.Rows) > 0 {
				t.Caption += ", " + groupTitle(cells[0].Group())
				s.Tables = append(s.Tables, t)
			}
		}
	}
	if len(s.Tables) == 0 {
		return doc.Section{}
	}
	s.Tail = doc.Say("Profiles are taken in blocks of their own, whose times do not count.",
		"A sample belongs to the innermost phase that was open; samples of a library's own goroutines belong to the phase that a table of rules gives them. "+
			"Training and folding are work, which every transport has alike.")
	return s
}

// slowdowns is what taking the profiles costs: a column for each kind.
func slowdowns(cells []*analysis.Cell) doc.Table {
	t := doc.Table{Caption: "A round while it is profiled ÷ a round that is not", Columns: []doc.Column{{Name: "transport"}}}
	for _, k := range capture.Kinds() {
		t.Columns = append(t.Columns, doc.Column{Name: k.Name, Unit: "1"})
	}
	for _, c := range cells {
		row := []doc.Cell{doc.Words(c.Variant)}
		for _, k := range capture.Kinds() {
			row = append(row, doc.Estimate(c.Slowdown(k.Name)))
		}
		if len(c.Profiles) > 0 {
			t.Add(row...)
		}
	}
	return t
}

// shareOf is a cell with the share that part is of all, or an empty one.
func shareOf(part, all int64) doc.Cell {
	if all == 0 {
		return doc.Cell{}
	}
	return doc.Number(float64(part) / float64(all))
}

// phaseSplits is CPU time by phase.
func phaseSplits(cells []*analysis.Cell) doc.Table {
	t := doc.Table{Caption: "CPU time by phase", Columns: []doc.Column{
		{Name: "transport"}, {Name: "CPU", Unit: "s/GB"}, {Name: "server", Unit: "%", Help: "the server's part of the CPU time"},
		{Name: "sampled", Unit: "%", Help: "the samples' part of the CPU time that the kernel counted"},
		{Name: "attributed", Unit: "%", Help: "the part of the samples in transport code that has a phase"},
		{Name: "phases", Wrap: true},
	}}
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
				parts = append(parts, split.Title()+" "+doc.Percent(x))
			}
		}
		sampled := doc.Cell{}
		if part, known := c.Sampled(p); known {
			sampled = doc.Number(part)
		}
		t.Add(doc.Words(c.Variant), perGB(s, s.Total), doc.Number(s.Share(server)), sampled, shareOf(s.Attributed, s.Transport), doc.Words(strings.Join(parts, ", ")))
	}
	return t
}

// perGB is a cell with a value of a profile per delivered GB.
func perGB(s *profile.Summary, value int64) doc.Cell {
	x, ok := s.PerGB(value)
	if !ok {
		return doc.Cell{}
	}
	return doc.Number(x)
}

// heaviestFunctions are those of the phase of each transport that takes most CPU
// time besides the work.
func heaviestFunctions(cells []*analysis.Cell) doc.Table {
	t := doc.Table{Caption: "The heaviest functions of the heaviest phase", Keys: 3, Columns: []doc.Column{
		{Name: "transport"}, {Name: "phase"}, {Name: "function"}, {Name: "of the phase", Unit: "%"}, {Name: "with what it calls", Unit: "%"}, {Name: "of all", Unit: "%"},
	}}
	for _, c := range cells {
		s := c.Summary(capture.CPU)
		if s == nil {
			continue
		}
		split := analysis.HeaviestPhase(s)
		if split == nil {
			continue
		}
		names := [2]string{c.Variant, split.Name}
		for _, f := range split.Functions {
			if f.Flat == 0 {
				break
			}
			t.Add(doc.Words(names[0]), doc.Words(names[1]), doc.Words(shortened(f.Name)), shareOf(f.Flat, split.Flat), shareOf(f.Cum, split.Flat), doc.Number(s.Share(f.Flat)))
			names = [2]string{}
		}
	}
	return t
}

// allocationSites are where the cell's processes allocate most.
func allocationSites(cells []*analysis.Cell) doc.Table {
	t := doc.Table{Caption: "Where memory is allocated", Keys: 2, Columns: []doc.Column{
		{Name: "transport"}, {Name: "function"}, {Name: "allocated ÷ delivered bytes", Unit: "1"}, {Name: "of all", Unit: "%"},
	}}
	for _, c := range cells {
		s := c.Summary(capture.Allocs)
		if s == nil || s.Total == 0 || s.Delivered == 0 {
			continue
		}
		name := c.Variant
		for _, f := range s.Functions {
			if f.Flat == 0 {
				break
			}
			t.Add(doc.Words(name), doc.Words(shortened(f.Name)), shareOf(f.Flat, s.Delivered), doc.Number(s.Share(f.Flat)))
			name = ""
		}
	}
	return t
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

// copyTables say how often a byte is copied on its way.
func copyTables(r *analysis.Result) doc.Section {
	s := doc.Section{Title: "Copies per byte"}
	ours, kernel := interval("copies", "").Column, interval("kernel_copies", "").Column
	ours.Name, kernel.Name = "by our code", "by the kernel"
	for _, cells := range r.Groups() {
		t := doc.Table{Caption: groupTitle(cells[0].Group()), Columns: []doc.Column{{Name: "transport"}, ours, kernel,
			{Name: "by memmove", Unit: "1", Help: "an estimate: the CPU time in memmove × the floor copy; what libraries copy is in it"}, {Name: "note", Wrap: true}}}
		for _, c := range cells {
			k, known := c.Copies()
			if !known {
				continue
			}
			memmove := doc.Cell{}
			if k.Memmove >= 0 {
				memmove = doc.Number(k.Memmove)
			}
			t.Add(doc.Words(c.Variant), center(k.Ours), center(k.Kernel), memmove, doc.Words(copyNote(k)))
		}
		if len(t.Rows) > 0 {
			s.Tables = append(s.Tables, t)
		}
	}
	return s
}

// copyNote says what the numbers mean together.
func copyNote(k analysis.Copies) string {
	var notes []string
	if k.Zero {
		notes = append(notes, "zero-copy")
	}
	if k.InLibraries > 0 {
		notes = append(notes, doc.Quantity("1", k.InLibraries)+" in libraries")
	}
	if k.InCache {
		notes = append(notes, "counted more than memmove can have done: copies in cache")
	}
	return strings.Join(notes, "; ")
}
