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

// writeJSONResult writes the file again that the result was read from.
func writeJSONResult(w io.Writer, r *bench.Result) error {
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
		{"csv", "one row a cell and metric, for scripts: seconds, bytes, bytes a second", writeCSV},
		{"json", "the result itself: every sample and setting", writeJSONResult},
		{"benchfmt", "the format of go test -bench, for benchstat -col /transport", writeBenchfmt},
	}
}
