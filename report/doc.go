// Package report turns results into reports: text, Markdown, HTML, CSV, JSON and benchfmt. It
// measures nothing and depends on no transport. Package metrics computes the numbers of cells,
// and package doc writes documents.
//
// A feature is one file, with its numbers first and its sentences below.
//
//   - [Formats] lists the output formats.
//   - [Views] lists the parts of a report, by name. A Markdown file can hold a view, or one
//     sentence, between markers; [Check] finds those that their results no longer give.
//   - [Findings] applies rules of plausibility. They find contradictions in a result, and
//     reasons to doubt it.
//   - [Compare] compares two results, or the two builds in one, and [Comparison.Gate] decides
//     whether the comparison fails.
package report
