// Package doctest says, in tests, whether a text of a stranger acts in a document.
package doctest

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hostile is a text that acts on a terminal, in a browser or in a CI log unless a writer
// escapes it. A test can find it by the word "evil".
const Hostile = "evil\x1b]0;owned\x07\x1b[2J\x00\x7f\u0085\u009b31m\n::error::x\r\n# wicked\t\u2028- wicked" +
	"\u202e\u2066\u200b\u200d\ufeff\u2060\u00ad\u034f\u115f\u3164\ufe0f\U000e0041\xff\xc3(" +
	" https://evil.example/ www.evil.example a@evil.example @evil #1 $x$ $`x`$ ##[error]evil %%{init: {}}%%" +
	" |<script>alert(1)</script> `x` [evil](https://evil.example) ![x](y) **x** __x__ ~~x~~ <!-- x --> &lt;"

// Scripts are texts that act in a page of HTML.
var Scripts = []string{
	"</script><script>acted=2</script>", "</style><script>acted=3</script>", "<!--<script>", `"><img src=x onerror=acted=4>`, `' onfocus=acted=5 autofocus '`,
	"javascript:acted=6", "</textarea></noscript></template><svg onload=acted=7>", "{{.}}${acted=8}", "__proto__",
}

// Starts are texts that act at the beginning of a line or a cell.
var Starts = []string{
	" ::warning::evil", "=cmd|'/c evil'!A1", "@evil", "1. wicked evil", "- wicked evil", "+ wicked evil", "# wicked evil", "    wicked evil",
}

var (
	benchLine   = regexp.MustCompile(`^(Unit |Benchmark|# |[a-z][a-z-]*: |\n)`)
	badMarkdown = regexp.MustCompile("(?i)<script|://|www\\.|@|[^\\\\]`|\\$|(^|[^\\\\])[|]evil|[^\\\\]\\]\\(|\\*\\*x\\*\\*|__x__|~~x~~|<!--")
	badStart    = regexp.MustCompile(`(?m)^(?:[>-] )?(?:# |\d+\. |    )wicked|^[>-] [-+] wicked|^[+] wicked`)
	chartStart  = regexp.MustCompile("^```mermaid\n%%{init: {\"xyChart\": {[^\n]*}%%\nxychart-beta( horizontal)?\n")
	chartLine   = regexp.MustCompile(`^    (title "|x-axis "|x-axis \["|y-axis "|bar \[|line \[)[^\x60]*$`)
	markdownTag = regexp.MustCompile(`(^|[^\\])</?([a-z]+)`)
	cellEnd     = regexp.MustCompile(`(?:[^\\]|^)\|`)
	fences      = regexp.MustCompile("(?s)```mermaid\n.*?\n```\n")
)

// Acts returns an action of a written document that texts of strangers must not cause, or
// "". The first word of name is the document's format: text, md, html, csv, json or
// benchfmt.
func Acts(name, out string) string {
	if !utf8.ValidString(out) {
		return "is not UTF-8"
	}
	for i, r := range out {
		if r == '\n' || r == '\t' && strings.HasPrefix(name, "json") {
			continue
		}
		if !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return fmt.Sprintf("holds %U: %q", r, out[max(0, i-40):min(len(out), i+20)])
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
			return fmt.Sprintf("commands: %q", line)
		}
	}
	switch kind, _, _ := strings.Cut(name, " "); kind {
	case "md":
		words := fences.ReplaceAllString(out, "")
		for _, bad := range []*regexp.Regexp{badMarkdown, badStart} {
			if at := bad.FindStringIndex(words); at != nil {
				return fmt.Sprintf("has markup: %q", words[max(0, at[0]-40):min(len(words), at[1]+40)])
			}
		}
		for _, tag := range markdownTag.FindAllStringSubmatch(words, -1) {
			if !strings.Contains("details summary span", tag[2]) {
				return "has the tag " + tag[0]
			}
		}
		cells := 0 // number of cells in a row of the table
		for line := range strings.Lines(words) {
			n := len(cellEnd.FindAllString(strings.ReplaceAll(line, "||", "| |"), -1))
			if !strings.HasPrefix(line, "|") {
				n = 0
			} else if cells > 0 && n != cells {
				return fmt.Sprintf("has a row of %d cells in a table of %d: %q", n, cells, line)
			}
			cells = n
		}
		for _, fence := range fences.FindAllString(out, -1) {
			if strings.Count(fence, "%%{") != 1 || !chartStart.MatchString(fence) || strings.Count(fence, "```") != 2 {
				return fmt.Sprintf("has a chart of other lines: %q", fence)
			}
			lines := strings.Split(fence, "\n")
			for _, line := range lines[3 : len(lines)-2] {
				if !chartLine.MatchString(line) {
					return fmt.Sprintf("has a chart with the line %q", line)
				}
			}
		}
	case "html":
		return actsInPage(out)
	case "json":
		if !json.Valid([]byte(out)) {
			return "is no JSON"
		}
	case "csv":
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil {
			return err.Error()
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.IndexAny(cell, "=+-@") == 0 && strings.Contains(cell, "evil") {
					return fmt.Sprintf("has the formula %q", cell)
				}
			}
		}
	case "benchfmt":
		for line := range strings.Lines(out) {
			if !benchLine.MatchString(line) {
				return fmt.Sprintf("has the line %q", line)
			}
		}
	}
	return ""
}
