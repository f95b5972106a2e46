package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
)

const maxDims = 32

// A Meta is what a tensor is: its element type by name and its shape. The store
// takes element types that it does not know, as bytes.
type Meta struct {
	DType string
	Shape []int
	Size  int // bytes
}

func metaOf(s tensor.Spec) (Meta, error) {
	n, err := s.Bytes()
	return Meta{DType: s.DType.String(), Shape: s.Shape, Size: n}, err
}

// known returns the element type, if it is one of ours.
func (m Meta) known() (tensor.DType, bool) {
	d, err := tensor.ParseDType(m.DType)
	return d, err == nil
}

// check compares the size with what shape and element type demand.
func (m Meta) check() error {
	if m.DType == "" || len(m.DType) > maxID || strings.ContainsFunc(m.DType, func(r rune) bool { return !isIDRune(r) }) {
		return fmt.Errorf("dtype %q: want a name", m.DType)
	}
	if len(m.Shape) > maxDims {
		return fmt.Errorf("%d dimensions, want %d at most", len(m.Shape), maxDims)
	}
	d, ok := m.known()
	if !ok {
		d = tensor.U8 // whatever its element's size, there is no negative or overflowing shape
	}
	want, err := tensor.Spec{Name: "shape", DType: d, Shape: m.Shape}.Bytes()
	if err != nil {
		return err
	}
	if ok && want != m.Size {
		return fmt.Errorf("%d bytes of %s %v, want %d", m.Size, m.DType, m.Shape, want)
	}
	return nil
}

// appendEntry appends a table entry: dtype, shape and size of one tensor.
func (m Meta) appendEntry(b []byte) []byte {
	b = append(b, byte(len(m.DType)))
	b = append(b, m.DType...)
	b = append(b, byte(len(m.Shape)))
	for _, d := range m.Shape {
		b = binary.AppendUvarint(b, uint64(d))
	}
	return binary.AppendUvarint(b, uint64(m.Size))
}

var errManifest = errors.New("table of tensors is malformed")

// parseEntry reads the first entry of a table.
func parseEntry(b []byte) (m Meta, rest []byte, err error) {
	name, b, ok := cut(b)
	if !ok || len(b) == 0 || b[0] > maxDims {
		return Meta{}, nil, errManifest
	}
	m.DType, m.Shape = string(name), make([]int, b[0])
	b = b[1:]
	for i := range len(m.Shape) + 1 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<62 {
			return Meta{}, nil, errManifest
		}
		b = b[n:]
		if i < len(m.Shape) {
			m.Shape[i] = int(v)
		} else {
			m.Size = int(v)
		}
	}
	return m, b, m.check()
}

// cut splits b after a field that starts with its length in one byte.
func cut(b []byte) (field, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > len(b)-1 {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n], b[n:], true
}

// A Manifest is the encoded entries of all tensors of a layout. That of a batch of
// consecutive tensors is a part of it.
type Manifest struct {
	Bytes []byte
	at    []int // where the entry of each tensor starts, and the end of the last
}

// ManifestOf returns the manifest of l.
func ManifestOf(l *tensor.Layout) (Manifest, error) {
	m := Manifest{at: []int{0}}
	for i := range l.Len() {
		t, err := metaOf(l.Spec(i))
		if err == nil {
			err = t.check()
		}
		if err != nil {
			return Manifest{}, fmt.Errorf("tensor %d (%s): %w", i, l.Spec(i).Name, err)
		}
		m.Bytes = t.appendEntry(m.Bytes)
		m.at = append(m.at, len(m.Bytes))
	}
	return m, nil
}

// entry returns the entry of tensor i.
func (m Manifest) entry(i int) []byte { return m.Bytes[m.at[i]:m.at[i+1]] }

// MatchManifest checks that got is want, and says what differs where it is not.
func MatchManifest(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := 0; len(want) > 0; i++ {
		var w, g Meta
		var err error
		if w, want, err = parseEntry(want); err != nil {
			return err
		}
		if len(got) == 0 {
			return fmt.Errorf("table ends before tensor %d", i)
		}
		if g, got, err = parseEntry(got); err != nil {
			return fmt.Errorf("tensor %d: %w", i, err)
		}
		if g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) || g.Size != w.Size {
			return fmt.Errorf("tensor %d is %s %v, want %s %v", i, g.DType, g.Shape, w.DType, w.Shape)
		}
	}
	if len(got) > 0 {
		return errors.New("table goes on after the last tensor")
	}
	return errManifest // equal entries, spelt in another way
}

// parseShape reads a shape from a header field.
func parseShape(s string) ([]int, error) {
	if s == "" {
		return []int{}, nil
	}
	parts := strings.Split(s, ",")
	if len(parts) > maxDims {
		return nil, fmt.Errorf("%d dimensions, want %d at most", len(parts), maxDims)
	}
	shape := make([]int, len(parts))
	for i, p := range parts {
		n, err := exchange.ParseCount(p, 1<<62)
		if err != nil {
			return nil, fmt.Errorf("shape %q: want numbers with commas between them", s)
		}
		shape[i] = int(n)
	}
	return shape, nil
}

func formatShape(shape []int) string {
	var b []byte
	for i, d := range shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(d), 10)
	}
	return string(b)
}
