// Package report says what a result means: results in; text, Markdown, HTML, CSV, JSON and
// benchfmt out. It measures nothing and knows no transport. What is known of a cell comes
// from package metrics, and package doc writes documents.
//
// A feature is one file, with its numbers first and its sentences below.
//
//   - [Formats] is the one list of what a result can be written as.
//   - [Views] are the parts of the report of a result, by name. A Markdown file may
//     hold one, or one sentence: [Check] reports whether it still does.
//   - [Findings] are the rules of plausibility: what a result says that cannot be, or that
//     puts it in doubt.
//   - [Compare] compares two results, or the two builds in one, and [Comparison.Gate]
//     decides whether to fail.
package report
