package report

import (
	"fmt"
	"io"

	"ipcbench/profile"
	"ipcbench/profile/capture"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// WriteProfile writes a profile by phase, with the functions of each phase: as
// Markdown, or as text for the terminal that o describes.
func WriteProfile(w io.Writer, markdown bool, o doc.TextOptions, s *profile.Summary) error {
	total, what := doc.Quantity("s", float64(s.Total)/1e9), "CPU"
	if s.Unit == "B" {
		total, what = size(s.Total), "bytes"
	}
	shown, suffix, _ := delivered(s.Unit)
	head := s.Title() + ": " + total
	if s.Rounds > 0 {
		head += fmt.Sprintf(" in %s of %s", doc.Plural(s.Rounds, "round"), doc.Plural(s.Blocks, "block"))
	}
	if s.Delivered > 0 {
		head += ", " + size(s.Delivered) + " delivered"
	}
	t := doc.Table{Keys: 2, Columns: []doc.Column{
		{Name: "phase"}, {Name: "function", Wrap: true}, {Name: what + suffix, Unit: shown}, {Name: "share", Unit: "%", Help: "of all that was spent"},
		{Name: "with calls", Unit: "%", Help: "the share together with what was called from there"}, {Name: "server", Unit: "%", Help: "the server's part of the phase"},
	}}
	for _, split := range s.Phases {
		t.Rows = append(t.Rows, doc.Row{Tone: doc.Strong, Cells: []doc.Cell{
			doc.Words(split.Title()), {}, deliveredCell(s, split.Flat), doc.Number(s.Share(split.Flat)), doc.Number(s.Share(split.Cum)), shareOf(split.Server, split.Flat)}})
		for _, f := range split.Functions {
			if f.Flat > 0 {
				t.Add(doc.Cell{}, doc.Words(shortened(f.Name)), deliveredCell(s, f.Flat), doc.Number(s.Share(f.Flat)), doc.Number(s.Share(f.Cum)))
			}
		}
	}
	section := doc.Section{Tables: []doc.Table{t}}
	if s.Transport > 0 {
		section.Tail = doc.Say(fmt.Sprintf("%s is in transport code; %s of that has a phase.", doc.Percent(s.Share(s.Transport)), doc.Percent(float64(s.Attributed)/float64(s.Transport))))
	}
	if n := analysis.SampleCount(s); s.Kind == capture.CPU && n < analysis.EnoughSamples {
		section.Tail = append(section.Tail, doc.Say(fmt.Sprintf("Only %s, one for each 10 ms of CPU time: a share of a few percent is one or two samples and may be chance. Run with a longer --time for more.", doc.Plural(n, "sample")))...)
	}
	return written(w, markdown, o, doc.Document{Title: head, Sections: []doc.Section{section}})
}

// WriteDifference writes what two profiles spend per delivered GB, by phase and by
// the n functions that differ most.
func WriteDifference(w io.Writer, markdown bool, o doc.TextOptions, d *profile.Difference, n int) error {
	var section doc.Section
	unit, suffix, per := delivered(d.Unit)
	for _, of := range []struct {
		what    string
		changes []profile.Change
	}{{"phase", d.Phases}, {"function", d.Functions[:min(n, len(d.Functions))]}} {
		t := doc.Table{Columns: []doc.Column{{Name: of.what, Wrap: true}, {Name: "A" + suffix, Unit: unit}, {Name: "B" + suffix, Unit: unit}, {Name: "change, % of all of A"}}}
		row := func(name string, c profile.Change, rule bool) {
			t.Rows = append(t.Rows, doc.Row{Rule: rule, Cells: []doc.Cell{
				doc.Words(name), doc.Number(c.A / per), doc.Number(c.B / per), doc.Words(doc.Signed((c.B - c.A) / d.Total.A))}})
		}
		for _, c := range of.changes {
			row(shortened(c.Name), c, false)
		}
		row("all", d.Total, true)
		section.Tables = append(section.Tables, t)
	}
	return written(w, markdown, o, doc.Document{Title: "A: " + d.A.Title() + "; B: " + d.B.Title(), Sections: []doc.Section{section}})
}

func written(w io.Writer, markdown bool, o doc.TextOptions, d doc.Document) error {
	if markdown {
		return d.Markdown(w)
	}
	return d.Text(w, o)
}

// delivered says how what a profile counts is shown per delivered GB: the unit,
// what the names of columns have behind them, and what a value is divided by. Bytes
// per byte are a number.
func delivered(unit string) (shown, suffix string, per float64) {
	if unit == "B" {
		return "1", " ÷ delivered bytes", 1e9
	}
	return "s/GB", "", 1
}

func deliveredCell(s *profile.Summary, value int64) doc.Cell {
	x, ok := s.PerGB(value)
	if !ok {
		return doc.Cell{}
	}
	_, _, per := delivered(s.Unit)
	return doc.Number(x / per)
}
