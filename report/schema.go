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
		return e.Encode(programTables().Schema(answerHead{Answer: answerVersion, Kind: "result"}, everyAnswer...))
	}
	return e.Encode(doc.Document{}.Schema(result.Result{Schema: result.Schema}))
}

// programTables returns the tables that programs get of an empty result: all kinds, without rows.
func programTables() doc.Document { return data(metrics.New(new(result.Result))) }
