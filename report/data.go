package report

import (
	"io"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// answerVersion is the version of the format json. It changes if a key is removed or changes
// its meaning, not if keys are added.
const answerVersion = 5

// An answerHead has the first keys of the format json. The tables of all views that have a key
// follow. It has no samples. Keys that the result file also has hold the same values.
type answerHead struct {
	Answer      int                 `json:"answer"` // the version; a result file has the key schema instead, which prevents confusion
	Kind        string              `json:"kind"`   // always result
	Command     []string            `json:"command"`
	Started     time.Time           `json:"started"`
	Elapsed     float64             `json:"elapsed_s"`
	Partial     string              `json:"partial,omitempty"` // why the run ended early
	Plan        result.Plan         `json:"plan"`
	Environment machine.Environment `json:"environment"`
	Doctor      []machine.Check     `json:"doctor,omitempty"`
	Programs    []result.Program    `json:"programs,omitempty"` // the programs that ran blocks in processes of their own
	Hosts       []result.Host       `json:"hosts,omitempty"`
}

func writeJSON(w io.Writer, r *result.Result, _ Options) error {
	head := answerHead{answerVersion, "result", r.Command, r.Started, r.Elapsed.Seconds(), r.Partial, r.Plan, r.Environment, r.Doctor, r.Programs, r.Hosts}
	return data(metrics.New(r)).JSON(w, head, everyAnswer...)
}

// everyAnswer are the keys of the tables that each answer has, even without rows.
var everyAnswer = []string{"verdict", "ranking", "findings", "crossings", "floors", "metrics"}

// writeCSV writes the tables of the answer, with a line for each number.
func writeCSV(w io.Writer, r *result.Result, _ Options) error {
	return data(metrics.New(r)).CSV(w, append(table.AxisNames(table.Axes()), "severity", "rule", "cell")...)
}

// data returns a document with the tables of all views and of all metrics.
func data(r *metrics.Result) doc.Document {
	var d doc.Document
	for _, v := range Views() {
		d.Sections = append(d.Sections, v.make(r))
	}
	d.Sections = append(d.Sections, table.AllMetrics(r))
	return d
}
