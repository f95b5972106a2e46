package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// What is not read any more, in bytes: a file, one cell in it, and any other value.
// A hundred blocks of 100,000 clients fit; the largest committed result has 11 MB.
const (
	maxFile      = 256 << 20
	largestCell  = 192 << 20
	largestValue = 64 << 20
)

// ReadFile reads a result and validates it. Its errors name the file and the
// field.
func ReadFile(path string) (*Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func read(f *os.File) (*Result, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if info.Mode().IsRegular() {
		if info.Size() > maxFile {
			return nil, errLarge
		}
		buf.Grow(int(info.Size()) + bytes.MinRead)
	}
	// What cannot be a result is not read to its end: a device has none.
	if _, err := io.CopyN(&buf, f, 512); err != nil && err != io.EOF {
		return nil, err
	}
	switch start := bytes.TrimLeft(buf.Bytes(), " \t\r\n"); {
	case len(start) == 0 || start[0] == '{':
	case start[0] == '[' || start[0] == '"':
		return nil, fmt.Errorf("the result: a JSON text that begins with %c, where an object belongs", start[0])
	default:
		return nil, explain(buf.Bytes())
	}
	if _, err := buf.ReadFrom(io.LimitReader(f, maxFile+1-int64(buf.Len()))); err != nil {
		return nil, err
	}
	if buf.Len() > maxFile {
		return nil, errLarge
	}
	return decode(buf.Bytes())
}

var errLarge = fmt.Errorf("larger than %d bytes: not a result of ipcbench", maxFile)

// decode reads a result from its JSON and validates it.
func decode(data []byte) (*Result, error) {
	r, err := stream(data)
	if refused := new(refusal); errors.As(err, &refused) {
		return nil, err
	}
	if err != nil || r.Schema < 1 || r.Schema > Schema {
		return nil, explain(data)
	}
	r.Schema = Schema
	r.Partial = oneLine(r.Partial) // of older builds, it may have several
	return r, r.Validate()
}

// A refusal is why a result is not read although it may be JSON.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// A ration is a reader that refuses a value that is too long before it is held in
// memory.
type ration struct {
	data []byte
	at   int
	end  int // of what may be read
	what string
}

func (r *ration) Read(b []byte) (int, error) {
	switch {
	case r.at == len(r.data):
		return 0, io.EOF
	case r.at >= r.end:
		return 0, &refusal{fmt.Sprintf("%s: too long: not a result of ipcbench", r.what)}
	}
	n := copy(b, r.data[r.at:min(r.end, len(r.data))])
	r.at += n
	return n, nil
}

// allow lets the decoder read so many bytes more, of what.
func (r *ration) allow(d *json.Decoder, n int, what string) {
	r.end, r.what = int(d.InputOffset())+n, what
}

// stream reads a result cell by cell: a decoder holds the text of a whole value,
// and the cells of a large result are most of it.
func stream(data []byte) (*Result, error) {
	in := &ration{data: data, end: largestValue}
	d := json.NewDecoder(in)
	if err := delim(d, '{'); err != nil {
		return nil, err
	}
	r := new(Result)
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := token.(string)
		if folded := fold(key); seen[folded] {
			return nil, &refusal{fmt.Sprintf("%.80q: stands twice", key)}
		} else {
			seen[folded] = true
		}
		in.allow(d, largestValue, key)
		if key == "cells" {
			err = cells(in, d, r)
		} else {
			// A decoder fills one field of the result, and knows the others.
			err = value(d, key, func(text []byte) error {
				field, err := json.Marshal(map[string]json.RawMessage{key: text})
				if err != nil {
					return err
				}
				return strict(field, r)
			})
		}
		if err != nil {
			return nil, err
		}
		in.allow(d, largestValue, key)
	}
	if err := delim(d, '}'); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows")
	}
	return r, nil
}

// cells reads the list of cells.
func cells(in *ration, d *json.Decoder, r *Result) error {
	token, err := d.Token()
	switch {
	case err != nil:
		return err
	case token == nil: // null
		return nil
	case token != json.Delim('['):
		return fmt.Errorf("cells: %v", token)
	}
	for d.More() {
		what := fmt.Sprintf("cells[%d]", len(r.Cells))
		in.allow(d, largestCell, what)
		var c Cell
		if err := value(d, what, func(text []byte) (err error) {
			if r.Schema == 1 {
				if text, err = upgrade(text); err != nil {
					return &refusal{fmt.Sprintf("%s: %v", what, err)}
				}
			}
			return strict(text, &c)
		}); err != nil {
			return err
		}
		r.Cells = append(r.Cells, c)
	}
	return delim(d, ']')
}

// value reads the next value, in which no object may have a key twice: readers of
// JSON differ in which one counts.
func value(d *json.Decoder, what string, use func(text []byte) error) error {
	var text json.RawMessage
	if err := d.Decode(&text); err != nil {
		return err
	}
	if key := twice(text); key != "" {
		return &refusal{fmt.Sprintf("%s: %.80q stands twice in an object", what, key)}
	}
	return use(text)
}

// strict decodes text, in which no field may be unknown.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// twice returns a key that stands twice in one of the objects of a JSON text, or
// nothing.
func twice(text []byte) string {
	var objects []map[string]bool // those that are open; nil for an array
	key := false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			objects, key = append(objects, map[string]bool{}), true
		case '[':
			objects, key = append(objects, nil), false
		case '}', ']':
			objects = objects[:len(objects)-1]
		case ',':
			key = len(objects) > 0 && objects[len(objects)-1] != nil
		case '"':
			end := endOfString(text, i)
			if key {
				var name string
				if err := json.Unmarshal(text[i:end], &name); err != nil {
					return ""
				}
				top := objects[len(objects)-1]
				if name = fold(name); top[name] {
					return name
				}
				top[name], key = true, false
			}
			i = end - 1
		}
	}
	return ""
}

// fold returns one of the spellings of a key that package json takes for the same.
func fold(key string) string { return strings.ToLower(strings.ToUpper(key)) }

// delim takes the next token, which must be that delimiter.
func delim(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err == nil && token != want {
		err = fmt.Errorf("%v where %v belongs", token, want)
	}
	return err
}

// explain says why data is no result, once it is known that it is none.
func explain(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(new(Result))
	// A file of another version has other fields too: its version is the better
	// explanation.
	var version struct{ Schema *int }
	versionErr := json.NewDecoder(bytes.NewReader(data)).Decode(&version)
	switch syntax := new(json.SyntaxError); {
	case versionErr == nil && version.Schema == nil:
		return errors.New("schema: missing: not a result of ipcbench")
	case versionErr == nil && *version.Schema > Schema:
		return fmt.Errorf("schema: version %d: this ipcbench is too old for it, and reads versions up to %d", *version.Schema, Schema)
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("empty file: not a result of ipcbench")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("truncated: ends after %d bytes within %s", len(data), locate(data, len(data)))
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: not JSON at byte %d: %w", locate(data, int(syntax.Offset)-1), syntax.Offset, err)
	}
	var wrong *json.UnmarshalTypeError
	if err == nil {
		return fmt.Errorf("something follows the result, at byte %d", d.InputOffset())
	}
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s: holds a JSON %s where %s belongs", locate(data, int(wrong.Offset)-1), wrong.Value, wrong.Type)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// maxPath is how much of the place of an error is shown, in bytes or levels.
const maxPath = 100

// locate says in which field the byte at offset lies: cells[3].blocks[0].round_ns[7].
// Up to there, data must be JSON.
func locate(data []byte, offset int) string {
	type level struct {
		key   string
		index int // of an array's element, or -1
	}
	var path []level
	where := func() string {
		var b strings.Builder
		for _, l := range path {
			switch {
			case l.index >= 0:
				fmt.Fprintf(&b, "[%d]", l.index)
			case l.key != "":
				if b.Len() > 0 {
					b.WriteByte('.')
				}
				b.WriteString(l.key)
			}
		}
		switch text := b.String(); {
		case text == "":
			return "the result"
		case len(text) > maxPath:
			return text[:maxPath] + "…"
		default:
			return text
		}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	key := false // the next string is a key
	for {
		token, err := d.Token()
		if err != nil || len(path) > maxPath {
			return where()
		}
		top := len(path) - 1
		switch token {
		case json.Delim('{'):
			path, key = append(path, level{index: -1}), true
		case json.Delim('['):
			path, key = append(path, level{index: 0}), false
		case json.Delim('}'), json.Delim(']'):
			path = path[:top]
			top--
			fallthrough
		default:
			if name, ok := token.(string); ok && key {
				path[top].key, key = name, false
				continue
			}
			if int(d.InputOffset()) > offset || top < 0 {
				return where()
			}
			if path[top].index >= 0 {
				path[top].index++
			} else {
				key = true
			}
		}
	}
}

// WriteFile writes the result as JSON. The file appears complete or not at all.
func (r *Result) WriteFile(path string) error {
	err := ReplaceFile(path, r.Write)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: what stood in %s before is unharmed; make room, or choose a place that has some with --out", err, path)
	}
	return err
}

// Write writes the result as JSON, its samples a line each. What ReadFile would
// refuse is not written.
func (r *Result) Write(w io.Writer) error {
	if err := r.Validate(); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("bench: encode the result: %w", err)
	}
	b := bufio.NewWriter(w)
	layOut(b, data)
	return b.Flush() // holds the first error of all writes
}

// layOut indents compact JSON, but keeps an array of numbers or strings in one
// line, so that a result of many samples can be looked at and compared.
func layOut(w *bufio.Writer, data []byte) {
	depth := 0
	line := func() {
		w.WriteByte('\n')
		for range depth {
			w.WriteByte('\t')
		}
	}
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case '"':
			end := endOfString(data, i)
			w.Write(data[i:end])
			i = end - 1
		case '[', '{':
			if end := flat(data, i); end > 0 {
				w.Write(data[i:end])
				i = end - 1
				continue
			}
			w.WriteByte(c)
			depth++
			line()
		case ']', '}':
			depth--
			line()
			w.WriteByte(c)
		case ',':
			w.WriteByte(c)
			line()
		case ':':
			w.WriteString(": ")
		default:
			w.WriteByte(c)
		}
	}
	w.WriteByte('\n')
}

// endOfString returns where the string that begins at i ends.
func endOfString(data []byte, i int) int {
	for i++; data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// flat returns where the array at i ends, or 0 if it is an object or holds any,
// or holds arrays. An empty object or array is flat.
func flat(data []byte, i int) int {
	if data[i] == '{' {
		if data[i+1] == '}' {
			return i + 2
		}
		return 0
	}
	for i++; data[i] != ']'; i++ {
		switch data[i] {
		case '"':
			i = endOfString(data, i) - 1
		case '[', '{':
			return 0
		}
	}
	return i + 1
}

// ReplaceFile writes a file beside path and renames it to path once write has
// succeeded, so that nobody sees half of it. What is no regular file, such as a
// pipe, is written to as it is.
func ReplaceFile(path string, write func(io.Writer) error) (err error) {
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := beside(path)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync() // or a crash might leave an empty file under the name
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// TryWrite tries whether a result could be written to path, and whether a result may
// name it, as one with profiles does. It leaves nothing behind.
func TryWrite(path string) error {
	if err := checkText(path); err != nil {
		return err
	}
	f, err := beside(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// beside creates a file whose name begins with path, and that nothing else has:
// one that a killed process has left is in nobody's way. Unlike os.CreateTemp, it
// leaves who may read it to the umask.
func beside(path string) (f *os.File, err error) {
	for range 100 {
		f, err = os.OpenFile(fmt.Sprintf("%s.tmp%08x", path, rand.Uint32()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, err
}
