package batched

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// codingRoom is what may be said of an encoded tensor beside what is said of any:
// its steps, its base, its length, and a longer shape.
const codingRoom = 256

// encodable reports whether the tensors of l may be encodings: each is bytes, as many
// as there are.
func encodable(l *tensor.Layout) bool {
	for i := range l.Len() {
		if s := l.Spec(i); !s.Var || s.DType != tensor.U8 || len(s.Shape) != 1 {
			return false
		}
	}
	return l.Len() > 0
}

// takes says whether an assembly takes tensors that a codec has encoded.
type takes uint8

const (
	plain   takes = iota // none
	either               // a worker, from a server that knows whether there is a codec
	encoded              // no others
)

// A coded is what a piece says of its tensor if a codec has a part in it: the tensor
// is encoded, or was decoded for whoever asks for that.
type coded struct {
	tensor.Coding
	length      int    // bytes of all pieces; -1 of what was decoded
	front, back []byte // the description, before the data and after
}

// say describes p, a piece of from, which is an encoded package or what that decodes
// to. Unlike other descriptions, this one is not known before: nor does the receiver.
func (c *chunker) say(p *piece, from *tensor.Package) {
	d := coded{Coding: c.from.Coding[p.tensor], length: len(from.View(p.tensor))}
	if from != c.from {
		d = coded{Coding: tensor.Coding{Spec: d.Spec, Lossless: d.Lossless, Base: -1}, length: -1}
	}
	if d.Spec.Var {
		d.Spec.Shape = append([]int{c.from.Plain.Rows(p.tensor)}, d.Spec.Shape[1:]...)
	}
	b := appendText(c.said, fieldName, d.Spec.Name)
	b = appendNumber(b, fieldDType, uint64(d.Spec.DType))
	if shape := d.Spec.Shape; len(shape) > 0 {
		size := 0
		for _, n := range shape {
			size += protowire.SizeVarint(uint64(n))
		}
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldShape, protowire.BytesType), uint64(size))
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
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldCodec, protowire.BytesType), uint64(1+protowire.SizeBytes(len(name))))
		b = appendText(b, fieldName, name)
	}
	b = appendNumber(b, fieldOffset, uint64(p.offset))
	d.front = b[len(c.said):]
	end := len(b)
	if d.Base >= 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldBase, protowire.VarintType), uint64(d.Base))
	}
	if d.length >= 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldEncoded, protowire.VarintType), uint64(d.length))
	}
	d.back, c.said, p.coded = b[end:], b, &d
}

func appendText(b []byte, num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

// generate says in t what say has said.
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

// setLength sets the length of the encoding of tensor i with its first piece, and
// reports whether it may be that. What it decodes to is no matter here: the receipt
// says it again to whoever decodes.
func (a *assembly) setLength(i int, n uint64) bool {
	switch {
	case n > math.MaxInt || a.got > 0 && int(n) != a.into.Rows(i):
		return false
	case a.got > 0:
		return true
	}
	return a.into.SetRows(i, int(n)) == nil
}

// short reads the description of an encoded tensor as our own encoder has it, without
// an object of generated code. It reports whether that is tensor i, all that is said
// of it but of its decoding being what comes next.
func (a *assembly) short(i int, description []byte) bool {
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
