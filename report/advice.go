package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// AdviceOptions say how an advice is written, and what is not known to it.
type AdviceOptions struct {
	Text     doc.TextOptions
	Verify   string           // the command that verifies it
	Verified *analysis.Result // what was measured afterwards: predicted is printed against it; nil if nothing was
	Sources  []string         // files, or what was calibrated, in words
	Foreign  []string         // in what the machine differs from that of the results, if that was let pass
}

// WriteAdvice writes an advice for a terminal.
func WriteAdvice(w io.Writer, a *analysis.Advice, o AdviceOptions) error {
	if err := adviceDocument(a, o).Text(w, o.Text); err != nil || o.Verify == "" {
		return err
	}
	_, err := fmt.Fprintf(w, "Verify: %s\n", command(doc.Lines(o.Verify)))
	return err
}

// command returns a command in lines that a shell takes as one: each ends before a word,
// outside of quotes, and before the flag of a value.
func command(text string) string {
	const most = 80 - len("Verify: ") - len(` \`)
	line := ""
	var all []string
	words := strings.Split(text, " ")
	for i, word := range words {
		end := len(line) + len(" ") + len(word)
		if strings.HasPrefix(word, "--") && i+1 < len(words) && end+len(words[i+1]) <= most+len("Verify: ") {
			end += len(" ") + len(words[i+1])
		}
		if quoted := strings.Count(line, "'")%2 == 1; i > 0 && end > most && !quoted {
			all, line = append(all, line), "   "
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	return strings.Join(append(all, line), " \\\n")
}

// adviceDocument is what to use, the ranking, and what that rests on.
func adviceDocument(a *analysis.Advice, o AdviceOptions) doc.Document {
	s := doc.Section{Title: groupTitle(a.Group()), Lead: doc.Say(adviceSentence(a))}
	if len(a.Ranked) > 0 {
		s.Tables = []doc.Table{adviceTable(a)}
	}
	d := doc.Document{Sections: []doc.Section{s}}
	if o.Verified != nil {
		d.Sections = append(d.Sections, verifiedSection(a, a.Outcomes(o.Verified)))
	}
	d.Sections = append(d.Sections, doc.Section{Tail: basis(a, o)})
	return d
}

// variantOf names the transport of a cell that was not measured.
func variantOf(c bench.Cell) string { return variant(&analysis.Cell{Cell: &c}) }

func forecastName(f *analysis.Forecast) string { return variantOf(f.Cell) }

// adviceSentence says which transport to use, also where memory cannot be handed over,
// and what its round takes.
func adviceSentence(a *analysis.Advice) string {
	best := a.Best()
	if len(best) == 0 {
		return "No transport can be ranked."
	}
	text := "Predicted: " + predictedBest(best)
	if moving := a.BestMoving(); len(moving) > 0 && slices.ContainsFunc(best, func(f *analysis.Forecast) bool { return !f.Moves }) {
		text += " Of those that move bytes: " + predictedBest(moving)
	}
	return text
}

func predictedBest(best []*analysis.Forecast) string {
	takes := ""
	switch first := best[0]; {
	case finite(first.Round.Center) != nil:
		takes = ", " + doc.Bounded("s", first.Round) + " a round"
	case finite(first.Overhead.Center) != nil:
		takes = ", " + doc.Bounded("s", first.Overhead) + " of overhead a round"
	}
	if len(best) > 1 {
		return either(best, forecastName) + ": too close to call" + takes + "."
	}
	is := " is best"
	if !best[0].Overhead.Sure() {
		is = " looks best"
	}
	return forecastName(best[0]) + is + takes + "."
}

// The signs beside predictions, and what they mean.
const (
	handsOver    = "h"
	extrapolated = "e"
	doubtful     = "d"
)

// far is the error of a shape held out from which on nobody should rely on a fit.
const far = 0.5

// doubted reports whether a shape was held out that the fit is far off.
func doubted(f *analysis.Forecast) bool {
	if f.Fit == nil {
		return false
	}
	_, worst := f.Fit.Errors()
	return worst > far
}

// adviceTable is the ranking, with the control below a rule. Those that may be the fastest
// stand out.
func adviceTable(a *analysis.Advice) doc.Table {
	t := doc.Table{Columns: []doc.Column{{Name: "transport"}, {Name: "round", Unit: "s"}, {Name: "overhead", Unit: "s"}, {Name: "× best", Unit: "1", Bar: true}, {Name: "held out", Unit: "%"}, {Name: "marks"}}}
	best, over := a.Best(), false
	for _, f := range a.Ranked {
		var signs []string
		if !f.Moves {
			signs, over = append(signs, handsOver), true
		}
		if len(f.Extrapolated) > 0 {
			signs = append(signs, extrapolated)
		}
		if doubted(f) {
			signs = append(signs, doubtful)
		}
		row := doc.Row{Cells: []doc.Cell{doc.Words(forecastName(f)), predicted(f.Round), predicted(f.Overhead), number(f.Round.Center / a.Ranked[0].Round.Center), heldOut(f), doc.Words(strings.Join(signs, " "))}}
		if slices.Contains(best, f) {
			row.Tone = doc.Good
		}
		t.Rows = append(t.Rows, row)
	}
	if c := a.Control; c != nil {
		how := "predicted"
		if c.Measured {
			how = "measured"
		}
		if len(c.Extrapolated) > 0 {
			how += ", extrapolated in " + doc.List(c.Extrapolated)
		}
		t.Rows = append(t.Rows, doc.Row{Cells: []doc.Cell{doc.Words(forecastName(c)), predicted(c.Round)}, Note: how + ": the same work in one process", Rule: true, Tone: doc.Dim})
	}
	if over {
		t.Notes = append(t.Notes, handsOver+": hands memory over, so it works within one host only.")
	}
	if slices.ContainsFunc(a.Ranked, doubted) {
		t.Notes = append(t.Notes, doubtful+": doubtful: the overhead of a shape held out was off by more than half.")
	}
	if in := whose(a, func(f *analysis.Forecast) []string { return f.Extrapolated }); in != "" {
		t.Notes = append(t.Notes, extrapolated+": extrapolated beyond all that was measured, in "+in+".")
	}
	return t
}

// whose lists what holds of forecasts, with their names where it does not hold of all:
// client and turn; tensor (http and pickle).
func whose(a *analysis.Advice, of func(f *analysis.Forecast) []string) string {
	var things []string
	names := map[string][]string{}
	for _, f := range a.Ranked {
		for _, thing := range of(f) {
			if names[thing] == nil {
				things = append(things, thing)
			}
			names[thing] = append(names[thing], forecastName(f))
		}
	}
	var parts []string
	for _, same := range analysis.GroupBy(things, func(thing string) string { return doc.List(names[thing]) }) {
		text := doc.List(same)
		if len(names[same[0]]) < len(a.Ranked) {
			text += " (" + doc.List(names[same[0]]) + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// predicted is a cell with an estimate. How sure that is, is said once below the table.
func predicted(i stat.Interval) doc.Cell {
	if i.Blocks = 0; finite(i.Center) == nil {
		return doc.Cell{}
	}
	return doc.Estimate(i)
}

// number is a cell with a number that may not be known.
func number(x float64) doc.Cell {
	if finite(x) == nil {
		return doc.Cell{}
	}
	return doc.Number(x)
}

// heldOut is the median error of the shapes held out of a forecast's fit.
func heldOut(f *analysis.Forecast) doc.Cell {
	if f.Fit == nil {
		return doc.Cell{}
	}
	median, _ := f.Fit.Errors()
	return number(median)
}

// basis says what predictions rest on, and on what they do not.
func basis(a *analysis.Advice, o AdviceOptions) []doc.Paragraph {
	text := "Predicted from " + doc.Plural(a.Cells, "cell")
	if len(o.Sources) > 0 {
		text += " of " + doc.List(o.Sources)
	}
	lines := []string{text + "."}
	if a.Control == nil && len(a.Ranked) > 0 {
		lines = append(lines, "Ranked by overhead: nothing is known of the round without any, which "+analysis.Control+" shows.")
	}
	if median, worst := a.Errors(); !math.IsNaN(median) {
		lines = append(lines, fmt.Sprintf("On shapes held out of the fits, overhead was off by %s in the median and %s at worst.%s", doc.Percent(median), doc.Percent(worst), sureness(a)))
	}
	if a.NoCache {
		lines = append(lines, "Nobody knows how large the last-level cache is, so that nothing accounts for it.")
	}
	if len(a.LeftOut) > 0 {
		lines = append(lines, "Left out: "+leftOutText(a.LeftOut)+".")
	}
	for _, d := range a.Mixed {
		lines = append(lines, fmt.Sprintf("The results differ in %s: %s and %s.", d.What, d.Base, d.Head))
	}
	if features := whose(a, func(f *analysis.Forecast) []string {
		if f.Fit == nil {
			return nil
		}
		return f.Fit.Dropped()
	}); features != "" {
		lines = append(lines, "Dropped features, for want of shapes: "+features+".")
	}
	for _, same := range analysis.GroupBy(a.Refused, func(r analysis.Refusal) string { return r.Why.Error() }) {
		var names []string
		for _, r := range same {
			names = append(names, variantOf(r.Cell))
		}
		lines = append(lines, "Not ranked: "+doc.List(names)+": "+same[0].Why.Error()+".")
	}
	if a.Known > 0 {
		lines = append(lines, "The files have "+doc.Plural(a.Known, "cell")+" of this very work: ipcbench report shows what it took.")
	}
	all := doc.Say(lines...)
	if len(o.Foreign) > 0 {
		all = append(all, doc.Paragraph{Text: "Measured on another machine: " + strings.Join(o.Foreign, "; ") + ".", Tone: doc.Bad})
	}
	return all
}

// sureness says with which confidence the intervals of a ranking hold.
func sureness(a *analysis.Advice) string {
	least := 1.0
	for _, f := range a.Ranked {
		if least = min(least, f.Overhead.Confidence); f.Round.Known() {
			least = min(least, f.Round.Confidence)
		}
	}
	if least == 0 {
		return ""
	}
	return " Intervals come from that, and are " + doc.Percent(math.Floor(100*least)/100) + " sure."
}

// leftOutText says how many cells were left out, and why.
func leftOutText(all []analysis.LeftOut) string {
	var parts []string
	for _, l := range all {
		why := l.Why
		if l.Setting {
			why = "another " + why
		}
		parts = append(parts, doc.Plural(l.Cells, "cell")+" ("+why+")")
	}
	return doc.List(parts)
}

// verifiedSection is predicted against measured.
func verifiedSection(a *analysis.Advice, all []analysis.Outcome) doc.Section {
	s := doc.Section{Title: "Predicted, and measured afterwards"}
	if len(all) == 0 {
		s.Lead = doc.Say("None of the ranked transports was measured.")
		return s
	}
	overhead := doc.Table{Caption: "overhead", Columns: []doc.Column{{Name: "transport"}, {Name: "predicted", Unit: "s"}, {Name: "measured", Unit: "s", Same: true}, errorColumn()}}
	round := doc.Table{Caption: "round", Columns: []doc.Column{{Name: "transport"}, {Name: "predicted", Unit: "s"}, {Name: "measured", Unit: "s", Same: true}, {Name: "intervals meet"}}}
	for _, of := range all {
		name, meet := doc.Words(forecastName(of.Forecast)), "no"
		if of.Meet {
			meet = "yes"
		}
		overhead.Add(name, predicted(of.Overhead), doc.Estimate(of.Cell.Of("overhead")), number(of.Error))
		round.Add(name, predicted(of.Round), doc.Estimate(of.Cell.Of("round")), doc.Words(meet))
	}
	s.Tables = []doc.Table{overhead, round}
	if regret := a.Regret(all); regret == 0 {
		s.Tail = doc.Say("No regret: nothing that was measured is shown to be faster than " + forecastName(all[0].Forecast) + ".")
	} else if !math.IsNaN(regret) {
		s.Tail = doc.Say(fmt.Sprintf("Regret: with %s a round takes %s longer than with the fastest that was measured.", forecastName(all[0].Forecast), doc.Percent(regret)))
	}
	return s
}

// errorColumn is by how much predictions of overhead are off.
func errorColumn() doc.Column {
	return doc.Column{Name: "error", Unit: "%", Help: "by how much the predicted overhead is off, as a share of the measured one; of 5 % of the round, or of four times the half-width of its interval, where that is more"}
}
