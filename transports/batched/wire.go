package batched

import (
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// errWire is the verdict on bytes that are not a protobuf message, and errGroup on
// one with a group, which proto3 does not have.
var (
	errWire  = errors.New("malformed protobuf")
	errGroup = errors.New("a group in a proto3 message")
)

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

// skip moves over n bytes, which must be there.
func (v *view) skip(n int) {
	for n > 0 {
		c := min(n, len(v.chunk()))
		v.off += c
		v.n -= c
		n -= c
	}
}

// take returns a view of the next n bytes, which must be there, and moves over them.
func (v *view) take(n int) view {
	head := *v
	head.n = n
	v.skip(n)
	return head
}

// copyTo copies the view to dst, as much as there is or as fits.
func (v view) copyTo(dst []byte) int {
	n := min(v.n, len(dst))
	for at := 0; at < n; {
		c := copy(dst[at:n], v.chunk())
		v.skip(c)
		at += c
	}
	return n
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

// fieldStart is the length of the longest tag and number, or tag and length, and
// so of the longest field without a length.
const fieldStart = 20

// A field is one of a message: all its bytes, and what it holds if it has a length.
type field struct {
	num   protowire.Number // 0 if it has no length
	whole view
	value view
}

// field reads the next field and moves over it. There must be a byte at least.
func (v *view) field() (field, error) {
	var scratch [fieldStart]byte
	b := v.chunk()
	if len(b) < min(fieldStart, v.n) {
		b = scratch[:v.copyTo(scratch[:])]
	}
	num, typ, n := protowire.ConsumeTag(b)
	switch {
	case n < 0 || num > protowire.MaxValidNumber:
		return field{}, errWire
	case typ == protowire.StartGroupType:
		return field{}, errGroup
	}
	f := field{whole: *v}
	if typ == protowire.BytesType {
		size, k := protowire.ConsumeVarint(b[n:])
		if k < 0 || size > uint64(v.n-n-k) {
			return field{}, errWire
		}
		v.skip(n + k)
		f.num, f.value = num, v.take(int(size))
	} else {
		k := protowire.ConsumeFieldValue(num, typ, b[n:])
		if k < 0 {
			return field{}, errWire
		}
		v.skip(n + k)
	}
	f.whole.n -= v.n
	return f, nil
}

// eachField calls do with every field until it fails.
func (v view) eachField(do func(field) error) error {
	for v.n > 0 {
		f, err := v.field()
		if err == nil {
			err = do(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
