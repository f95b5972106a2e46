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

// The page and all that it needs: page.html is filled in, the rest stands in it as it
// is. charts.css, charts.js and what is in vendor, with its licences, stand only in
// a page that has plots.
//
//go:embed page
var pageFiles embed.FS

// The template reads documents as they are: visible is what it writes of their texts.
var pageTemplate = sync.OnceValue(func() *template.Template {
	functions := template.FuncMap{
		"visible": Visible, "say": func(texts []string) []Paragraph { return Say(texts...) }, "tone": func(t Tone) string { return htmlTones[t] },
		"help": Section.help, "shown": Section.shown, "table": Table.html,
	}
	return template.Must(template.New("page.html").Funcs(functions).ParseFS(pageFiles, "page/page.html"))
})

var htmlTones = map[Tone]string{Strong: "strong", Good: "good", Bad: "bad", Dim: "dim"}

// HTML writes the document as one page that needs nothing else. Its policy lets no
// request leave, and no script run but those that are embedded here.
func (d Document) HTML(w io.Writer) error {
	p := &htmlPage{Document: d}
	p.add("page.css", "page.js")
	for _, s := range d.Sections {
		p.Plots = append(p.Plots, each(s.Plots, Plot.chart)...)
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

// A htmlPage is what page.html is filled with.
type htmlPage struct {
	Document
	Plots    []chart // of all sections, in the order of the page's figures
	Styles   []template.CSS
	Scripts  []template.JS
	Licences []string
}

// add adds files: styles, scripts and licences.
func (p *htmlPage) add(names ...string) {
	for _, name := range names {
		data, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic(err) // it is no file of this package
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

// Policy is the page's content security policy. A style in an attribute has no hash:
// scripts set them on elements, which is allowed.
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
	Long bool
	Head []htmlColumn
	Body []htmlRow
}

type htmlColumn struct {
	Name, Class  string
	ID           string // of its help
	part, bounds string // room for all of them
}

// A htmlRow has a note in place of its last cells, or, where it has them all, in
// a row of its own below.
type htmlRow struct {
	Row
	Cells []htmlCell
	Span  int // of the note; 0 if it has a row of its own
}

// A htmlCell is a text, with parts that only make room and are not seen, so that the
// points of a column stand below each other in any font whose digits have one width.
type htmlCell struct {
	Class string
	Text  string
	Room  string // behind the text
	More  string
	End   string // room behind all
	Bar   string // how long it is, in percent
}

// longTable is from how many rows on a table scrolls below its header.
const longTable = 40

// html makes the table of a section, with the help of its columns.
func (t Table) html(section string, help []Term) htmlTable {
	s := t.sheet(Visible)
	made := htmlTable{Table: t, Long: len(t.Rows) > longTable}
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
			h.part += beyond(h.part, e.part)
			h.bounds += beyond(h.bounds, e.bounds)
		}
		made.Head = append(made.Head, h)
	}
	again := make([]string, s.keys) // what blank keys repeat
	for r := range t.Rows {
		made.Body = append(made.Body, s.html(r, again, made.Head))
	}
	return made
}

// html makes row r. The keys that a row leaves blank at its beginning are those of
// the row above: it has them all the same, for who sorts the table or hears it.
func (s sheet) html(r int, again []string, columns []htmlColumn) htmlRow {
	row, repeats := htmlRow{Row: s.rows[r]}, true
	for c, col := range s.columns {
		e := col.cells[r]
		cell := htmlCell{Class: columns[c].Class, Text: e.text}
		if c < s.keys {
			if repeats = repeats && e.text == ""; repeats && again[c] != "" {
				cell.Text, cell.Class = again[c], "words again"
			} else {
				again[c] = e.text
			}
		}
		if e.whole != "" {
			cell.Text, cell.More = e.whole+e.part, e.bounds
			cell.Room, cell.End = beyond(e.part, columns[c].part), beyond(e.bounds, columns[c].bounds)
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

// beyond returns the signs of text that room does not have, all digits as zeros. room
// and these signs are as wide as text and those that it does not have itself.
func beyond(room, text string) string {
	text = digit.ReplaceAllString(text, "0")
	for _, sign := range digit.ReplaceAllString(room, "0") {
		text = strings.Replace(text, string(sign), "", 1)
	}
	return text
}
