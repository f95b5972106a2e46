package report

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"time"

	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// A comparisonAnswer is what the format json writes of a comparison.
type comparisonAnswer struct {
	Answer      int                `json:"answer"` // the version
	Kind        string             `json:"kind"`   // comparison
	Base        answerSource       `json:"base"`
	Head        answerSource       `json:"head"`
	Interleaved bool               `json:"interleaved"` // blocks of both took turns
	Alpha       float64            `json:"alpha"`       // the probability of any false claim
	Verdict     comparisonVerdict  `json:"verdict"`
	Gate        *answerGate        `json:"gate,omitempty"` // with --fail-above
	Differences []answerDifference `json:"differences"`    // besides the build: they may explain a change
	Findings    []answerFinding    `json:"findings"`       // about either
	OnlyBase    []string           `json:"only_base"`      // cells that the head lacks
	OnlyHead    []string           `json:"only_head"`
	Rows        []answerRow        `json:"rows"`
}

type answerSource struct {
	Commit  string     `json:"commit,omitempty"`
	Dirty   bool       `json:"dirty,omitempty"`   // with changes that are not in the commit
	Started *time.Time `json:"started,omitempty"` // of a separate run
}

type comparisonVerdict struct {
	Worse    int    `json:"worse"` // rows
	Better   int    `json:"better"`
	NotShown int    `json:"no_difference_shown"`
	Text     string `json:"text"`
}

type answerGate struct {
	FailAbove float64      `json:"fail_above"`
	Failed    bool         `json:"failed"`
	Reasons   []string     `json:"reasons"` // why it failed, and what it could not see
	Canary    *canaryTrial `json:"canary,omitempty"`
}

type canaryTrial struct {
	Slowdown float64 `json:"slowdown"` // of the slow copy
	Works    bool    `json:"works"`    // the gate passed the copy that is the same and failed the slow one
}

type answerDifference struct {
	machine.Difference
	Cells []string `json:"cells,omitempty"`
}

// An answerRow is one metric of a cell in both.
type answerRow struct {
	workload
	Variant    string    `json:"variant"`
	Metric     string    `json:"metric"`
	Better     string    `json:"better,omitempty"` // lower or higher
	Base       *estimate `json:"base"`
	Head       *estimate `json:"head"`
	Ratio      *estimate `json:"ratio"`                // head over base
	P          float64   `json:"p_corrected"`          // Mann-Whitney over blocks, corrected by Holm's method for the number of rows
	Change     string    `json:"change"`               // worse, better or no difference shown
	Visible    *float64  `json:"would_show,omitempty"` // the smallest ratio that four of five such runs would have shown
	FailedGate bool      `json:"failed_gate,omitempty"`
}

// writeComparisonJSON writes the comparison, and what a gate made of it unless g
// is nil.
func writeComparisonJSON(w io.Writer, c *analysis.Comparison, g *Gate) error {
	worse, better := len(c.Worse()), len(c.Better())
	a := comparisonAnswer{
		Answer: answerVersion, Kind: "comparison", Base: answerSourceOf(c.Base), Head: answerSourceOf(c.Head), Interleaved: c.Interleaved, Alpha: c.Alpha,
		Verdict:     comparisonVerdict{worse, better, len(c.Rows) - worse - better, comparisonSentence(c)},
		Differences: []answerDifference{}, Findings: answerFindings(c.Findings), OnlyBase: nonNil(c.OnlyBase), OnlyHead: nonNil(c.OnlyHead), Rows: []answerRow{},
	}
	if g != nil {
		a.Gate = &answerGate{FailAbove: g.FailAbove, Failed: g.Failed, Reasons: nonNil(g.Reasons())}
		if g.Trial != nil {
			a.Gate.Canary = &canaryTrial{g.Trial.Slowdown, g.Trial.Works()}
		}
	}
	for _, d := range c.Differences {
		a.Differences = append(a.Differences, answerDifference{d.Difference, d.Cells})
	}
	for _, r := range c.Rows {
		a.Rows = append(a.Rows, answerRowOf(r, g))
	}
	return doc.WriteJSON(w, a, "\t")
}

func answerRowOf(r analysis.Row, g *Gate) answerRow {
	group := r.Cell.Group()
	group.Build = "" // of both
	change := "no difference shown"
	switch {
	case r.Significant && r.Worse() > 1:
		change = "worse"
	case r.Significant:
		change = "better"
	}
	return answerRow{
		workload: workloadOf(group), Variant: r.Cell.Label(), Metric: r.Metric.Name, Better: r.Metric.Better,
		Base: estimated(r.Metric.Unit, r.Base), Head: estimated(r.Metric.Unit, r.Head), Ratio: estimated("1", r.Ratio), P: r.P, Change: change, Visible: finite(r.Detectable),
		FailedGate: g != nil && slices.ContainsFunc(g.Worse, r.Same),
	}
}

func nonNil(all []string) []string { return append([]string{}, all...) }

func answerSourceOf(s analysis.Source) answerSource {
	a := answerSource{Commit: s.Commit, Dirty: s.Dirty}
	if !s.Started.IsZero() {
		a.Started = &s.Started
	}
	return a
}

// comparisonHeader is read by others' scripts: columns are added at its end only.
var comparisonHeader = []string{
	"transport", "model", "up", "workers", "clients", "metric", "unit", "base", "base_low", "base_high", "head", "head_low", "head_high",
	"ratio", "ratio_low", "ratio_high", "confidence", "p_corrected", "change", "would_show", "base_blocks", "head_blocks", "base_commit", "head_commit",
	"fail_above", "failed", "setup",
}

// writeComparisonCSV writes one row for each cell and metric. confidence is that
// of the ratio, head over base; would_show is the smallest ratio that four of five
// such runs would have shown. With a gate, failed is 1 in the rows for which it
// failed. setup holds what the cell does differently from the usual one, as key=value;key=value. What is unknown is empty.
func writeComparisonCSV(w io.Writer, c *analysis.Comparison, g *Gate) error {
	out := csv.NewWriter(w)
	_ = out.Write(comparisonHeader) // errors are kept until Flush
	for _, r := range c.Rows {
		a := answerRowOf(r, g)
		row := []string{doc.Literal(a.Variant), doc.Literal(a.Model), doc.Literal(a.Up), strconv.Itoa(a.Workers), strconv.Itoa(a.Clients), a.Metric, r.Metric.Unit}
		for _, i := range []stat.Interval{r.Base, r.Head, r.Ratio} {
			row = append(row, csvInterval(i)...)
		}
		visible, above, failed := "", "", ""
		if a.Visible != nil {
			visible = csvNumber(*a.Visible)
		}
		if g != nil {
			above, failed = csvNumber(g.FailAbove), csvNumber(oneIf(a.FailedGate))
		}
		_ = out.Write(append(row, csvNumber(r.Ratio.Confidence), csvNumber(r.P), a.Change, visible, strconv.Itoa(r.Base.Blocks), strconv.Itoa(r.Head.Blocks),
			csvSource(c.Base), csvSource(c.Head), above, failed, doc.Literal(pairs(unusual(a.Setup)))))
	}
	out.Flush()
	return out.Error()
}

// csvSource names what was measured, for other programs.
func csvSource(s analysis.Source) string {
	return doc.Literal(fullCommit(cmp.Or(s.Build, s.Commit), s.Dirty))
}
