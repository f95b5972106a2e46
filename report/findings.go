package report

import (
	"fmt"

	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// findingText writes a finding as a sentence.
func findingText(f analysis.Finding) string {
	number := func(name string) float64 { return f.Value(name).Center }
	switch f.Rule {
	case analysis.RaceDetector:
		return "built with the race detector: no time means anything"
	case analysis.Partial:
		return partialText(f.Subject)
	case analysis.SmallSocketBuffer:
		return fmt.Sprintf("sockets hold %s and not %s, which slows down what moves bytes through them: sysctl net.core.wmem_max=%.0f",
			size(int64(number("granted"))), size(int64(number("wanted"))), number("wanted"))
	case analysis.StalePeak:
		return "there is no peak RSS of the server: the kernel did not let it begin anew with each block, which takes write access to /proc/self/clear_refs"
	case analysis.NotMeasured:
		return f.Subject
	case analysis.FasterThanFloor:
		b := f.Value("bandwidth")
		return fmt.Sprintf("moves bytes at %s (%s to %s), more than the %s of the floor %s: a bug in the measurement",
			rate(b.Center), rate(b.Low), rate(b.High), rate(number("floor")), f.Subject)
	case analysis.ShorterThanParts:
		return fmt.Sprintf("block %.0f: its rounds took %s, but each worker trained for %s in them", number("block"), duration(number("rounds")), duration(number("training")))
	case analysis.FasterThanControl:
		o := f.Value("overhead")
		return fmt.Sprintf("faster than %s by %s a round (%s to %s): the control is in doubt", analysis.Control, duration(-o.Center), duration(-o.High), duration(-o.Low))
	case analysis.NoControl:
		return "no cell of " + analysis.Control + " did the same work: there is no overhead"
	case analysis.SlowControl:
		return fmt.Sprintf("takes %s the time of the same work called directly, more than %g: all overheads are too small by that",
			times(f.Value("ratio")), number("limit"))
	case analysis.SlowControlBeside:
		excess := f.Value("excess")
		return fmt.Sprintf("takes %s (%s to %s) longer than the same work called directly, more than a tenth of the overhead of %s, %s: small overheads are too small by that",
			duration(excess.Center), duration(excess.Low), duration(excess.High), f.Subject, duration(number("overhead")))
	case analysis.NotProved:
		return "its data was not proved"
	case analysis.RecorderCost:
		return fmt.Sprintf("recording took %s of its rounds, %s each", share(number("share")), duration(number("each")))
	case analysis.StolenTime:
		return "other virtual machines took " + share(number("share")) + " of the processors' time"
	case analysis.FilesInMemory:
		return "its files are in memory (" + f.Subject + "), where they cost no disk but room: dir=DIR takes another directory"
	}
	panic("report: no sentence for rule " + f.Rule)
}

// FindingLine writes a finding as one line.
func FindingLine(f analysis.Finding) string {
	text := string(f.Severity) + ": "
	if f.Cell != "" {
		text += f.Cell + ": "
	}
	return doc.Visible(text + findingText(f))
}

func findingsSection(v *analysis.Result) section {
	s := section{title: "Findings"}
	for _, f := range v.Findings() {
		s.lead = append(s.lead, FindingLine(f))
	}
	return s
}

// partialText says that a result is not complete, or nothing.
func partialText(why string) string {
	if why == "" {
		return ""
	}
	return "The run ended early (" + why + "): cells and blocks are missing."
}
