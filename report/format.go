package report

import (
	"bytes"
	"io"

	"ipcbench/bench"
	"ipcbench/report/doc"
)

// A Format is a way in which a result can be written.
type Format struct {
	Name  string
	Help  string
	Write func(w io.Writer, r *bench.Result) error
}

// writeResult writes the result file again, in the current schema.
func writeResult(w io.Writer, r *bench.Result) error {
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		return err
	}
	_, err := w.Write(doc.EscapedJSON(b.Bytes()))
	return err
}

// Formats returns all formats.
func Formats() []Format {
	return []Format{
		{"text", "tables for a terminal", writeText},
		{"md", "Markdown for a pull request, under GitHub's limit of 65,536 characters", writeMarkdown},
		{"csv", "one row for each cell and metric, for spreadsheets and pandas; in seconds, bytes, and bytes a second", writeCSV},
		{"json", "the answer for scripts: verdicts, findings, environment, and every metric of every cell with its interval", writeJSON},
		{"benchfmt", "the format of go test -bench, for benchstat -col /transport", writeBenchfmt},
		{"result", "the result file itself, with all samples; a file of an older version becomes one of the current version", writeResult},
	}
}
