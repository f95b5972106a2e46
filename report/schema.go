package report

import (
	"encoding/json"
	"io"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// WriteSchema writes the JSON Schema (draft 2020-12) of result, the result file, or of
// answer, what the format json writes of one.
func WriteSchema(w io.Writer, of string) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	if of == "answer" {
		return e.Encode(heads().Schema(answer{Answer: answerVersion, Kind: "result"}, everyAnswer...))
	}
	return e.Encode(doc.Document{}.Schema(result.Result{Schema: result.Schema}))
}

// heads has all tables that programs get of a result, without rows.
func heads() doc.Document {
	r, crossings := metrics.New(new(result.Result)), crossingTable(&quantity{unit: "B"}, "")
	for i := range crossings.Columns {
		crossings.Columns[i].Always = false // a sweep lacks what it goes over
	}
	tables := []doc.Table{verdictTable(nil), rankingTable(nil), findingTable(nil), changeTable("s"), hostTable(r, nil), spentTable(r, nil),
		breakEvenTable(nil), tlsTable(nil, ""), gainTable(nil, ""), crossings, floorTable("s", nil)}
	return doc.Document{Sections: []doc.Section{{Tables: tables}, environment(r), allMetrics(r)}}
}
