package report

import (
	"math"
	"slices"
	"strings"

	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// FindingLine writes a finding as one line, in which nothing acts on a terminal.
func FindingLine(f analysis.Finding) string { return findingLine(f, f.Cell) }

func findingLine(f analysis.Finding, of string) string {
	text := string(f.Severity) + ": "
	if of != "" {
		text += of + ": "
	}
	return doc.Visible(text + f.Text)
}

// findings are all findings of a result, errors first.
func findings(r *analysis.Result) doc.Section {
	return doc.Section{Title: "Findings", Lead: append(errorLines(r), otherLines(r, math.MaxInt)...), Tables: []doc.Table{findingTable(r.Findings())}}
}

// errorLines are the findings for which a result must not be used.
func errorLines(r *analysis.Result) []doc.Paragraph {
	return findingLines(r, func(f analysis.Finding) bool { return f.Severity == analysis.Error }, doc.Bad)
}

// otherLines are the first of the other findings, and how many more there are.
func otherLines(r *analysis.Result, most int) []doc.Paragraph {
	lines := findingLines(r, func(f analysis.Finding) bool { return f.Severity != analysis.Error }, doc.Plain)
	if left := len(lines) - most; left > 0 {
		lines = append(lines[:most], doc.Paragraph{Text: doc.Plural(left, "more finding") + ": see the view findings."})
	}
	return lines
}

// findingLines are some of the findings. What holds of several cells is one
// line.
func findingLines(r *analysis.Result, wanted func(analysis.Finding) bool, tone doc.Tone) []doc.Paragraph {
	all := slices.DeleteFunc(r.Findings(), func(f analysis.Finding) bool { return !wanted(f) })
	var lines []doc.Paragraph
	for _, same := range analysis.GroupBy(all, func(f analysis.Finding) string { return findingLine(f, "") }) {
		of := same[0].Cell
		if len(same) > 1 {
			of = strings.TrimPrefix(commonEnd(same)+", ", ", ") + doc.Plural(len(same), "cell")
		}
		lines = append(lines, doc.Paragraph{Text: findingLine(same[0], of), Tone: tone})
	}
	return lines
}

// commonEnd is what the names of all cells end with, in words: cnn workers=1.
func commonEnd(all []analysis.Finding) string {
	end := strings.Fields(all[0].Cell)
	for _, f := range all[1:] {
		for len(end) > 0 && !strings.HasSuffix(" "+f.Cell, " "+strings.Join(end, " ")) {
			end = end[1:]
		}
	}
	return strings.Join(end, " ")
}
