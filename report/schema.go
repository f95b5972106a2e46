package report

import (
	"encoding/json"
	"io"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// WriteSchema writes a JSON Schema (draft 2020-12). If of is "answer", it describes the format
// json of a result, else the result file.
func WriteSchema(w io.Writer, of string) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	if of == "answer" {
		return e.Encode(programTables().Schema(answer{Answer: answerVersion, Kind: "result"}, everyAnswer...))
	}
	return e.Encode(doc.Document{}.Schema(result.Result{Schema: result.Schema}))
}

// programTables returns all tables that programs get of a result, without rows.
func programTables() doc.Document {
	r, crossings := metrics.New(new(result.Result)), crossingTable(&quantity{unit: "B"}, "")
	for i := range crossings.Columns {
		crossings.Columns[i].Always = false // a sweep has no column for the dimension that it varies
	}
	tables := []doc.Table{verdictTable(nil), rankingTable(nil), findingTable(nil), changeTable("s"), hostTable(r, nil), spentTable(r, nil),
		breakEvenTable(nil), tlsTable(nil, ""), gainTable(nil, ""), crossings, floorTable("s", nil)}
	return doc.Document{Sections: []doc.Section{{Tables: tables}, environment(r), allMetrics(r)}}
}
