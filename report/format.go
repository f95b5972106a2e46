package report

import (
	"bytes"
	"io"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// Options apply to the formats for people. Formats for programs ignore them.
type Options struct {
	Views []string // names of views, or all; if empty, a selection for a screen or a pull request. See CheckViews.
	File  string   // path of the result, for hints
	Only  []string // filters that the result's cells have passed, for hints
	Call  string   // how the program is called, for hints; empty means ipcbench
	Text  doc.TextOptions
}

// A Format is a way in which a result can be written.
type Format struct {
	Name  string
	Help  string
	Write func(w io.Writer, r *result.Result, o Options) error
}

// Formats returns all formats.
func Formats() []Format {
	return []Format{
		{"text", "the verdict and a table for each model, for a terminal; --view shows more", writeText},
		{"md", "Markdown for a pull request, under GitHub's limit of 65,536 characters", writeMarkdown},
		{"html", "one page with charts and all tables, which needs no network", writeHTML},
		{"csv", "one row for each cell and metric, for spreadsheets and pandas; in seconds, bytes, and bytes per second", writeCSV},
		{"json", "the answer for scripts: verdicts, findings, environment, and every metric of every cell with its interval", writeJSON},
		{"benchfmt", "the format of go test -bench, for benchstat -col /transport", writeBenchfmt},
		{"result", "the result file itself, with all samples", writeResult},
		{"perfetto", "a timeline of the processes of a run with --profile, as a trace for ui.perfetto.dev", writePerfetto},
	}
}

// FormatNamed returns the format with this name, and whether there is one.
func FormatNamed(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

func writeText(w io.Writer, r *result.Result, o Options) error {
	return viewed(r, o, screen).Text(w, o.Text)
}

func writeMarkdown(w io.Writer, r *result.Result, o Options) error {
	return viewed(r, o, request).Markdown(w)
}

func writeHTML(w io.Writer, r *result.Result, o Options) error {
	return page(metrics.New(r), o.Views).HTML(w)
}

// viewed returns the named views, or what a reader gets who names none.
func viewed(r *result.Result, o Options, usual func(*metrics.Result, Options) doc.Document) doc.Document {
	v := metrics.New(r)
	if len(o.Views) == 0 {
		return usual(v, o)
	}
	sections := func(view View) []doc.Section { return []doc.Section{view.section(v)} }
	return doc.Document{Lead: doc.Say(table.Heading(v)), Sections: chosen(o.Views, sections)}
}

// writeResult writes the result file in the current schema.
func writeResult(w io.Writer, r *result.Result, _ Options) error {
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		return err
	}
	_, err := w.Write(doc.EscapedJSON(b.Bytes()))
	return err
}
