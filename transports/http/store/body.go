package store

import (
	"fmt"
	"io"
	"slices"

	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
)

// Header fields of bodies with several tensors.
const (
	FieldCount = "Tensor-Count"
	FieldTable = "Table-Bytes" // bytes of the manifest before the tensors
)

// ReadTensors reads the last n bytes of a body into p: the tensors with the indexes
// which, in that order. It fails if their sizes do not add up to n. Small tensors are read
// through scratch, many at a time.
func ReadTensors(body io.Reader, n int, which []int, p *tensor.Package, scratch *[]byte) error {
	size := 0
	for _, i := range which {
		size += len(p.View(i))
	}
	if n != size {
		return fmt.Errorf("tensors have %d bytes, must have %d", n, size)
	}
	for len(which) > 0 {
		run, length := smallRun(which, p)
		if run == 0 {
			if _, err := io.ReadFull(body, p.View(which[0])); err != nil {
				return err
			}
			which = which[1:]
			continue
		}
		*scratch = slices.Grow((*scratch)[:0], length)[:length]
		if _, err := io.ReadFull(body, *scratch); err != nil {
			return err
		}
		rest := *scratch
		for _, i := range which[:run] {
			rest = rest[copy(p.View(i), rest):]
		}
		which = which[run:]
	}
	return nil
}

// smallRun returns the number of tensors at the start of which that are read at once, and the
// sum of their sizes. It is 0 if the first is not small.
func smallRun(which []int, p *tensor.Package) (run, length int) {
	for _, i := range which {
		n := len(p.View(i))
		if n >= exchange.Small || length+n > exchange.Gathered {
			break
		}
		run, length = run+1, length+n
	}
	return run, length
}

// JSON is a tensor as reinforcement-learning systems send it between processes: base64
// in JSON, which is in memory as a whole at both ends.
type JSON struct {
	Type  string `json:"type"` // always "tensor"
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Data  []byte `json:"data"`
}

// JSONLimit returns the largest size of the JSON form of tensors with the given number
// and payload: four bytes for three, and room for names and shapes.
func JSONLimit(tensors, payload int) int {
	return 1<<20 + tensors*(maxDims*20+2*maxID) + (payload+2*tensors)/3*4 + 4*tensors
}

func jsonOf(m Meta, data []byte) JSON {
	return JSON{Type: "tensor", DType: m.DType, Shape: m.Shape, Data: data}
}

// ToJSON returns the tensors of p, which must have m's layout.
func (m Manifest) ToJSON(p *tensor.Package) []JSON {
	tensors := make([]JSON, p.Len())
	for i := range tensors {
		tensors[i] = jsonOf(m.inUse(i, p), p.View(i))
	}
	return tensors
}

// FromJSON checks tensors against m, and copies them to the tensors of p with the
// indexes which.
func (m Manifest) FromJSON(p *tensor.Package, which []int, tensors []JSON) error {
	if len(tensors) != len(which) {
		return fmt.Errorf("%w: %d, must be %d", errCount, len(tensors), len(which))
	}
	for n, i := range which {
		t := tensors[n]
		if t.Type != "tensor" {
			return fmt.Errorf("tensor %d has type %.20q, must be %q", i, t.Type, "tensor")
		}
		if err := m.admit(i, Meta{DType: t.DType, Shape: t.Shape, Size: len(t.Data)}, p); err != nil {
			return err
		}
		copy(p.View(i), t.Data)
	}
	return nil
}
