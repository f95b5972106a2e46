package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// A part is one value of a JSON object or list.
type part struct {
	key   []byte // as it stands in the object, with its quotes; nil in a list
	index int    // in a list
	value []byte
	at    int // where the value begins in the text
}

// name returns the key, or the index in brackets.
func (p part) name() string {
	var key string
	switch {
	case p.key == nil:
		return fmt.Sprintf("[%d]", p.index)
	case json.Unmarshal(p.key, &key) != nil:
		return string(p.key) // cut off
	}
	return key
}

// parts returns the values of an object or a list, and none of anything else. The
// text is well-formed JSON, of which the end may be missing: then the last part is
// what there is of a value, and may be empty. Nothing is copied.
func parts(text []byte) iter.Seq[part] {
	return func(yield func(part) bool) {
		i := space(text, 0)
		if i == len(text) || text[i] != '{' && text[i] != '[' {
			return
		}
		object := text[i] == '{'
		i = space(text, i+1)
		for index := 0; i < len(text) && text[i] != '}' && text[i] != ']'; index++ {
			p := part{index: index}
			if object {
				end := endOfValue(text, i)
				p.key = text[i:end]
				i = space(text, min(space(text, end)+len(":"), len(text)))
			}
			end := endOfValue(text, i)
			p.value, p.at = text[i:end], i
			if !yield(p) {
				return
			}
			i = space(text, end)
			if i < len(text) && text[i] == ',' {
				if i = space(text, i+1); i == len(text) && !object {
					yield(part{index: index + 1, at: i})
				}
			}
		}
	}
}

// space returns where what follows white space begins.
func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// endOfValue returns where the value that begins at i ends.
func endOfValue(text []byte, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			} else if depth < 0 {
				return i
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// What is not looked into any more: a result has 12 levels.
const (
	maxLevels = 20
	maxPlace  = 100 // bytes of the place of an error
)

// locate returns the place of the byte at offset, such as cells[3].blocks[0].round_ns[7],
// or nothing if it is that of the whole text.
func locate(text []byte, offset int) string {
	place := ""
	for range maxLevels {
		var found *part
		for p := range parts(text) {
			if p.at > offset {
				break
			}
			found = &p
		}
		if found == nil || len(place) > maxPlace {
			break
		}
		place = inside(place, found.name())
		text, offset = found.value, offset-found.at
	}
	return shortened(place)
}

func shortened(place string) string {
	if len(place) > maxPlace {
		return strings.ToValidUTF8(place[:maxPlace], "") + "…"
	}
	return place
}

// inside returns the place of what is called name in what stands at place. A name
// is whatever a file holds.
func inside(place, name string) string {
	name = printable(name[:min(len(name), maxPlace)])
	if place == "" || strings.HasPrefix(name, "[") {
		return place + name
	}
	return place + "." + name
}

// wellFormed says where a text stops being JSON.
func wellFormed(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(text, new(struct{})); {
	case len(bytes.TrimSpace(text)) == 0:
		return errors.New("empty file: not a result of ipcbench")
	case !errors.As(err, &syntax):
		return err
	case int(syntax.Offset) == len(text) && strings.Contains(err.Error(), "unexpected end"):
		return fmt.Errorf("truncated: ends after %d bytes within %s", len(text), cmp.Or(locate(text, len(text)), "the result"))
	default:
		before := int(syntax.Offset) - 1
		return fmt.Errorf("%s: not JSON at byte %d: %w", cmp.Or(locate(text[:before], before), "the result"), syntax.Offset, err)
	}
}

// unique reports a key that stands twice in an object: readers of JSON differ in
// which one counts.
func unique(text []byte, place string, levels int) error {
	if levels == 0 {
		return fmt.Errorf("%s: too deep: not a result of ipcbench", shortened(place))
	}
	var seen map[string]bool
	for p := range parts(text) {
		if p.key != nil {
			if seen == nil {
				seen = map[string]bool{}
			}
			// Package json takes keys for the same that differ in case alone.
			folded := strings.ToLower(strings.ToUpper(p.name()))
			if seen[folded] {
				return fmt.Errorf("%s: stands twice", shortened(inside(place, p.name())))
			}
			seen[folded] = true
		}
		if c := p.value[0]; c == '{' || c == '[' {
			if err := unique(p.value, inside(place, p.name()), levels-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// strict decodes a text whose fields v must have, all of them.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return located(text, d.Decode(v))
}

// located says what does not fit, and where it stands, without a word about Go.
func located(text []byte, err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		err = fmt.Errorf("holds a JSON %.60s where %s belongs", wrong.Value, wrong.Type) // of numbers with the number: it may be too large
		return within(locate(text, int(wrong.Offset)-1), err)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}
