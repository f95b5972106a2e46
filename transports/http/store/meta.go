package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
)

const maxDims = 32

// A Meta describes a tensor. The store also accepts element types that package tensor
// does not have, and handles such tensors as bytes.
type Meta struct {
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Size  int    `json:"bytes"`
	line  []byte // JSON line in a manifest; set by seal
}

// metaOf describes tensor i of p, with only the rows in use.
func metaOf(p *tensor.Package, i int) Meta {
	s := p.Layout().Spec(i)
	m := Meta{DType: s.DType.String(), Shape: append([]int{}, s.Shape...), Size: len(p.View(i))}
	if s.Var {
		m.Shape[0] = p.Rows(i)
	}
	return m
}

func (m Meta) known() (tensor.DType, bool) {
	d, err := tensor.ParseDType(m.DType)
	return d, err == nil
}

// check returns an error if m is malformed, or if its size does not match shape and
// element type.
func (m Meta) check() error {
	if m.DType == "" || len(m.DType) > maxID || strings.ContainsFunc(m.DType, func(r rune) bool { return !isIDRune(r) }) {
		return fmt.Errorf("dtype %q: must be a name", m.DType)
	}
	if len(m.Shape) > maxDims {
		return fmt.Errorf("shape has %d dimensions, must have at most %d", len(m.Shape), maxDims)
	}
	d, ok := m.known()
	if !ok {
		d = tensor.U8 // any known type serves to reject negative and overflowing shapes
	}
	want, err := tensor.Spec{Name: "shape", DType: d, Shape: m.Shape}.Bytes()
	if err == nil && ok && want != m.Size {
		err = fmt.Errorf("%d bytes for %s %v, must be %d", m.Size, m.DType, m.Shape, want)
	}
	return err
}

// seal checks m, and returns it with its line set.
func (m Meta) seal() (Meta, error) {
	err := m.check()
	if err == nil {
		m.line, err = json.Marshal(m)
	}
	m.line = append(m.line, '\n')
	return m, err
}

// A Manifest describes the tensors of a body. Its encoding has one line of JSON per
// tensor, in the order of the layout. The manifest of a selection consists of the
// selected lines.
type Manifest struct {
	Bytes  []byte
	All    []int // indexes of all tensors: 0, 1, …
	layout *tensor.Layout
	metas  []Meta
}

// ManifestOf returns the manifest of packages of layout l with all rows in use.
func ManifestOf(l *tensor.Layout) (m Manifest, err error) {
	m.layout = l
	for i := range l.Len() {
		s := l.Spec(i)
		if err := m.add(Meta{DType: s.DType.String(), Shape: append([]int{}, s.Shape...), Size: l.Bytes(i)}); err != nil {
			return m, fmt.Errorf("tensor %d (%s): %w", i, s.Name, err)
		}
	}
	return m, nil
}

func (m *Manifest) add(t Meta) (err error) {
	t, err = t.seal()
	m.All, m.metas, m.Bytes = append(m.All, len(m.All)), append(m.metas, t), append(m.Bytes, t.line...)
	return err
}

// Of returns the manifest of p, with only the rows in use.
func (m Manifest) Of(p *tensor.Package) Manifest {
	if !m.layout.Var() {
		return m
	}
	of := Manifest{layout: m.layout}
	for i := range m.metas {
		_ = of.add(m.inUse(i, p)) // cannot fail: fewer rows are always valid
	}
	return of
}

// inUse describes tensor i of p, with only the rows in use.
func (m Manifest) inUse(i int, p *tensor.Package) Meta {
	if m.layout.Spec(i).Var {
		return metaOf(p, i)
	}
	return m.metas[i]
}

// admit returns an error if got, sent by a peer, is not valid for tensor i. It sets the
// tensor's rows in p.
func (m Manifest) admit(i int, got Meta, p *tensor.Package) error {
	if m.layout.Spec(i).Var && len(got.Shape) > 0 {
		if err := p.SetRows(i, got.Shape[0]); err != nil {
			return err
		}
	}
	if want := m.inUse(i, p); got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || got.Size != want.Size {
		return fmt.Errorf("tensor %d is %.50s %.200v with %d bytes, must be %s %v with %d",
			i, got.DType, fmt.Sprint(got.Shape), got.Size, want.DType, want.Shape, want.Size)
	}
	return nil
}

// Read reads a manifest of n bytes from body, and sets the rows of tensors in p. It
// fails unless the manifest is valid for the tensors with the indexes which. got is
// scratch memory.
func (m Manifest) Read(body io.Reader, n int, which []int, p *tensor.Package, got *[]byte) error {
	if n > 2*len(m.Bytes) {
		return fmt.Errorf("table has %d bytes, must have at most %d", n, 2*len(m.Bytes))
	}
	*got = slices.Grow((*got)[:0], n)[:n]
	if _, err := io.ReadFull(body, *got); err != nil {
		return err
	}
	rest := *got
	for _, i := range which {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		t := &m.metas[i]
		if !bytes.Equal(line, bytes.TrimSuffix(t.line, []byte{'\n'})) {
			t = &Meta{}
			if err := exchange.ParseJSON(line, t); err != nil {
				return fmt.Errorf("table: tensor %d: %w", i, err)
			}
		}
		if err := m.admit(i, *t, p); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return errors.New("table continues after the last tensor")
	}
	return nil
}

func parseShape(s string) ([]int, error) {
	shape := []int{}
	if s == "" {
		return shape, nil
	}
	for p := range strings.SplitSeq(s, ",") {
		n, err := exchange.ParseCount(p, 1<<62)
		if err != nil || len(shape) == maxDims {
			return nil, fmt.Errorf("shape %.200q: must be at most %d numbers, separated by commas", s, maxDims)
		}
		shape = append(shape, int(n))
	}
	return shape, nil
}

func formatShape(shape []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ","), "[]")
}
