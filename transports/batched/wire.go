package batched

import (
	"errors"
	"io"
	"math"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// errWire is the verdict on bytes that are not a protobuf message.
var errWire = errors.New("malformed protobuf")

// A view is a range of bytes in the buffers that a message arrived in, and a
// position in it. It is valid as long as those buffers are.
type view struct {
	bufs mem.BufferSlice
	i    int // bufs[i] holds the next byte, unless n is 0
	off  int // where in bufs[i]
	n    int // bytes left
}

// viewOf returns a view of everything in bufs.
func viewOf(bufs mem.BufferSlice) view { return view{bufs: bufs, n: bufs.Len()} }

// chunk returns the next bytes that lie in one piece: at least one if any is
// left.
func (v *view) chunk() []byte {
	if v.n == 0 {
		return nil
	}
	for {
		b := v.bufs[v.i].ReadOnlyData()[v.off:]
		if len(b) > 0 {
			return b[:min(len(b), v.n)]
		}
		v.i, v.off = v.i+1, 0
	}
}

// skip moves over n bytes, of which there must be enough.
func (v *view) skip(n int) {
	for n > 0 {
		c := min(n, len(v.chunk()))
		v.off += c
		v.n -= c
		n -= c
	}
}

// take returns a view of the next n bytes and moves over them.
func (v *view) take(n uint64) (view, error) {
	if n > uint64(v.n) {
		return view{}, io.ErrUnexpectedEOF
	}
	head := *v
	head.n = int(n)
	v.skip(int(n))
	return head, nil
}

// copyTo copies the whole view to dst, which must have room for it.
func (v view) copyTo(dst []byte) {
	for v.n > 0 {
		n := copy(dst, v.chunk())
		dst = dst[n:]
		v.skip(n)
	}
}

// appendTo appends the whole view to dst.
func (v view) appendTo(dst []byte) []byte {
	for v.n > 0 {
		c := v.chunk()
		dst = append(dst, c...)
		v.skip(len(c))
	}
	return dst
}

// maxVarint is the length of the longest varint.
const maxVarint = 10

// varint reads a base-128 number of up to 64 bits.
func (v *view) varint() (uint64, error) {
	if c := v.chunk(); len(c) >= maxVarint {
		x, n := protowire.ConsumeVarint(c)
		if n < 0 {
			return 0, errWire
		}
		v.off += n
		v.n -= n
		return x, nil
	}
	var x uint64
	for shift := 0; shift < 64; shift += 7 {
		c := v.chunk()
		if len(c) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		b := c[0]
		v.off++
		v.n--
		if shift == 63 && b > 1 {
			return 0, errWire
		}
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x, nil
		}
	}
	return 0, errWire
}

// field reads the number and type of a message's next field.
func (v *view) field() (protowire.Number, protowire.Type, error) {
	num, typ, err := v.tag()
	if err == nil && num > protowire.MaxValidNumber {
		err = errWire
	}
	return num, typ, err
}

// tag is field without the upper limit of field numbers, which Go's protobuf
// library does not enforce inside groups that it skips.
func (v *view) tag() (protowire.Number, protowire.Type, error) {
	tag, err := v.varint()
	if err != nil {
		return 0, 0, err
	}
	if tag>>3 < uint64(protowire.MinValidNumber) || tag>>3 > math.MaxInt32 {
		return 0, 0, errWire
	}
	return protowire.Number(tag >> 3), protowire.Type(tag & 7), nil
}

// bytes reads a length and returns a view of as many bytes.
func (v *view) bytes() (view, error) {
	n, err := v.varint()
	if err != nil {
		return view{}, err
	}
	return v.take(n)
}

// text copies the whole view to dst[:0]. It must be valid UTF-8, as every string
// of proto3.
func (v view) text(dst []byte) ([]byte, error) {
	dst = v.appendTo(dst[:0])
	if !utf8.Valid(dst) {
		return dst, errWire
	}
	return dst, nil
}

// eachBytes calls take with the number and the bytes of every field that has a
// length, and skips all others, for messages whose known fields all have one.
func (v view) eachBytes(take func(protowire.Number, view) error) error {
	for v.n > 0 {
		num, typ, err := v.field()
		if err != nil {
			return err
		}
		var in view
		if typ != protowire.BytesType {
			err = v.skipField(num, typ)
		} else if in, err = v.bytes(); err == nil {
			err = take(num, in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// groupDepth is how deep groups may be nested, as in Go's protobuf library.
const groupDepth = 10000

// skipField moves over the value of a field that nobody knows.
func (v *view) skipField(num protowire.Number, typ protowire.Type) error {
	return v.skipNested(num, typ, groupDepth)
}

func (v *view) skipNested(num protowire.Number, typ protowire.Type, depth int) error {
	var err error
	switch typ {
	case protowire.VarintType:
		_, err = v.varint()
	case protowire.Fixed32Type:
		_, err = v.take(4)
	case protowire.Fixed64Type:
		_, err = v.take(8)
	case protowire.BytesType:
		_, err = v.bytes()
	case protowire.StartGroupType:
		return v.skipGroup(num, depth)
	default: // an end without a start, or a type that does not exist
		return errWire
	}
	return err
}

// skipGroup moves over the fields of group num up to and over its end.
func (v *view) skipGroup(num protowire.Number, depth int) error {
	if depth < 0 {
		return errWire
	}
	for {
		n, typ, err := v.tag()
		switch {
		case err != nil:
			return err
		case typ == protowire.EndGroupType && n == num:
			return nil
		case typ == protowire.EndGroupType:
			return errWire
		}
		if err := v.skipNested(n, typ, depth-1); err != nil {
			return err
		}
	}
}
