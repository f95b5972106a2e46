package report

import (
	"io"

	"ipcbench/bench"
)

// A Format is a way in which a result can be written.
type Format struct {
	Name  string
	Help  string
	Write func(w io.Writer, r *bench.Result) error
}

// Formats returns all formats.
func Formats() []Format {
	return []Format{
		{"text", "tables for a terminal", writeText},
		{"md", "Markdown for a pull request, under GitHub's limit of 65,536 characters", writeMarkdown},
		{"csv", "one row a cell and metric, for scripts: seconds, bytes, bytes a second", writeCSV},
		{"json", "the result itself: every sample and setting", func(w io.Writer, r *bench.Result) error { return r.Write(w) }},
		{"benchfmt", "the format of go test -bench, for benchstat -col /transport", writeBenchfmt},
	}
}
