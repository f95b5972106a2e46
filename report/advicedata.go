package report

import (
	"io"

	"ipcbench/bench"
	"ipcbench/machine"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// An adviceAnswer is what the format json writes of an advice.
type adviceAnswer struct {
	Answer int    `json:"answer"` // the version
	Kind   string `json:"kind"`   // advice
	workload
	Tensors    int                  `json:"model_tensors"`
	Bytes      int64                `json:"model_bytes"`
	Text       string               `json:"text"`
	Best       []string             `json:"best"`        // variants that may be the fastest
	BestMoving []string             `json:"best_moving"` // likewise, of those that move bytes
	Transports []answerForecast     `json:"transports"`  // the fastest first
	Control    *answerControl       `json:"control"`     // null if nothing is known of it
	Refused    []answerRefusal      `json:"refused"`
	HeldOut    *float64             `json:"held_out_error"` // the median of all errors held out
	WorstOut   *float64             `json:"held_out_worst"`
	Cells      int                  `json:"cells"` // that predictions rest on
	LeftOut    []answerLeftOut      `json:"left_out"`
	Mixed      []machine.Difference `json:"mixed,omitempty"` // in which the results differ
	Sources    []string             `json:"sources"`
	Foreign    []string             `json:"foreign,omitempty"` // in what the machine differs from that of the results
	Verify     string               `json:"verify,omitempty"`  // the command that verifies it
	Regret     *float64             `json:"regret,omitempty"`  // of the first one that was measured afterwards; a share
}

// An answerForecast is what a round is predicted to take.
type answerForecast struct {
	Transport    string         `json:"transport"`
	Variant      string         `json:"variant"`
	MovesBytes   bool           `json:"moves_bytes"`
	Round        *estimate      `json:"round"`
	Overhead     *estimate      `json:"overhead"`
	Extrapolated []string       `json:"extrapolated"`   // in what the work lies beyond all that was measured
	HeldOut      *float64       `json:"held_out_error"` // the median
	Worst        *float64       `json:"held_out_worst"`
	Shapes       int            `json:"shapes"` // that were held out in turn
	Terms        []answerTerm   `json:"terms"`
	Dropped      []string       `json:"dropped,omitempty"` // features for which there are too few shapes
	Measured     *answerOutcome `json:"measured,omitempty"`
}

// An answerControl is the round of the work alone.
type answerControl struct {
	Round        *estimate `json:"round"`
	Measured     bool      `json:"measured"` // else it is predicted
	Extrapolated []string  `json:"extrapolated"`
}

// An answerTerm is a feature with what one unit of it costs.
type answerTerm struct {
	Feature string   `json:"feature"`
	Cost    *float64 `json:"cost"` // seconds a unit
}

// An answerOutcome is what was measured afterwards.
type answerOutcome struct {
	Round    *estimate `json:"round"`
	Overhead *estimate `json:"overhead"`
	Error    *float64  `json:"error"`          // of the predicted overhead; a share
	Meet     bool      `json:"intervals_meet"` // those of the predicted and the measured round have something in common
}

type answerRefusal struct {
	Transport string `json:"transport"`
	Variant   string `json:"variant"`
	Why       string `json:"why"`
}

type answerLeftOut struct {
	Why     string `json:"why"`
	Setting bool   `json:"setting,omitempty"` // they differ in it
	Cells   int    `json:"cells"`
}

// WriteAdviceJSON writes an advice for other programs.
func WriteAdviceJSON(w io.Writer, a *analysis.Advice, o AdviceOptions) error {
	median, worst := a.Errors()
	text := adviceAnswer{
		Answer: answerVersion, Kind: "advice", workload: workloadOf(a.Group()), Tensors: a.Asked.Model.Tensors, Bytes: a.Asked.Model.Bytes, Text: adviceSentence(a), Best: labels(a.Best()), BestMoving: labels(a.BestMoving()),
		Transports: []answerForecast{}, Refused: []answerRefusal{}, HeldOut: finite(median), WorstOut: finite(worst), Cells: a.Cells, LeftOut: []answerLeftOut{}, Mixed: a.Mixed, Sources: nonNil(o.Sources), Foreign: o.Foreign, Verify: o.Verify,
	}
	var outcomes []analysis.Outcome
	if o.Verified != nil {
		outcomes = a.Outcomes(o.Verified)
		text.Regret = finite(a.Regret(outcomes))
	}
	for _, f := range a.Ranked {
		text.Transports = append(text.Transports, answerForecastOf(f, outcomes))
	}
	if c := a.Control; c != nil {
		text.Control = &answerControl{estimated("s", c.Round), c.Measured, nonNil(c.Extrapolated)}
	}
	for _, r := range a.Refused {
		text.Refused = append(text.Refused, answerRefusal{r.Cell.Transport, labelOf(r.Cell), r.Why.Error()})
	}
	for _, l := range a.LeftOut {
		text.LeftOut = append(text.LeftOut, answerLeftOut{l.Why, l.Setting, l.Cells})
	}
	return doc.WriteJSON(w, text, "\t")
}

func answerForecastOf(f *analysis.Forecast, outcomes []analysis.Outcome) answerForecast {
	a := answerForecast{Transport: f.Cell.Transport, Variant: labelOf(f.Cell), MovesBytes: f.Moves, Round: estimated("s", f.Round), Overhead: estimated("s", f.Overhead), Extrapolated: nonNil(f.Extrapolated), Terms: []answerTerm{}}
	if f.Fit != nil {
		median, worst := f.Fit.Errors()
		a.HeldOut, a.Worst, a.Dropped = finite(median), finite(worst), f.Fit.Dropped()
		a.Shapes = f.Fit.Shapes()
		for _, t := range f.Fit.Terms() {
			a.Terms = append(a.Terms, answerTerm{t.Feature, finite(t.Cost)})
		}
	}
	for _, of := range outcomes {
		if of.Forecast == f {
			a.Measured = &answerOutcome{estimated("s", of.Cell.Of("round")), estimated("s", of.Cell.Of("overhead")), finite(of.Error), of.Meet}
		}
	}
	return a
}

// labelOf is the variant of a cell that was not measured, as scripts have it.
func labelOf(c bench.Cell) string { return analysis.InLanguage(c.Variant, c.Language) }

func labels(all []*analysis.Forecast) []string {
	names := []string{}
	for _, f := range all {
		names = append(names, labelOf(f.Cell))
	}
	return names
}
