package store

import (
	"fmt"
	"io"
	"net/http"
	"slices"

	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
)

// Header fields of bodies with tensors.
const (
	FieldCount = "Tensor-Count"
	FieldTable = "Table-Bytes" // of the manifest in front of the tensors
)

// ReadRaw reads a body of which n bytes are left: the manifest want and the tensors
// in which, straight to their places in p. got is memory for the manifest.
func ReadRaw(body io.Reader, h http.Header, n int64, want []byte, which []int, p *tensor.Package, got *[]byte) error {
	table, err := exchange.ParseCount(h.Get(FieldTable), uint64(n))
	if err != nil {
		return fmt.Errorf("%s: %w", FieldTable, err)
	}
	*got = slices.Grow((*got)[:0], len(want)+1)[:min(int(table), len(want)+1)] // one byte too many is a difference, too
	if _, err := io.ReadFull(body, *got); err != nil {
		return err
	}
	if err := match(*got, want); err != nil {
		return err
	}
	size := 0
	for _, i := range which {
		size += len(p.View(i))
	}
	if n != table+int64(size) {
		return fmt.Errorf("%d bytes, want a table of %d and tensors of %d", n, table, size)
	}
	for _, i := range which {
		if _, err := io.ReadFull(body, p.View(i)); err != nil {
			return err
		}
	}
	return nil
}

// JSON is a tensor as reinforcement-learning systems ship it between their
// processes today: base64 in JSON, whole in memory at both ends.
type JSON struct {
	Type  string `json:"type"` // always "tensor"
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Data  []byte `json:"data"`
}

// JSONLimit returns how long the JSON form of n tensors with the given payload
// may be: four bytes for three, and room for names and shapes.
func JSONLimit(tensors, payload int) int {
	return 1<<20 + tensors*(maxDims*20+2*maxID) + (payload+2*tensors)/3*4 + 4*tensors
}

func jsonOf(m Meta, data []byte) JSON {
	return JSON{Type: "tensor", DType: m.DType, Shape: m.Shape, Data: data}
}

// ToJSON returns the tensors of p, which m describes.
func (m Manifest) ToJSON(p *tensor.Package) []JSON {
	tensors := make([]JSON, p.Len())
	for i := range tensors {
		tensors[i] = jsonOf(m.metas[i], p.View(i))
	}
	return tensors
}

// FromJSON copies tensors to those in which of p, which m describes.
func (m Manifest) FromJSON(p *tensor.Package, which []int, tensors []JSON) error {
	if len(tensors) != len(which) {
		return fmt.Errorf("%w: %d, want %d", errCount, len(tensors), len(which))
	}
	for n, i := range which {
		t, want, view := tensors[n], m.metas[i], p.View(i)
		if t.Type != "tensor" || t.DType != want.DType || !slices.Equal(t.Shape, want.Shape) || len(t.Data) != len(view) {
			return fmt.Errorf("tensor %d is %s %s %v with %d bytes, want %s %v with %d",
				i, t.Type, t.DType, t.Shape, len(t.Data), want.DType, want.Shape, len(view))
		}
		copy(view, t.Data)
	}
	return nil
}
