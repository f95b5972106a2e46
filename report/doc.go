// Package report is presentation: results in; text, Markdown, CSV, JSON and
// benchfmt out. It measures nothing and knows no transport.
//
//   - [Metrics] is the one table of what is computed from a cell. A metric is one
//     entry in it.
//   - [Formats] is the one list of what a result can be written as. A format is one
//     file and one line in it.
//   - A document is made of sections (see section.go), each of which is a view of
//     a result that a Markdown file may hold: [Check] tells whether it still does.
//   - [Compare] holds two results, or two builds in one, against each other, and
//     [Comparison.Gate] says whether to fail for it.
//   - [Findings] are the rules of plausibility: what a result says that cannot be.
//
// All statistics are those of package stat.
package report

// The names of cells that others are held against.
const (
	control  = "inproc" // the same round without leaving the process
	baseline = "pickle" // what a process pool does if nobody thinks about it
)

// none stands where there is no value, or none that the samples support.
const none = "—"
