package report

import (
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/internal/profile/capture"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// profiles say where the CPU time of each transport goes, where memory is allocated,
// and what the profiles cost.
func profiles(r *metrics.Result) doc.Section {
	s := doc.Section{Title: "Where the CPU time goes", Tables: slices.Concat(
		groupTables(r, "CPU time by phase, ", phaseSplits()...),
		functionTables(r, "The heaviest functions of the heaviest phase, ", capture.CPU, doc.Column{Name: "of the phase", Unit: "%"}, heaviestFunctions),
		functionTables(r, "Where memory is allocated, ", capture.Allocs, doc.Column{Name: "allocated ÷ delivered bytes", Unit: "1"}, allocationSites),
		groupTables(r, "A round while it is profiled ÷ a round that is not, ", slowdowns()...))}
	if len(s.Tables) == 0 {
		return doc.Section{}
	}
	s.Tail = doc.Say("Profiles are taken in blocks of their own, whose times do not count.",
		"A sample belongs to the innermost phase that was open; samples of a library's own goroutines are given a phase by a table of rules. "+
			"Training and folding are the work itself, the same with every transport.")
	return s
}

// slowdowns are what taking the profiles costs: a column for each kind.
func slowdowns() []field {
	var all []field
	for _, k := range capture.Kinds() {
		all = append(all, field{doc.Column{Name: k.Name, Unit: "1"}, func(c *metrics.Cell) doc.Cell { return doc.Estimate(c.Slowdown(k.Name)) }})
	}
	return all
}

// shareOf is a cell with the share that part is of all, or an empty one.
func shareOf(part, all int64) doc.Cell {
	if all == 0 {
		return doc.Cell{}
	}
	return doc.Number(float64(part) / float64(all))
}

// phaseSplits are CPU time by phase.
func phaseSplits() []field {
	of := func(name, unit, help string, cell func(c *metrics.Cell, s *result.Summary) doc.Cell) field {
		return field{doc.Column{Name: name, Unit: unit, Help: help, Wrap: unit == ""}, func(c *metrics.Cell) doc.Cell {
			if s := c.Summary(capture.CPU); s != nil {
				return cell(c, s)
			}
			return doc.Cell{}
		}}
	}
	return []field{
		of("CPU", "s/GB", "", func(_ *metrics.Cell, s *result.Summary) doc.Cell { return shareOf(s.Total, s.Delivered) }), // ns for a byte are s for a GB,
		of("server", "%", "the server's part of the CPU time", func(_ *metrics.Cell, s *result.Summary) doc.Cell {
			server := int64(0)
			for _, split := range s.Phases {
				server += split.Server
			}
			return doc.Number(s.Share(server))
		}),
		of("sampled", "%", "the samples' part of the CPU time that the kernel counted", func(c *metrics.Cell, _ *result.Summary) doc.Cell {
			if part, known := c.Sampled(c.Profiled(capture.CPU)); known {
				return doc.Number(part)
			}
			return doc.Cell{}
		}),
		of("attributed", "%", "the part of the samples in transport code that has a phase", func(_ *metrics.Cell, s *result.Summary) doc.Cell {
			return shareOf(s.Attributed, s.Transport)
		}),
		of("phases", "", "", func(_ *metrics.Cell, s *result.Summary) doc.Cell {
			var parts []string
			for _, split := range s.Phases {
				if x := s.Share(split.Flat); x >= 0.005 {
					parts = append(parts, split.Title()+" "+doc.Percent(x))
				}
			}
			return doc.Words(strings.Join(parts, ", "))
		}),
	}
}

// functionTables are the heaviest functions of profiles of a kind: a table for each
// group that has any. of takes them from a summary, with the total that the column
// part is a share of.
func functionTables(r *metrics.Result, caption, kind string, part doc.Column, of func(s *result.Summary) (phase string, functions []result.Function, whole int64)) []doc.Table {
	var all []doc.Table
	for _, cells := range r.Groups() {
		t := doc.Table{Caption: caption + groupTitle(cells[0].Group()), Keys: 3, Columns: []doc.Column{
			{Name: "transport"}, {Name: "phase"}, {Name: "function"}, part, {Name: "of all", Unit: "%"}, {Name: "with what it calls", Unit: "%"},
		}}
		for _, c := range cells {
			s := c.Summary(kind)
			if s == nil {
				continue
			}
			phase, functions, whole := of(s)
			names := [2]string{c.Label(), phase}
			for _, f := range functions {
				if f.Flat == 0 || whole == 0 {
					break
				}
				t.Add(doc.Words(names[0]), doc.Words(names[1]), doc.Words(shortened(f.Name)), shareOf(f.Flat, whole), doc.Number(s.Share(f.Flat)), doc.Number(s.Share(f.Cum)))
				names = [2]string{}
			}
		}
		all = filled(all, t)
	}
	return all
}

// heaviestFunctions are those of the phase that takes most CPU time besides the work.
func heaviestFunctions(s *result.Summary) (phase string, functions []result.Function, whole int64) {
	if split := metrics.HeaviestPhase(s); split != nil {
		return split.Name, split.Functions, split.Flat
	}
	return "", nil, 0
}

// allocationSites are where the cell's processes allocate most.
func allocationSites(s *result.Summary) (phase string, functions []result.Function, whole int64) {
	return "", s.Functions, s.Delivered
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
func copyTables(r *metrics.Result) doc.Section {
	of := func(column doc.Column, cell func(k metrics.Copies) doc.Cell) field {
		return field{column, func(c *metrics.Cell) doc.Cell {
			if k, known := c.Copies(); known {
				return cell(k)
			}
			return doc.Cell{}
		}}
	}
	return doc.Section{Title: "Copies per byte", Tables: groupTables(r, "",
		of(median("copies", "by our code").Column, func(k metrics.Copies) doc.Cell { return doc.Estimate(k.Ours) }),
		of(median("kernel_copies", "by the kernel").Column, func(k metrics.Copies) doc.Cell { return doc.Estimate(k.Kernel) }),
		of(doc.Column{Name: "by memmove", Unit: "1", Help: "an estimate: the CPU time in memmove × the floor copy; what libraries copy is in it"}, func(k metrics.Copies) doc.Cell {
			if k.Memmove < 0 {
				return doc.Cell{}
			}
			return doc.Number(k.Memmove)
		}),
		nonZero(median("copied_bytes", "bytes by our code")),
		of(doc.Column{Name: "note", Wrap: true}, func(k metrics.Copies) doc.Cell { return doc.Words(copyNote(k)) }))}
}

// copyNote says what the numbers mean together.
func copyNote(k metrics.Copies) string {
	var notes []string
	if k.Zero {
		notes = append(notes, "zero-copy")
	}
	if k.InLibraries > 0 {
		notes = append(notes, doc.Quantity("1", k.InLibraries)+" in libraries")
	}
	if k.InCache {
		notes = append(notes, "more copies than memmove had time for: they were made in cache")
	}
	return strings.Join(notes, "; ")
}
