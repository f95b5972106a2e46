package pickle

import (
	"encoding/gob"
	"fmt"
	"slices"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// pieceSize is the most bytes of a tensor in one gob value: a whole number of
// elements of any type. gob copies a value into a buffer at either end; buffers of
// this size are used again while they are in the processor's cache. And it grows
// the buffer of a value of more than 10 MiB step by step, from nothing, each time.
const pieceSize = 1024 << 10

// A header starts every message. The tensors of a package follow it, if the
// message carries any, each as gob values of pieceSize bytes and one for the rest.
type header struct {
	Hello   *hello // the first message of a worker, and the server's answer
	Refused string // the server's answer to a worker that does not belong here
	Job     driver.Job
	Receipt []byte
	Path    string // of the client's file, where tensors travel in files
	Tensors int    // that follow
	End     bool   // the server has shut down
}

// hello is how a worker makes itself known.
type hello struct {
	Lane     int
	Down, Up uint64 // digests of its layouts
}

// A packer turns packages into gob values and back.
type packer struct {
	elems   bool
	tensors *phase.Counter
	bytes   *phase.Counter
	numbers numbers // scratch of elems
}

func newPacker(o driver.Options) *packer {
	return &packer{
		elems:   o.Settings.On("elems"),
		tensors: o.Rec.Counter(phase.BodyTensors), bytes: o.Rec.Counter(phase.BodyBytes),
	}
}

// encode writes h and the tensors of p. It counts them first: the peer goes on as
// soon as it has the last byte.
func (k *packer) encode(enc *gob.Encoder, h header, p *tensor.Package) error {
	k.tensors.Add(p.Len())
	k.bytes.Add(p.Layout().Payload())
	h.Tensors = p.Len()
	if err := enc.Encode(h); err != nil {
		return err
	}
	for i := range p.Len() {
		for piece := range slices.Chunk(p.View(i), pieceSize) {
			var v any = piece
			if k.elems {
				k.numbers = numbersOf(p.Layout().Spec(i).DType, piece)
				v = &k.numbers
			}
			if err := enc.Encode(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// decode reads the tensors that follow h into their places in p. gob reuses a
// slice's memory if the value fits; the size of what arrived is checked, since a
// larger value has landed elsewhere.
func (k *packer) decode(st *stream, id phase.ID, h header, p *tensor.Package) error {
	span := st.rec.Begin(phase.Decode, id)
	defer span.End()
	if h.Tensors != p.Len() {
		return fmt.Errorf("message holds %d tensors, the layout has %d", h.Tensors, p.Len())
	}
	p.Receipt = append(p.Receipt[:0], h.Receipt...)
	for i := range p.Len() {
		spec := p.Layout().Spec(i)
		for piece := range slices.Chunk(p.View(i), pieceSize) {
			if err := k.decodePiece(st, spec.DType, piece); err != nil {
				return fmt.Errorf("tensor %d (%q): %w", i, spec.Name, err)
			}
		}
	}
	return nil
}

// decodePiece reads one gob value into view.
func (k *packer) decodePiece(st *stream, d tensor.DType, view []byte) error {
	if !k.elems {
		got := view[:0]
		err := st.next(&got)
		if err == nil && len(got) != len(view) {
			err = fmt.Errorf("a piece of %d bytes arrived, the layout says %d", len(got), len(view))
		}
		return err
	}
	want := numbersOf(d, view)
	k.numbers = want.emptied()
	err := st.next(&k.numbers)
	if err == nil && k.numbers.lengths() != want.lengths() {
		err = fmt.Errorf("a piece with %v numbers in its fields arrived, the layout says %v", k.numbers.lengths(), want.lengths())
	}
	return err
}

// numbers is a tensor as a slice of its elements, of which one field is set.
// gob encodes all but bytes one element at a time, floats and integers in a
// variable number of bytes. bool and u8 are bytes either way.
type numbers struct {
	Bytes []uint8
	I8    []int8
	I16   []int16
	I32   []int32
	I64   []int64
	Half  []uint16 // f16 and bf16
	F32   []float32
	F64   []float64
}

func numbersOf(d tensor.DType, b []byte) numbers {
	switch d {
	case tensor.I8:
		return numbers{I8: tensor.Of[int8](b)}
	case tensor.I16:
		return numbers{I16: tensor.Of[int16](b)}
	case tensor.I32:
		return numbers{I32: tensor.Of[int32](b)}
	case tensor.I64:
		return numbers{I64: tensor.Of[int64](b)}
	case tensor.F16, tensor.BF16:
		return numbers{Half: tensor.Of[uint16](b)}
	case tensor.F32:
		return numbers{F32: tensor.Of[float32](b)}
	case tensor.F64:
		return numbers{F64: tensor.Of[float64](b)}
	}
	return numbers{Bytes: b}
}

// emptied returns n with no elements but the same memory, so that a field that
// does not arrive is noticed.
func (n numbers) emptied() numbers {
	return numbers{
		Bytes: n.Bytes[:0], I8: n.I8[:0], I16: n.I16[:0], I32: n.I32[:0], I64: n.I64[:0],
		Half: n.Half[:0], F32: n.F32[:0], F64: n.F64[:0],
	}
}

// lengths returns how many numbers there are in each field.
func (n *numbers) lengths() [8]int {
	return [8]int{len(n.Bytes), len(n.I8), len(n.I16), len(n.I32), len(n.I64), len(n.Half), len(n.F32), len(n.F64)}
}
