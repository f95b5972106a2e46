// Package report is presentation: results in; text, Markdown, CSV, JSON and
// benchfmt out. It measures nothing, knows no transport and computes no statistic:
// what it writes comes from package analysis.
//
//   - [Formats] is the one list of what a result can be written as. A format is one
//     file and one line in it.
//   - [Views] are the parts of the report of a result, by name. A Markdown file may
//     hold one, or one sentence: [Check] reports whether it still does.
//   - [WriteComparison] writes what two builds or two runs differ in.
package report
