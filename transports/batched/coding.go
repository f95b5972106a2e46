package batched

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// codingRoom bounds the bytes that a codec adds to a tensor's description: its steps,
// its base, its length, and a longer shape.
const codingRoom = 256

// encodable reports whether the tensors of l can hold encodings: each is one-dimensional
// u8 data of variable length.
func encodable(l *tensor.Layout) bool {
	for i := range l.Len() {
		if s := l.Spec(i); !s.Var || s.DType != tensor.U8 || len(s.Shape) != 1 {
			return false
		}
	}
	return l.Len() > 0
}

// takes states whether an assembly accepts tensors that a codec has encoded.
type takes uint8

const (
	plain   takes = iota // only tensors that are not encoded
	either               // both: only the server knows whether there is a codec
	encoded              // only encoded tensors
)

// A coded describes the tensor of a piece in a session with a codec. The tensor is
// encoded, or was decoded for a client that does not accept encodings.
type coded struct {
	tensor.Coding
	length      int    // bytes of all pieces of the encoding; -1 if the tensor was decoded
	front, back []byte // encoded description, before and after the data
}

// describe sets p.coded to the description of p, a piece of from: the encoded package c.from
// or its decoded form, c.from.Plain. It depends on the encoding, so a catalog cannot
// prepare it.
func (c *chunker) describe(p *piece, from *tensor.Package) {
	d := coded{Coding: c.from.Coding[p.tensor], length: len(from.View(p.tensor))}
	if from != c.from {
		d = coded{Coding: tensor.Coding{Spec: d.Spec, Lossless: d.Lossless, Base: -1}, length: -1}
	}
	if d.Spec.Var {
		d.Spec.Shape = append([]int{c.from.Plain.Rows(p.tensor)}, d.Spec.Shape[1:]...)
	}
	b := appendText(c.described, fieldName, d.Spec.Name)
	b = appendNumber(b, fieldDType, uint64(d.Spec.DType))
	if shape := d.Spec.Shape; len(shape) > 0 {
		size := 0
		for _, n := range shape {
			size += protowire.SizeVarint(uint64(n))
		}
		b = appendLength(b, fieldShape, size)
		for _, n := range shape {
			b = protowire.AppendVarint(b, uint64(n))
		}
	}
	b = appendNumber(b, fieldRound, uint64(c.round))
	b = appendText(b, fieldTags, c.tag)
	if d.Lossless {
		b = appendNumber(b, fieldLossless, 1)
	}
	for _, name := range d.Steps {
		b = appendLength(b, fieldCodec, 1+protowire.SizeBytes(len(name)))
		b = appendText(b, fieldName, name)
	}
	b = appendNumber(b, fieldOffset, uint64(p.offset))
	d.front = b[len(c.described):]
	end := len(b)
	if d.Base >= 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldBase, protowire.VarintType), uint64(d.Base))
	}
	if d.length >= 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldEncoded, protowire.VarintType), uint64(d.length))
	}
	d.back, c.described, p.coded = b[end:], b, &d
}

func appendText(b []byte, num protowire.Number, s string) []byte {
	return append(appendLength(b, num, len(s)), s...)
}

// generate sets the fields of t that describe has encoded, except those common to all tensors.
func (d *coded) generate(t *pb.NamedTensor) {
	t.Dtype, t.Shape, t.Lossless = pb.DType(d.Spec.DType), shapeOf(d.Spec, 0), d.Lossless
	if d.Spec.Var {
		t.Shape[0] = int64(d.Spec.Shape[0])
	}
	for _, name := range d.Steps {
		t.Codec = append(t.Codec, &pb.CodecMetadata{Name: name})
	}
	if d.Base >= 0 {
		t.Base = &d.Base
	}
	if d.length >= 0 {
		t.Encoded = proto.Uint64(uint64(d.length))
	}
}

// setLength sets the length of the encoding of tensor i when its first piece arrives. It
// reports whether n is within bounds and the same for all pieces. The decoder reads the
// decoded type and shape from the receipt.
func (a *assembly) setLength(i int, n uint64) bool {
	switch {
	case n > math.MaxInt || a.got > 0 && int(n) != a.into.Rows(i):
		return false
	case a.got > 0:
		return true
	}
	return a.into.SetRows(i, int(n)) == nil
}

// matchesEncoded parses the description of an encoded tensor without an object of generated code.
// It reports whether this is the expected piece of tensor i, and sets the tensor's
// length. Fields that only matter for decoding are ignored.
func (a *assembly) matchesEncoded(i int, description []byte) bool {
	var name, tag, there bool
	var round, offset, length uint64
	for b := description; len(b) > 0; {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		var x uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			x, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		default:
			n = -1
		}
		if n < 0 {
			return false
		}
		b = b[n:]
		switch {
		case num == fieldName && text != nil && !name:
			name = string(text) == a.layout.Spec(i).Name
		case num == fieldTags && text != nil && !tag:
			tag = string(text) == a.tag
		case num == fieldRound && text == nil:
			round = x
		case num == fieldOffset && text == nil:
			offset = x
		case num == fieldEncoded && text == nil:
			length, there = x, true
		case (num == fieldDType || num == fieldLossless || num == fieldBase) && text == nil, (num == fieldShape || num == fieldCodec) && text != nil:
		default:
			return false
		}
	}
	return name && tag && there && int64(round) == a.round && offset == uint64(a.got) && a.setLength(i, length)
}
