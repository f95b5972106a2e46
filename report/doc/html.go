package doc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The page and its parts: page.html is the template, and the other files are copied into it.
// charts.css, charts.js and the files in vendor, with their licences, are only copied if a
// page has plots.
//
//go:embed page
var pageFiles embed.FS

// The template gets documents unescaped, and applies visible to their texts.
var pageTemplate = sync.OnceValue(func() *template.Template {
	functions := template.FuncMap{
		"visible": Visible, "say": func(texts []string) []Paragraph { return Say(texts...) }, "tone": func(t Tone) string { return htmlTones[t] },
		"shown": Section.shown, "table": Table.html,
	}
	return template.Must(template.New("page.html").Funcs(functions).ParseFS(pageFiles, "page/page.html"))
})

var htmlTones = map[Tone]string{Strong: "strong", Good: "good", Bad: "bad", Dim: "dim"}

// HTML writes the document as one page that needs no other file. Its content security policy
// blocks all requests, and all scripts except its own.
func (d Document) HTML(w io.Writer) error {
	p := &htmlPage{Document: d}
	p.add("page.css", "page.js")
	for _, s := range d.Sections {
		p.Plots = append(p.Plots, Each(s.Plots, Plot.chart)...)
	}
	if len(p.Plots) > 0 {
		p.add("vendor/d3.LICENSE", "vendor/d3.min.js", "vendor/plot.LICENSE", "vendor/plot.umd.min.js", "charts.css", "charts.js")
	}
	var b bytes.Buffer
	if err := pageTemplate().Execute(&b, p); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}

// A htmlPage is the data for page.html.
type htmlPage struct {
	Document
	Plots    []chart // of all sections, in the order of the page's figures
	Styles   []template.CSS
	Scripts  []template.JS
	Licences []string
}

// add adds files of this package to the page: styles, scripts and licences.
func (p *htmlPage) add(names ...string) {
	for _, name := range names {
		data, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic(err) // not a file of this package
		}
		switch {
		case strings.HasSuffix(name, ".css"):
			p.Styles = append(p.Styles, template.CSS(data))
		case strings.HasSuffix(name, ".js"):
			p.Scripts = append(p.Scripts, template.JS(data))
		default:
			p.Licences = append(p.Licences, string(data))
		}
	}
}

// Policy returns the page's content security policy. It allows no style attributes: scripts
// set styles on elements instead.
func (p *htmlPage) Policy() string {
	return "default-src 'none'; base-uri 'none'; form-action 'none'; style-src" + hashes(p.Styles) + "; script-src" + hashes(p.Scripts)
}

func hashes[T ~string](all []T) (sources string) {
	for _, text := range all {
		sum := sha256.Sum256([]byte(text))
		sources += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return sources
}

// A htmlTable is a table, with its columns and rows as the page shows them.
type htmlTable struct {
	Table
	Head []htmlColumn
	Body []htmlRow
}

type htmlColumn struct {
	Name, Class  string
	ID           string // element ID of its help; empty without help
	part, bounds string // as wide as these parts of all cells
}

// A htmlRow has a note in place of its last cells or, if all of them have content, in a row of
// its own below.
type htmlRow struct {
	Row
	Cells []htmlCell
	Span  int // number of columns of the note; 0 if it has a row of its own
}

// A htmlCell is a text with invisible parts that fill up its width. They align the decimal
// points of a column in any font whose digits have equal widths.
type htmlCell struct {
	Class string
	Text  string
	Room  string // invisible, after Text
	More  string // visible, after Room
	End   string // invisible, after More
	Bar   string // length of its bar in percent; empty without a bar
}

// html returns the table for the page. Its columns refer to the help of their section.
func (t Table) html(section string, help []Term) htmlTable {
	s := t.sheet(Visible)
	made := htmlTable{Table: t}
	for _, col := range s.columns {
		h := htmlColumn{Name: col.header}
		if i := slices.IndexFunc(help, func(h Term) bool { return h.Word == cmp.Or(col.Name, col.header) }); i >= 0 {
			h.ID = fmt.Sprintf("%s-%d", section, i)
		}
		switch {
		case col.Unit == "" && col.Wrap:
			h.Class = "words wrap"
		case col.Unit == "":
			h.Class = "words"
		case col.Bar:
			h.Class = "bar"
		}
		for _, e := range col.cells {
			h.part += missing(h.part, e.part)
			h.bounds += missing(h.bounds, e.bounds)
		}
		made.Head = append(made.Head, h)
	}
	above := make([]string, s.keys) // the keys that blank ones repeat
	for r := range t.Rows {
		made.Body = append(made.Body, s.html(r, above, made.Head))
	}
	return made
}

// html returns row r. The keys that a row leaves blank at its beginning repeat the row above.
// The page has them nevertheless, for sorting and for screen readers.
func (s sheet) html(r int, above []string, columns []htmlColumn) htmlRow {
	row, repeats := htmlRow{Row: s.rows[r]}, true
	for c, col := range s.columns {
		e := col.cells[r]
		cell := htmlCell{Class: columns[c].Class, Text: e.text}
		if c < s.keys {
			if repeats = repeats && e.text == ""; repeats && above[c] != "" {
				cell.Text, cell.Class = above[c], "words again"
			} else {
				above[c] = e.text
			}
		}
		if e.whole != "" {
			cell.Text, cell.More = e.whole+e.part, e.bounds
			cell.Room, cell.End = missing(e.part, columns[c].part), missing(e.bounds, columns[c].bounds)
		}
		if col.Bar && col.most > 0 {
			cell.Bar = strconv.FormatFloat(100*max(e.value, 0)/col.most, 'f', 1, 64)
		}
		row.Cells = append(row.Cells, cell)
	}
	for n := len(row.Cells); row.Note != "" && n > 1 && row.Cells[n-1].Text == ""; n-- {
		row.Cells = row.Cells[:n-1]
		row.Span++
	}
	return row
}

var digit = regexp.MustCompile(`[0-9]`)

// missing returns the characters of text that room lacks, with all digits as zeros. room and
// these characters are as wide as text and the characters of room that text lacks.
func missing(room, text string) string {
	text = digit.ReplaceAllString(text, "0")
	for _, sign := range digit.ReplaceAllString(room, "0") {
		text = strings.Replace(text, string(sign), "", 1)
	}
	return text
}
