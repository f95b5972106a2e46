package report

import (
	"encoding/json"
	"io"

	"ipcbench/bench/result"
	"ipcbench/report/answer"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// WriteSchema writes a JSON Schema (draft 2020-12). If of is "answer", it describes the format
// json of a result, else the result file.
func WriteSchema(w io.Writer, of string) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	if of == "answer" {
		return e.Encode(programTables().Schema(answerHead{Answer: answerVersion, Kind: "result"}, everyAnswer...))
	}
	return e.Encode(doc.Document{}.Schema(result.Result{Schema: result.Schema}))
}

// programTables returns all tables that programs get of a result, without rows.
func programTables() doc.Document {
	r, crossings := metrics.New(new(result.Result)), table.CrossingTable(&table.Quantity{Unit: "B"}, "")
	for i := range crossings.Columns {
		crossings.Columns[i].Always = false // a sweep has no column for the dimension that it varies
	}
	tables := []doc.Table{answer.VerdictTable(nil), answer.RankingTable(nil), answer.FindingTable(nil), changeTable("s"), table.HostTable(r, nil), table.SpentTable(r, nil),
		table.BreakEvenTable(nil), table.TlsTable(nil, ""), table.GainTable(nil, ""), crossings, table.FloorTable("s", nil)}
	return doc.Document{Sections: []doc.Section{{Tables: tables}, table.Environment(r), table.AllMetrics(r)}}
}
