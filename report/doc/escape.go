package doc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"ipcbench/internal/legible"
)

// Texts in a result may come from untrusted sources, such as a pull request's build or a model
// file. Writers must not let them act. So every string goes through [Visible] for a terminal, a
// log or a table, through escape for Markdown, and through [Literal] for a spreadsheet. JSON
// goes through [EscapedJSON].

// Visible returns text as one line without hidden characters: characters that could act on a
// terminal are escaped as in a Go string. A backslash interrupts the commands of GitHub's
// runners: :: at the start of a line or after a space, and ##[ anywhere.
func Visible(text string) string {
	text = strings.ReplaceAll(" "+legible.Text(text), " ::", ` \::`)
	return strings.ReplaceAll(text[1:], "##[", `#\#[`)
}

// Lines applies [Visible] to each line of a text, such as joined errors: errors may quote
// names of files and the output of other processes. Tabs become four spaces.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Visible(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// escape returns text as Markdown without markup, links, mathematics, mentions of users or
// issues, and ends of cells. GitHub searches for some of these in the source and for others
// in the rendered page. A character reference hides a character from the first search, and
// an element of its own from the second.
func escape(text string) string { return markup.Replace(Visible(text)) }

// paragraph returns text as a paragraph of Markdown, whose beginning cannot make it a list,
// a heading or code.
func paragraph(text string) string {
	text = strings.TrimLeft(text, " ")
	if at := listStart.FindStringIndex(text); at != nil {
		return text[:at[1]-1] + `\` + escape(text[at[1]-1:])
	}
	return escape(text)
}

// listStart matches the beginning of a list item or of the line below a heading.
var listStart = regexp.MustCompile(`^([-+=]|[0-9]+[.)])`)

var markup = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "~", `\~`,
	"@", "<span>&#64;</span>", "#", "<span>&#35;</span>", "$", "<span>&#36;</span>",
	"://", "<span>&#58;</span>//", "www.", "www<span>&#46;</span>", "WWW.", "WWW<span>&#46;</span>",
)

// Literal returns text as a field of CSV that no spreadsheet interprets as a formula.
func Literal(text string) string {
	text = Visible(text)
	if strings.IndexAny(text, "=+-@") == 0 {
		return "'" + text
	}
	return text
}

// EscapedJSON returns JSON in which hidden characters are escaped. They can only occur in
// strings.
func EscapedJSON(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for i, r := range string(data) {
		if legible.Rune(r) && !bytes.HasPrefix(data[i:], []byte("##[")) || r <= ' ' {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// WriteJSON writes v as JSON, indented by indent, with hidden characters escaped.
func WriteJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(EscapedJSON(b.Bytes()))
	return err
}
