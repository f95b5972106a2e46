package table

import (
	"path"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/internal/profile/capture"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// Profiles is the view of profiles: CPU time by phase, the heaviest functions, allocations,
// and the cost of profiling.
func Profiles(r *metrics.Result) doc.Section {
	split := columns("-profile_cpu_per_gb=CPU | profile_server%=server | profile_sampled%=sampled | profile_attributed%=attributed")
	var slowdowns []field
	for _, k := range capture.Kinds() {
		slowdowns = append(slowdowns, Column("±-slowdown_"+k.Name+"="+k.Name))
	}
	s := doc.Section{Title: "Where the CPU time goes", Tables: slices.Concat(
		groupTables(r, "CPU time by phase, ", append(split, splitPhases)...),
		functionTables(r, "The heaviest functions of the heaviest phase, ", capture.CPU,
			doc.Column{Name: "of the phase", Unit: "%"}, metrics.HeaviestPhase),
		functionTables(r, "Where memory is allocated, ", capture.Allocs,
			doc.Column{Name: "allocated ÷ delivered bytes", Unit: "1"}, allocations),
		groupTables(r, "A profiled round ÷ a round that is not profiled, ", slowdowns...))}
	if s.Empty() {
		return doc.Section{}
	}
	s.Tail = doc.Say("Profiles are taken in separate blocks, whose times do not count.",
		"A sample belongs to the innermost open phase. A table of rules assigns samples of a library's own goroutines to phases. "+
			"Training and folding are the same with every transport.")
	return s
}

// splitPhases lists the phases with at least half a percent of the CPU time.
var splitPhases = field{doc.Column{Name: "phases", Wrap: true}, func(c *metrics.Cell) any {
	s, parts := c.Summary(capture.CPU), []string{}
	if s == nil {
		return nil
	}
	for _, split := range s.Phases {
		if x := s.Share(split.Flat); x >= 0.005 {
			parts = append(parts, split.Title()+" "+doc.Percent(x))
		}
	}
	return strings.Join(parts, ", ")
}}

// functionTables returns a table for each group with the heaviest functions in profiles of a
// kind. of selects the functions from a summary, and the total that the column part is a share
// of.
func functionTables(r *metrics.Result, caption, kind string, part doc.Column, of func(s *result.Summary) result.Split) (all []doc.Table) {
	for _, cells := range r.Groups() {
		t := doc.Table{Caption: caption + GroupTitle(cells[0].Group()), Keys: 3, Columns: []doc.Column{
			{Name: "transport"}, {Name: "phase"}, {Name: "function"}, part, {Name: "of all", Unit: "%"}, {Name: "with what it calls", Unit: "%"},
		}}
		for _, c := range cells {
			s := c.Summary(kind)
			if s == nil {
				continue
			}
			split, label := of(s), c.Label()
			phase := split.Name
			for _, f := range split.Functions {
				if f.Flat == 0 || split.Flat == 0 {
					break
				}
				t.Add(label, phase, shortened(f.Name), float64(f.Flat)/float64(split.Flat), s.Share(f.Flat),
					s.Share(f.Cum))
				label, phase = "", ""
			}
		}
		all = append(all, t)
	}
	return all
}

// allocations returns the functions of all phases, with the bytes delivered as their total.
func allocations(s *result.Summary) result.Split {
	return result.Split{Flat: s.Delivered, Functions: s.Functions}
}

// shortened removes the folders of packages from the names of functions.
func shortened(names string) string {
	parts := strings.Split(names, " in ")
	for i, name := range parts {
		if front, _, ok := strings.Cut(name, "["); ok { // type arguments have folders, too
			name = front + "[...]"
		}
		parts[i] = path.Base(name)
	}
	return strings.Join(parts, " in ")
}

// CopyTables is the view of copies per delivered byte.
func CopyTables(r *metrics.Result) doc.Section {
	fields := columns("copies=declared by our code | kernel_copies=by the kernel | memmove_copies=by memmove | !copied_bytes=bytes declared by our code")
	ours := fields[0].of
	fields[0].of = func(c *metrics.Cell) any {
		if !c.Of("kernel_copies").Known() { // without the kernel's copies, the number would mislead
			return nil
		}
		return ours(c)
	}
	note := words("note", copyNote)
	note.Wrap = true
	return doc.Section{Title: "Copies per byte", Tables: groupTables(r, "", append(fields, note)...)}
}

const (
	// uncopied is the share of bytes that may be copied if no tensor is: jobs, receipts, and
	// ipcbench's own reads of /proc.
	uncopied = 0.02
	// copyTolerance is the accepted error of the estimate of copies, as a share of the count.
	copyTolerance = 0.25
)

// copyNote interprets the numbers of copies together. Unknown numbers imply nothing.
func copyNote(c *metrics.Cell) string {
	ours, kernel, memmove := c.Of("copies").Center, c.Of("kernel_copies").Center, c.Of("memmove_copies").Center
	var notes []string
	if ours < uncopied && kernel < uncopied && !(memmove >= uncopied) {
		notes = append(notes, "zero-copy")
	}
	if more := memmove - ours; more > copyTolerance*max(ours, 1) {
		notes = append(notes, doc.Quantity("1", more)+" in libraries")
	} else if -more > copyTolerance*ours {
		notes = append(notes, "more copies than memmove had time for: they were made in cache")
	}
	return strings.Join(notes, "; ")
}
