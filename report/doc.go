// Package report turns results into reports: text, Markdown, HTML, CSV, JSON and benchfmt. It
// measures nothing and depends on no transport. A result enters; a document for one reader leaves: the
// first screen, a page, a pull request, or data for programs.
//
//   - [Formats] lists the output formats.
//   - [Views] lists the parts of a report, by name. A Markdown file can hold a view, or one
//     sentence, between markers; [Check] finds those that their results no longer give.
//   - [Compare] compares two results, or the two builds in one, and [Comparison.Gate] decides
//     whether the comparison fails.
//
// Below it, package metrics computes the numbers of cells, contrast compares two cells, table has the
// views, answer the sentences, and doc writes documents.
package report
