package models

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ipcbench/internal/legible"
	"ipcbench/tensor"
)

// A .safetensors file (https://github.com/huggingface/safetensors) is
//
//	8 bytes   length n of the header, little-endian
//	n bytes   JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//	the rest  the data; offsets count from its start
//
// The tensors' data must fill the rest without gaps or overlaps; the header may list them
// in any order. The optional key "__metadata__" has strings, which are checked and
// ignored.

// maxHeader is the largest header that the format allows, in bytes.
const maxHeader = 100_000_000

// maxTensors is the most tensors that a result allows.
const maxTensors = 1 << 20

// maxList is the most numbers that a list in a header may have. No framework allows so
// many dimensions.
const maxList = 64

// metadataKey is the only key of a header that is not a tensor's name.
const metadataKey = "__metadata__"

// fileTypes has the data types by their names in a file.
var fileTypes = map[string]tensor.DType{
	"F16": tensor.F16, "BF16": tensor.BF16, "F32": tensor.F32, "F64": tensor.F64,
	"I8": tensor.I8, "I16": tensor.I16, "I32": tensor.I32, "I64": tensor.I64,
	"BOOL": tensor.Bool, "U8": tensor.U8,
}

// A file is a safetensors file whose header was checked.
type file struct {
	path    string
	size    int64
	changed time.Time
	data    int64 // offset of the data in the file
}

// open reads the header of the safetensors file at path.
func open(path string) (*Model, error) {
	if err := legible.Check(path); err != nil { // the path names cells in results
		return nil, fmt.Errorf("model: path %q: %w", path, err)
	}
	// Stat before Open, because opening a pipe would wait for a writer.
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("model: read %s: not a regular file", path)
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	specs, data, err := readHeader(in, info.Size())
	if err != nil {
		return nil, fmt.Errorf("model: read %s: %w", path, err)
	}
	m, err := generated(path, specs)
	if err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path) // the working directory may change before read
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	m.file = &file{path: absolute, size: info.Size(), changed: info.ModTime(), data: data}
	return m, nil
}

// readHeader returns the tensors of a safetensors file of the given size, in the order of
// their data, and the data's offset.
func readHeader(r io.ReaderAt, size int64) ([]tensor.Spec, int64, error) {
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, 0, fmt.Errorf("%d bytes are too few for a header", size)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, 0, err
	}
	n, rest := binary.LittleEndian.Uint64(prefix[:]), uint64(size)-uint64(len(prefix))
	switch {
	case n > maxHeader:
		return nil, 0, fmt.Errorf("the header has %d bytes, but the format allows at most %d", n, maxHeader)
	case n > rest:
		return nil, 0, fmt.Errorf("the header has %d bytes, but only %d follow", n, rest)
	}
	header := make([]byte, n)
	if _, err := r.ReadAt(header, int64(len(prefix))); err != nil {
		return nil, 0, err
	}
	specs, err := parseHeader(header, rest-n)
	return specs, int64(len(prefix)) + int64(n), err
}

// An entry is one tensor in a header.
type entry struct {
	tensor.Spec
	begin, end uint64
}

// parseHeader returns the tensors in a header in the order of their data, which has
// dataSize bytes.
func parseHeader(header []byte, dataSize uint64) ([]tensor.Spec, error) {
	// The JSON decoder replaces invalid UTF-8 and accepts duplicate keys. With either,
	// two readers could see different files.
	if !utf8.Valid(header) {
		return nil, errors.New("the header is not UTF-8")
	}
	if n := bytes.Count(header, []byte(`"data_offsets"`)); n > maxTensors { // before parsing, which would take seconds
		return nil, fmt.Errorf("the header has %d tensors: must have at most %d", n, maxTensors)
	}
	if !json.Valid(header) || header[0] != '{' {
		return nil, errors.New("the header is not a JSON object")
	}
	h := headerReader{json.NewDecoder(bytes.NewReader(header))}
	h.UseNumber()

	var entries []entry
	err := h.object(func(name string) error {
		if name == metadataKey {
			return h.metadata()
		}
		e, err := h.entry(name)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, err
	}

	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	specs := make([]tensor.Spec, len(entries))
	var at uint64
	for i, e := range entries {
		switch {
		case e.begin < at:
			return nil, fmt.Errorf("tensor %q starts at %d, inside tensor %q, which ends at %d", e.Name, e.begin, entries[i-1].Name, at)
		case e.begin > at:
			return nil, fmt.Errorf("tensor %q starts at %d: the bytes from %d belong to no tensor", e.Name, e.begin, at)
		case e.end > dataSize:
			return nil, fmt.Errorf("tensor %q ends at %d, but the data has %d bytes", e.Name, e.end, dataSize)
		}
		at, specs[i] = e.end, e.Spec
	}
	if at != dataSize {
		return nil, fmt.Errorf("the tensors end at %d, but the data has %d bytes", at, dataSize)
	}
	return specs, nil
}

// A headerReader reads a header that is valid JSON.
type headerReader struct{ *json.Decoder }

// object reads an object. It calls value for each key, and value must read the key's
// value.
func (h headerReader) object(value func(key string) error) error {
	if err := h.delim('{', "an object"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for h.More() {
		token, err := h.Token()
		if err != nil {
			return err
		}
		key := token.(string) // JSON has no other keys
		if seen[key] {
			return fmt.Errorf("duplicate key %q", key)
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	_, err := h.Token()
	return err
}

// entry reads the value of the tensor called name.
func (h headerReader) entry(name string) (entry, error) {
	e := entry{Spec: tensor.Spec{Name: name}}
	var fields int
	err := h.object(func(key string) error {
		fields++
		switch key {
		case "dtype":
			text, err := h.text("dtype")
			if err != nil {
				return err
			}
			var ok bool
			if e.DType, ok = fileTypes[text]; !ok {
				return fmt.Errorf("dtype %q is not supported: must be one of %s",
					text, strings.Join(slices.Sorted(maps.Keys(fileTypes)), ", "))
			}
		case "shape":
			shape, err := h.numbers("shape")
			if err != nil {
				return err
			}
			for _, d := range shape {
				if uint64(int(d)) != d || int(d) < 0 {
					return fmt.Errorf("dimension %d is too large", d)
				}
				e.Shape = append(e.Shape, int(d))
			}
		case "data_offsets":
			offsets, err := h.numbers("data_offsets")
			if err != nil {
				return err
			}
			if len(offsets) != 2 || offsets[0] > offsets[1] {
				return fmt.Errorf("data_offsets must be a start and an end, not %v", offsets)
			}
			e.begin, e.end = offsets[0], offsets[1]
		default:
			return fmt.Errorf("unknown key %q", key)
		}
		return nil
	})
	if err != nil {
		return entry{}, err
	}
	if fields != 3 { // unknown and duplicate keys are errors, so a key is missing
		return entry{}, errors.New("dtype, shape and data_offsets are required")
	}
	n, err := e.Bytes()
	if err != nil {
		return entry{}, err
	}
	if e.end-e.begin != uint64(n) {
		return entry{}, fmt.Errorf("%v %v has %d bytes, data_offsets %d to %d span %d", e.DType, e.Shape, n, e.begin, e.end, e.end-e.begin)
	}
	return e, nil
}

// metadata reads an object whose values are strings.
func (h headerReader) metadata() error {
	err := h.object(func(key string) error {
		_, err := h.text(strconv.Quote(key))
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", metadataKey, err)
	}
	return nil
}

func (h headerReader) delim(want json.Delim, what string) error {
	token, err := h.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("found %s instead of %s", quoted(token), what)
	}
	return nil
}

// quoted returns t for an error. Strings are escaped, so a file cannot control the
// terminal.
func quoted(t json.Token) string {
	if s, ok := t.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(t)
}

func (h headerReader) text(what string) (string, error) {
	token, err := h.Token()
	if err != nil {
		return "", err
	}
	s, ok := token.(string)
	if !ok {
		return "", fmt.Errorf("%s must be a string, not %v", what, token)
	}
	return s, nil
}

// numbers reads a list of integers that are not negative.
func (h headerReader) numbers(what string) ([]uint64, error) {
	if err := h.delim('[', "a list for "+what); err != nil {
		return nil, err
	}
	var all []uint64
	for h.More() {
		token, err := h.Token()
		if err != nil {
			return nil, err
		}
		number, ok := token.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s has %s among its numbers", what, quoted(token))
		}
		n, err := strconv.ParseUint(number.String(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s has %v among its numbers, must be whole and below 2^64", what, number)
		}
		if all = append(all, n); len(all) > maxList {
			return nil, fmt.Errorf("%s has more than %d numbers", what, maxList)
		}
	}
	_, err := h.Token()
	return all, err
}

// read reads the data of all tensors directly into p.
func (f *file) read(p *tensor.Package) error {
	in, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	if info.Size() != f.size || !info.ModTime().Equal(f.changed) {
		return fmt.Errorf("model: read %s: the file has changed since its header was read", f.path)
	}
	at := f.data
	for i := range p.Len() {
		view, spec := p.View(i), p.Layout().Spec(i)
		if _, err := in.ReadAt(view, at); err != nil {
			return fmt.Errorf("model: read %s: tensor %q: %w", f.path, spec.Name, err)
		}
		at += int64(len(view))
		if spec.DType == tensor.Bool {
			if j := slices.IndexFunc(view, func(b byte) bool { return b > 1 }); j >= 0 {
				return fmt.Errorf("model: read %s: tensor %q: bool %d must be 0 or 1, not %d", f.path, spec.Name, j, view[j])
			}
		}
	}
	return nil
}
