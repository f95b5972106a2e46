package models

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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

// maxDimensions is more than any framework allows, and maxEntry the size limit of a tensor's JSON
// in bytes, with so many.
const (
	maxDimensions = 64
	maxEntry      = 4096
)

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

// open reads the header of the safetensors file at path, and returns its tensors.
func open(path string) (*file, []tensor.Spec, error) {
	if err := legible.Check(path); err != nil { // the path names cells in results
		return nil, nil, fmt.Errorf("path %q: %w", path, err)
	}
	// Stat before Open, because opening a pipe would wait for a writer.
	if info, err := os.Stat(path); err != nil {
		return nil, nil, err
	} else if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("read %s: not a regular file", path)
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, nil, err
	}
	specs, data, err := readHeader(in, info.Size())
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	absolute, err := filepath.Abs(path) // the working directory may change before read
	return &file{path: absolute, size: info.Size(), changed: info.ModTime(), data: data}, specs, err
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
	if n := bytes.Count(header, []byte(`"data_offsets"`)); n > maxTensors { // before parsing, which would take seconds
		return nil, fmt.Errorf("the header has %d tensors: must have at most %d", n, maxTensors)
	}
	if len(header) == 0 || header[0] != '{' {
		return nil, errors.New("the header is not a JSON object")
	}
	// Two readers of duplicate keys, or of other text than UTF-8, could see different files.
	if err := json.Unmarshal(header, new(jsontext.Value)); err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	var entries []entry
	d := jsontext.NewDecoder(bytes.NewReader(header)) // has no errors with valid JSON
	for _, _ = d.ReadToken(); d.PeekKind() == '"'; {
		token, _ := d.ReadToken()
		name := token.String()
		value, _ := d.ReadValue()
		if name == metadataKey {
			if err := json.Unmarshal(value, new(map[string]string)); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		e, err := parseEntry(name, value)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		entries = append(entries, e)
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

// parseEntry parses the value of the tensor called name.
func parseEntry(name string, value jsontext.Value) (entry, error) {
	var e struct {
		DType   string   `json:"dtype"`
		Shape   []uint64 `json:"shape"`
		Offsets []uint64 `json:"data_offsets"`
	}
	if len(value) > maxEntry {
		return entry{}, fmt.Errorf("%d bytes of JSON: must be at most %d", len(value), maxEntry)
	}
	if err := json.Unmarshal(value, &e, json.RejectUnknownMembers(true)); err != nil {
		return entry{}, err
	}
	dtype, known := fileTypes[e.DType]
	switch {
	case e.DType == "" || e.Shape == nil || e.Offsets == nil:
		return entry{}, errors.New("dtype, shape and data_offsets are required")
	case !known:
		return entry{}, fmt.Errorf("dtype %q is not supported: must be one of %s", e.DType, strings.Join(slices.Sorted(maps.Keys(fileTypes)), ", "))
	case len(e.Shape) > maxDimensions:
		return entry{}, fmt.Errorf("shape has more than %d numbers", maxDimensions)
	case len(e.Offsets) != 2 || e.Offsets[0] > e.Offsets[1]:
		return entry{}, fmt.Errorf("data_offsets must be a start and an end, not %v", e.Offsets)
	}
	spec := tensor.Spec{Name: name, DType: dtype}
	for _, d := range e.Shape {
		if uint64(int(d)) != d || int(d) < 0 {
			return entry{}, fmt.Errorf("dimension %d is too large", d)
		}
		spec.Shape = append(spec.Shape, int(d))
	}
	n, err := spec.Bytes()
	if err == nil && e.Offsets[1]-e.Offsets[0] != uint64(n) {
		err = fmt.Errorf("%v %v has %d bytes, data_offsets %d to %d span %d", dtype, spec.Shape, n, e.Offsets[0], e.Offsets[1], e.Offsets[1]-e.Offsets[0])
	}
	return entry{spec, e.Offsets[0], e.Offsets[1]}, err
}

// read reads the data of all tensors directly into p.
func (f *file) read(p *tensor.Package) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if info.Size() != f.size || !info.ModTime().Equal(f.changed) {
		return fmt.Errorf("read %s: the file has changed since its header was read", f.path)
	}
	at := f.data
	for i := range p.Len() {
		view, spec := p.View(i), p.Layout().Spec(i)
		if _, err := in.ReadAt(view, at); err != nil {
			return fmt.Errorf("read %s: tensor %q: %w", f.path, spec.Name, err)
		}
		at += int64(len(view))
		if spec.DType == tensor.Bool {
			if j := slices.IndexFunc(view, func(b byte) bool { return b > 1 }); j >= 0 {
				return fmt.Errorf("read %s: tensor %q: bool %d must be 0 or 1, not %d", f.path, spec.Name, j, view[j])
			}
		}
	}
	return nil
}
