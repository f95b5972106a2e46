// Package report is presentation: results in; text, Markdown, CSV, JSON and
// benchfmt out. It measures nothing, knows no transport and computes no statistic:
// what it writes comes from package analysis.
//
//   - [Formats] is the one list of what a result can be written as. A format is one
//     file and one line in it.
//   - A document is made of sections (see section.go), each of which is a view of
//     a result that a Markdown file may hold: [Check] reports whether it still does.
//   - [WriteComparison] writes what two builds or two runs differ in.
package report

// none stands where there is no value, or none that the samples support.
const none = "—"
