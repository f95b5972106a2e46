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
	"io/fs"
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

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(pageFiles, "page/page.html"))
})

// HTML writes the document as one page that needs nothing else. Its policy lets no
// request leave, and no script run but those that are embedded here.
func (d Document) HTML(w io.Writer) error {
	p := d.page()
	p.add("page/page.css", "page/page.js")
	if len(p.Plots) > 0 {
		vendor, err := fs.Glob(pageFiles, "page/vendor/*")
		if err != nil {
			return err
		}
		p.add(vendor...)
		p.add("page/charts.css", "page/charts.js")
	}
	var b bytes.Buffer
	if err := pageTemplate().Execute(&b, p); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// A htmlPage is what page.html is filled with.
type htmlPage struct {
	Title    string
	Lead     []htmlText
	Sections []htmlSection
	Terms    []htmlHelp
	Plots    []chart
	Styles   []template.CSS
	Scripts  []template.JS
	Licences []string
}

type htmlSection struct {
	ID, Title  string
	Folded     bool
	Lead, Tail []htmlText
	Plots      []htmlPlot
	Tables     []htmlTable
	Help       []htmlHelp
}

// A htmlPlot is a figure, which the page's script draws the plot At of the page in.
type htmlPlot struct {
	At      int
	Caption string
	Notes   []htmlText
}

// A htmlText is a text in some tone.
type htmlText struct{ Tone, Text string }

// htmlHelp is what a column or a term means. Terms have no ID.
type htmlHelp struct{ ID, Name, Text string }

// A htmlTable has a part for each of the rules that divide it.
type htmlTable struct {
	Caption string
	Long    bool
	Columns []htmlColumn
	Parts   []htmlPart
	Notes   []htmlText
}

// A htmlPart is rows, and what they are.
type htmlPart struct {
	Heading string
	Rows    []htmlRow
}

type htmlColumn struct {
	Name, Class  string
	ID           string // of its help
	part, bounds room
}

// A htmlRow has a note in place of its last cells, or, where it has them all, in
// a row of its own below.
type htmlRow struct {
	Tone  string
	Cells []htmlCell
	Note  string
	Span  int // of the note; 0 if it has a row of its own
}

// A htmlCell is a text, with parts that only make room and are not seen, so that the
// points of a column stand below each other in any font whose digits have one width.
type htmlCell struct {
	Key   bool
	Class string
	Text  string
	Room  string // behind the text
	More  string
	End   string // room behind all
	Bar   string // how long it is, in percent
}

var htmlTones = map[Tone]string{Strong: "strong", Good: "good", Bad: "bad", Dim: "dim"}

// add adds files: styles, scripts and licences.
func (p *htmlPage) add(names ...string) {
	for _, name := range names {
		data, err := pageFiles.ReadFile(name)
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
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src"
	for _, s := range p.Styles {
		policy += hash(string(s))
	}
	policy += "; script-src"
	for _, s := range p.Scripts {
		policy += hash(string(s))
	}
	return policy
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// page makes the page without its styles and scripts.
func (d Document) page() *htmlPage {
	p := &htmlPage{Title: Visible(cmp.Or(d.Title, "Report"))}
	for _, t := range d.Terms {
		p.Terms = append(p.Terms, htmlHelp{Name: Visible(t.Word), Text: Visible(t.Means)})
	}
	p.Lead = htmlTexts(d.Lead)
	for i, s := range d.Sections {
		if !s.Empty() {
			p.Sections = append(p.Sections, p.section(fmt.Sprintf("s%d", i+1), s))
		}
	}
	return p
}

func htmlTexts(all []Paragraph) (made []htmlText) {
	for _, t := range all {
		if t.Text != "" {
			made = append(made, htmlText{htmlTones[t.Tone], Visible(t.Text)})
		}
	}
	return made
}

func (p *htmlPage) section(id string, s Section) htmlSection {
	made := htmlSection{ID: id, Title: Visible(s.Title), Folded: s.Folded && s.Title != "", Lead: htmlTexts(s.Lead)}
	for _, plot := range s.Plots {
		made.Plots = append(made.Plots, htmlPlot{len(p.Plots), Visible(plot.Caption), htmlTexts(Say(plot.Notes...))})
		p.Plots = append(p.Plots, plot.chart())
	}
	ids := map[string]string{}
	for i, h := range s.help() {
		ids[h[0]] = fmt.Sprintf("%s-%d", id, i+1)
		made.Help = append(made.Help, htmlHelp{ids[h[0]], Visible(h[0]), Visible(h[1])})
	}
	for _, t := range s.shown() {
		made.Tables = append(made.Tables, t.html(ids))
	}
	made.Tail = htmlTexts(s.Tail)
	return made
}

// longTable is from how many rows on a table scrolls below its header.
const longTable = 40

func (t Table) html(help map[string]string) htmlTable {
	s := t.sheet(Visible)
	made := htmlTable{Caption: Visible(t.Caption), Long: len(s.rows) > longTable}
	for _, col := range s.columns {
		h := htmlColumn{Name: col.header, ID: help[cmp.Or(col.Name, col.header)]}
		switch {
		case col.Unit == "" && col.Wrap:
			h.Class = "words wrap"
		case col.Unit == "":
			h.Class = "words"
		case col.Bar:
			h.Class = "bar"
		}
		for _, e := range col.cells {
			h.part, h.bounds = h.part.with(e.part), h.bounds.with(e.bounds)
		}
		made.Columns = append(made.Columns, h)
	}
	again := make([]string, s.keys) // what blank keys repeat
	for r, row := range s.rows {
		if r == 0 || row.Rule {
			made.Parts = append(made.Parts, htmlPart{Heading: Visible(row.Heading)})
		}
		part := &made.Parts[len(made.Parts)-1]
		part.Rows = append(part.Rows, s.html(r, again, made.Columns))
	}
	made.Notes = htmlTexts(Say(t.Notes...))
	return made
}

// html makes row r. The keys that a row leaves blank at its beginning are those of
// the row above: it has them all the same, for who sorts the table or hears it.
func (s sheet) html(r int, again []string, columns []htmlColumn) htmlRow {
	row := htmlRow{Tone: htmlTones[s.rows[r].Tone], Note: Visible(s.rows[r].Note)}
	repeats := true
	for c, col := range s.columns {
		e := col.cells[r]
		cell := htmlCell{Class: columns[c].Class, Text: e.text, Key: c == 0}
		if cell.Key && cell.Class == "words" {
			cell.Class = "" // as all of the first column are
		}
		if c < s.keys {
			if repeats = repeats && e.text == ""; repeats && again[c] != "" {
				cell.Text, cell.Class = again[c], "words again"
			} else {
				again[c] = e.text
			}
		}
		if e.whole != "" {
			cell.Text, cell.More = e.whole+e.part, e.bounds
			cell.Room, cell.End = columns[c].part.beside(e.part), columns[c].bounds.beside(e.bounds)
		}
		if col.Bar && col.most > 0 {
			cell.Bar = strconv.FormatFloat(100*max(e.value, 0)/col.most, 'f', 1, 64)
		}
		row.Cells = append(row.Cells, cell)
	}
	if row.Note != "" {
		for n := len(row.Cells); n > 1 && row.Cells[n-1].Text == ""; n-- {
			row.Cells = row.Cells[:n-1]
			row.Span++
		}
	}
	return row
}

// A room has signs enough for each text of a column, all digits as zeros. A text and
// the signs that it does not have itself are as wide as any other text with the same.
type room string

// with returns r with room for one more text.
func (r room) with(text string) room { return r + room(room(text).beside(string(r))) }

// beside returns the signs of r that text does not have.
func (r room) beside(text string) string {
	var left strings.Builder
	has := map[rune]int{}
	for _, sign := range text {
		has[zero(sign)]++
	}
	for _, sign := range r {
		if sign = zero(sign); has[sign] > 0 {
			has[sign]--
		} else {
			left.WriteRune(sign)
		}
	}
	return left.String()
}

func zero(sign rune) rune {
	if sign >= '0' && sign <= '9' {
		return '0'
	}
	return sign
}
