package store

import (
	"fmt"
	"slices"

	"ipcbench/tensor"
)

// The JSON form of tensors is what reinforcement-learning systems ship between
// their processes today: base64 in JSON, whole in memory at both ends.

// JSON is a tensor in JSON. encoding/json spells bytes in base64.
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
	if m.Shape == nil {
		m.Shape = []int{}
	}
	return JSON{Type: "tensor", DType: m.DType, Shape: m.Shape, Data: data}
}

// ToJSON returns the tensors of p.
func ToJSON(p *tensor.Package) []JSON {
	tensors := make([]JSON, p.Len())
	for i := range tensors {
		s := p.Layout().Spec(i)
		tensors[i] = jsonOf(Meta{DType: s.DType.String(), Shape: s.Shape}, p.View(i))
	}
	return tensors
}

// FromJSON copies t to tensor i of p.
func FromJSON(p *tensor.Package, i int, t JSON) error {
	s, view := p.Layout().Spec(i), p.View(i)
	if t.Type != "tensor" || t.DType != s.DType.String() || !slices.Equal(t.Shape, s.Shape) || len(t.Data) != len(view) {
		return fmt.Errorf("tensor %d is %s %s %v with %d bytes, want %s %v with %d",
			i, t.Type, t.DType, t.Shape, len(t.Data), s.DType, s.Shape, len(view))
	}
	copy(view, t.Data)
	return nil
}
