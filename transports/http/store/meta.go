package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
)

const maxDims = 32

// A Meta is what a tensor is: its element type by name, its shape and its size. The
// store takes element types that it does not know, as bytes.
type Meta struct {
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Size  int    `json:"bytes"`
}

func metaOf(s tensor.Spec) (Meta, error) {
	n, err := s.Bytes()
	m := Meta{DType: s.DType.String(), Shape: append([]int{}, s.Shape...), Size: n}
	if err == nil {
		err = m.check()
	}
	return m, err
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
	if err == nil && ok && want != m.Size {
		err = fmt.Errorf("%d bytes of %s %v, want %d", m.Size, m.DType, m.Shape, want)
	}
	return err
}

// entry returns the tensor's line in a manifest.
func (m Meta) entry() []byte {
	line, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and numbers
	}
	return append(line, '\n')
}

// A Manifest says what tensors a body has: one line of JSON each. That of a batch
// of consecutive tensors is a part of it.
type Manifest struct {
	Bytes []byte
	All   []int // the tensors: 0, 1, …
	metas []Meta
	at    []int // where the line of each tensor starts, and the end of the last
}

// ManifestOf returns the manifest of l.
func ManifestOf(l *tensor.Layout) (Manifest, error) {
	m := Manifest{at: []int{0}}
	for i := range l.Len() {
		t, err := metaOf(l.Spec(i))
		if err != nil {
			return Manifest{}, fmt.Errorf("tensor %d (%s): %w", i, l.Spec(i).Name, err)
		}
		m.Bytes = append(m.Bytes, t.entry()...)
		m.metas, m.at, m.All = append(m.metas, t), append(m.at, len(m.Bytes)), append(m.All, i)
	}
	return m, nil
}

// entry returns the line of tensor i.
func (m Manifest) entry(i int) []byte { return m.Bytes[m.at[i]:m.at[i+1]] }

// match checks that got is want, and says what differs where it is not.
func match(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := 0; ; i++ {
		g, gotRest, _ := bytes.Cut(got, []byte{'\n'})
		w, wantRest, _ := bytes.Cut(want, []byte{'\n'})
		if !bytes.Equal(g, w) || len(got) == 0 || len(want) == 0 {
			return fmt.Errorf("tensor %d is %.200q, want %.200q", i, g, w)
		}
		got, want = gotRest, wantRest
	}
}

// parseShape reads a shape from a header field.
func parseShape(s string) ([]int, error) {
	shape := []int{}
	if s == "" {
		return shape, nil
	}
	for p := range strings.SplitSeq(s, ",") {
		n, err := exchange.ParseCount(p, 1<<62)
		if err != nil || len(shape) == maxDims {
			return nil, fmt.Errorf("shape %.200q: want %d numbers at most, with commas between them", s, maxDims)
		}
		shape = append(shape, int(n))
	}
	return shape, nil
}

func formatShape(shape []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ","), "[]")
}
