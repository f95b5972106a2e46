package report

import (
	"math"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// predictions are the overhead of cells beside what those of all other shapes predict for
// them: how far advice for a model that was not measured may be off.
func predictions(r *analysis.Result) doc.Section {
	s := doc.Section{Title: "Predicted, as if it had not been measured"}
	errors := doc.Table{Columns: []doc.Column{{Name: "transport"}, {Name: "cells", Unit: "1"}, {Name: "shapes", Unit: "1"}, {Name: "median error", Unit: "%"}, {Name: "worst", Unit: "%"}}}
	var rows [][]told
	var whys []string
	without := map[string][]string{} // names, by why there is no fit
	for _, f := range r.Families() {
		if f.Fit == nil {
			why := f.Why.Error()
			if len(f.LeftOut) > 0 {
				why += "; left out: " + leftOutText(f.LeftOut)
			}
			if without[why] == nil {
				whys = append(whys, why)
			}
			without[why] = append(without[why], familyName(f))
			continue
		}
		shown := slices.DeleteFunc(f.Foretold(), func(of analysis.Foretold) bool { return !slices.Contains(r.Cells, of.Cell) })
		if len(shown) == 0 {
			continue
		}
		median, worst := analysis.ForetoldErrors(shown)
		errors.Add(doc.Words(familyName(f)), doc.Number(float64(len(shown))), doc.Number(float64(f.Fit.Shapes())), number(median), number(worst))
		var of []told
		for _, c := range shown {
			of = append(of, told{f, c})
		}
		rows = append(rows, of)
		if len(s.Plots) < mostOpen {
			s.Plots = drawn(s.Plots, foretoldPlot(f, shown))
		}
	}
	for _, why := range whys {
		s.Tail = append(s.Tail, doc.Say("No prediction of "+doc.List(without[why])+": "+why+".")...)
	}
	if len(rows) > 0 {
		if !slices.ContainsFunc(rows, func(of []told) bool { return len(of) > 1 }) {
			rows = [][]told{slices.Concat(rows...)} // of one cell each: the error of each is in its row
		} else {
			s.Tables = append(s.Tables, errors)
		}
		for _, of := range rows {
			s.Tables = append(s.Tables, foretoldTable(of))
		}
		s.Lead = doc.Say("Each overhead beside what the cells of all other shapes predict for it: no number is predicted from itself.")
	}
	return s
}

// familyName says of what a family is made.
func familyName(f analysis.Family) string { return variant(f.First) + wordsOfWork(f.First.Group()) }

// told is a cell of a family, with what is foretold for it.
type told struct {
	family analysis.Family
	analysis.Foretold
}

// foretoldTable has a row for each cell: of one family, whose name is the caption, or of
// several, whose names are the first column.
func foretoldTable(rows []told) doc.Table {
	overhead := interval("overhead", "measured")
	overhead.Help = ""
	t := doc.Table{Keys: 3, Columns: []doc.Column{{Name: "model"}, {Name: "workers", Unit: "1"}, {Name: "clients", Unit: "1"}, overhead.Column, {Name: "predicted", Unit: "s", Same: true}, errorColumn()}}
	first := rows[0].family.First
	several := slices.ContainsFunc(rows, func(r told) bool { return r.family.First != first })
	if several {
		t.Keys, t.Columns = 4, slices.Insert(t.Columns, 0, doc.Column{Name: "transport"})
	} else {
		t.Caption = familyName(rows[0].family)
	}
	untold := false
	for i, r := range rows {
		c := r.Cell
		untold = untold || math.IsNaN(r.Predicted)
		values := []doc.Cell{doc.Words(c.Model.Label()), doc.Number(float64(c.Workers)), doc.Number(float64(c.Clients)), overhead.of(c), number(r.Predicted), number(r.Error)}
		left := ""
		if several {
			values, left = slices.Insert(values, 0, doc.Words(familyName(r.family))), " of "+familyName(r.family)
		}
		t.Add(values...)
		if len(r.family.LeftOut) > 0 && (several || i == 0) {
			t.Notes = append(t.Notes, "Left out"+left+": "+leftOutText(r.family.LeftOut)+".")
		}
	}
	if untold {
		t.Notes = append(t.Notes, "—: the other shapes cannot tell.")
	}
	return t
}

// foretoldPlot shows measured and predicted side by side.
func foretoldPlot(f analysis.Family, shown []analysis.Foretold) doc.Plot {
	p := doc.Plot{Caption: "Overhead of " + familyName(f), Kind: doc.Dots, Value: doc.Axis{Name: "overhead", Unit: "s"}, Series: []doc.Series{{Name: "measured", Dim: true}, {Name: "predicted"}}}
	var values []float64
	for _, of := range shown {
		if math.IsNaN(of.Predicted) {
			continue
		}
		measured := of.Cell.Of("overhead")
		name := strings.Join([]string{of.Cell.Model.Label(), load(of.Cell.Group())}, ", ")
		values = append(values, measured.Center, of.Predicted)
		p.Series[0].Points = append(p.Series[0].Points, doc.Point{Name: name, Value: measured})
		p.Series[1].Points = append(p.Series[1].Points, doc.Point{Name: name, Value: stat.Interval{Center: of.Predicted, Low: of.Predicted, High: of.Predicted}})
	}
	p.Value.Log = logarithmic(values)
	return p
}
