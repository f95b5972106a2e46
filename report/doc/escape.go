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

// Texts in a result may come from anybody: a pull request's build, a model file,
// a kernel. Whatever they hold, no writer lets it act: every string goes through
// [Visible] for a terminal, a log or a table, through escape for Markdown, through
// [Literal] for a spreadsheet, and JSON through [EscapedJSON].

// Visible returns text as one line of which nothing is hidden: what could act on
// a terminal is written as Go writes it in a string, and what GitHub's runners
// would take for a command, :: where a line may begin and ##[ anywhere, is cut by
// a backslash.
func Visible(text string) string {
	text = strings.ReplaceAll(" "+legible.Text(text), " ::", ` \::`)
	return strings.ReplaceAll(text[1:], "##[", `#\#[`)
}

// Lines returns a text of several lines, such as that of joined errors, in which
// nothing acts on a terminal or in a log. Names of files and what other processes
// wrote stand in errors too.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Visible(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// escape makes Markdown of a text, so that nothing in it is taken for markup, a
// link, mathematics, a mention of a user or an issue, or a cell's end. GitHub looks
// for some of these in the source and for others in what it has rendered: a
// character reference hides a sign from the first, an element of its own from the
// second.
func escape(text string) string { return markup.Replace(Visible(text)) }

// paragraph makes Markdown of a text that stands by itself, so that nothing makes a
// list, a heading or code of how it begins.
func paragraph(text string) string {
	text = strings.TrimLeft(text, " ")
	if at := listStart.FindStringIndex(text); at != nil {
		return text[:at[1]-1] + `\` + escape(text[at[1]-1:])
	}
	return escape(text)
}

// listStart matches how an item of a list, or the line below a heading, begins.
var listStart = regexp.MustCompile(`^([-+=]|[0-9]+[.)])`)

var markup = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "~", `\~`,
	"@", "<span>&#64;</span>", "#", "<span>&#35;</span>", "$", "<span>&#36;</span>",
	"://", "<span>&#58;</span>//", "www.", "www<span>&#46;</span>", "WWW.", "WWW<span>&#46;</span>",
)

// Literal returns text as a cell of CSV that no spreadsheet takes for a formula.
func Literal(text string) string {
	text = Visible(text)
	if strings.IndexAny(text, "=+-@") == 0 {
		return "'" + text
	}
	return text
}

// EscapedJSON returns JSON in which what does not show is written as escapes: it
// can stand in strings only.
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

// WriteJSON writes v as JSON, indented by indent.
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
