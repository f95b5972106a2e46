package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// findingText writes a finding as a sentence.
func findingText(f analysis.Finding) string {
	number := func(name string) float64 { return f.Value(name).Center }
	write := func(unit, name string) string { return doc.Quantity(unit, number(name)) }
	percent := func(name string) string { return doc.Percent(number(name)) }
	switch f.Rule {
	case analysis.RaceDetector:
		return "built with the race detector: no time means anything"
	case analysis.Partial:
		return "the run ended early (" + f.Subject + "): cells and blocks are missing"
	case analysis.SpoiledMachine:
		return "doctor: " + f.Subject
	case analysis.SmallSocketBuffer:
		return fmt.Sprintf("sockets hold %s, and transports ask for %s: transports that move bytes through sockets are slower. To change it: sysctl net.core.wmem_max=%.0f",
			write("B", "granted"), write("B", "wanted"), number("wanted"))
	case analysis.StalePeak:
		return "the server's peak RSS is not known: each block must reset it, and that takes write access to /proc/self/clear_refs"
	case analysis.NotMeasured:
		return f.Subject
	case analysis.FasterThanFloor:
		return fmt.Sprintf("moves bytes at %s, faster than the floor %s (%s): a bug in the measurement", doc.Bounded("B/s", f.Value("bandwidth")), f.Subject, write("B/s", "floor"))
	case analysis.ShorterThanParts:
		return fmt.Sprintf("block %.0f: its rounds took %s, but each worker trained for %s in them", number("block"), write("s", "rounds"), write("s", "training"))
	case analysis.FasterThanControl:
		return fmt.Sprintf("faster than %s by %s a round: the control is in doubt", analysis.Control, doc.Bounded("s", f.Value("overhead").Map(func(s float64) float64 { return -s })))
	case analysis.NoControl:
		return "no cell of " + analysis.Control + " did the same work: the overhead is not known"
	case analysis.SlowControl:
		return fmt.Sprintf("takes %s the time of the same work called directly, and at most %g× is allowed: all overheads are too small by the difference", doc.Times(f.Value("ratio")), number("limit"))
	case analysis.SlowControlBeside:
		return fmt.Sprintf("%s slower than the same work called directly: overheads as small as that of %s (%s) are too small by this time",
			write("s", "excess"), f.Subject, write("s", "overhead"))
	case analysis.NotProved:
		if f.Subject != "" {
			return "the data of " + f.Measured.Variant + " was not proved: " + f.Subject
		}
		return "its data was not proved"
	case analysis.RecorderCost:
		return fmt.Sprintf("recording took %s of its rounds, %s each", percent("share"), write("s", "each"))
	case analysis.StolenTime:
		return "other virtual machines took " + percent("share") + " of the processors' time"
	case analysis.FilesInMemory:
		return "its files are in memory (" + f.Subject + "), and not on a disk: choose another directory with the setting dir=DIR"
	case analysis.Unencrypted:
		return "its server listened off the loopback interface without TLS (--insecure-network): what crossed a network could be read and changed on the way"
	case analysis.Unproven:
		return "its server listened off the loopback interface and asked workers for no certificate (--insecure-network): whoever had the session's secret could take part"
	case analysis.CodecRefuses:
		return "the codec does not take some tensors, which travel as they are: " + f.Subject
	case analysis.CodecNeverPays:
		if number("saved") <= 0 {
			return "the codec makes nothing smaller: it never pays"
		}
		return "the codec saves " + write("B", "saved") + " a round and takes longer than any link would for them: it never pays"
	case analysis.FullVersions:
		return "timed rounds hold full versions, " + write("1", "models") + " a round: these are in its times, and not in its ratios"
	case analysis.OtherDensity:
		return fmt.Sprintf("%s of the words of %s changed, and %s were expected", percent("found"), f.Subject, percent("expected"))
	case analysis.DroppedPackets:
		return fmt.Sprintf("the link dropped %.0f packets, which were sent again: its queues are too short", number("packets"))
	case analysis.OneMachine:
		if number("hosts") < number("all") {
			return f.Subject + " are one machine: they share its processors and its memory"
		}
		return f.Subject + " are one machine: a rig, and no result about hosts or the network between them"
	case analysis.UnequalHosts:
		return "lanes are unequal, as their hosts differ: " + f.Subject
	case analysis.OtherTraining:
		return fmt.Sprintf("a training took %s, and %s with %s: overhead and bandwidth are not known, and transfer ranks", write("s", "training"), write("s", "control"), analysis.Control)
	case analysis.SharedLayouts:
		return fmt.Sprintf("up to %s of a cell share %s of %s: where a linker has put functions may look like a change. For a layout a block, name as many as blocks with --against and --layouts (go build -ldflags=-randlayout=N)",
			doc.Plural(int(number("blocks")), "block"), doc.Plural(int(number("layouts")), "layout"), f.Subject)
	}
	panic("report: no sentence for rule " + f.Rule)
}

// FindingLine writes a finding as one line, in which nothing acts on a terminal.
func FindingLine(f analysis.Finding) string { return findingLine(f, f.Cell) }

func findingLine(f analysis.Finding, of string) string {
	text := string(f.Severity) + ": "
	if of != "" {
		text += of + ": "
	}
	return doc.Visible(text + findingText(f))
}

// findings are all findings of a result, errors first.
func findings(r *analysis.Result) doc.Section {
	return doc.Section{Title: "Findings", Lead: append(errorLines(r), otherLines(r, math.MaxInt)...)}
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
