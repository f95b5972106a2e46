package store

import (
	"fmt"
	"io"

	"ipcbench/tensor"
)

// Header fields of bodies with tensors.
const (
	FieldCount = "Tensor-Count"
	FieldTable = "Table-Bytes" // of the manifest in front of the tensors
)

// ReadTensors reads the tensors in which straight to their places in p. They must
// be all of the n bytes that are left of the body.
func ReadTensors(body io.Reader, n int, which []int, p *tensor.Package) error {
	size := 0
	for _, i := range which {
		size += len(p.View(i))
	}
	if n != size {
		return fmt.Errorf("tensors of %d bytes, want %d", n, size)
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

// ToJSON returns the tensors of p.
func (m Manifest) ToJSON(p *tensor.Package) []JSON {
	tensors := make([]JSON, p.Len())
	for i := range tensors {
		tensors[i] = jsonOf(m.inUse(i, p), p.View(i))
	}
	return tensors
}

// FromJSON copies tensors to those in which of p.
func (m Manifest) FromJSON(p *tensor.Package, which []int, tensors []JSON) error {
	if len(tensors) != len(which) {
		return fmt.Errorf("%w: %d, want %d", errCount, len(tensors), len(which))
	}
	for n, i := range which {
		t := tensors[n]
		if t.Type != "tensor" {
			return fmt.Errorf("tensor %d is of type %.20q, want %q", i, t.Type, "tensor")
		}
		if err := m.admit(i, Meta{DType: t.DType, Shape: t.Shape, Size: len(t.Data)}, p); err != nil {
			return err
		}
		copy(p.View(i), t.Data)
	}
	return nil
}
