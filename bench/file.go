package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// largest is the size of a result file that is not read any more.
const largest = 1 << 30

// ReadFile reads a result and validates it. Its errors name the file and the
// field.
func ReadFile(path string) (*Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if info.Mode().IsRegular() && info.Size() < largest {
		buf.Grow(int(info.Size()) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(f, largest+1))
	if err != nil {
		return nil, err
	}
	if n > largest {
		return nil, fmt.Errorf("%s: larger than %d bytes: not a result of ipcbench", path, largest)
	}
	r, err := decode(buf.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// decode reads a result from its JSON and validates it.
func decode(data []byte) (*Result, error) {
	r, err := stream(json.NewDecoder(bytes.NewReader(data)))
	if err != nil || r.Schema != Schema {
		return nil, explain(data)
	}
	r.Partial = oneLine(r.Partial) // of older builds, it may have several
	return r, r.Validate()
}

// stream reads a result cell by cell: a decoder holds the text of a whole value,
// and the cells of a large result are most of it.
func stream(d *json.Decoder) (*Result, error) {
	d.DisallowUnknownFields()
	if err := delim(d, '{'); err != nil {
		return nil, err
	}
	rest := map[string]json.RawMessage{}
	var cells []Cell
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		if key != "cells" {
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				return nil, err
			}
			rest[key.(string)] = value
			continue
		}
		switch token, err := d.Token(); {
		case err != nil:
			return nil, err
		case token == nil: // null
			continue
		case token != json.Delim('['):
			return nil, fmt.Errorf("cells: %v", token)
		}
		for d.More() {
			var c Cell
			if err := d.Decode(&c); err != nil {
				return nil, err
			}
			cells = append(cells, c)
		}
		if err := delim(d, ']'); err != nil {
			return nil, err
		}
	}
	if err := delim(d, '}'); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows")
	}
	data, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	small := json.NewDecoder(bytes.NewReader(data))
	small.DisallowUnknownFields()
	r := new(Result)
	if err := small.Decode(r); err != nil {
		return nil, err
	}
	r.Cells = append(r.Cells, cells...)
	return r, nil
}

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
	case versionErr == nil && *version.Schema != Schema:
		return fmt.Errorf("schema: version %d: this ipcbench reads version %d", *version.Schema, Schema)
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
		if b.Len() == 0 {
			return "the result"
		}
		return b.String()
	}
	d := json.NewDecoder(bytes.NewReader(data))
	key := false // the next string is a key
	for {
		token, err := d.Token()
		if err != nil {
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
func (r *Result) WriteFile(path string) error { return ReplaceFile(path, r.Write) }

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
	f, err := os.OpenFile(path+".tmp"+strconv.Itoa(os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
