package batched

import (
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// errWire reports bytes that are not a protobuf message. errGroup reports a message
// with a group, which proto3 does not have.
var (
	errWire  = errors.New("malformed protobuf")
	errGroup = errors.New("a proto3 message must not contain a group")
)

// A view is the unread rest of a range of bytes in the buffers of a received message.
// It is valid as long as these buffers are.
type view struct {
	bufs mem.BufferSlice
	i    int // bufs[i] holds the next byte, unless n is 0
	off  int // offset of the next byte in bufs[i]
	n    int // bytes left
}

// viewOf returns a view of everything in bufs.
func viewOf(bufs mem.BufferSlice) view { return view{bufs: bufs, n: bufs.Len()} }

// chunk returns the next bytes that are contiguous: at least one, or nil if none is left.
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

// skip moves over n bytes. At least n must be left.
func (v *view) skip(n int) {
	for n > 0 {
		c := min(n, len(v.chunk()))
		v.off += c
		v.n -= c
		n -= c
	}
}

// take returns a view of the next n bytes and moves over them. At least n must be left.
func (v *view) take(n int) view {
	head := *v
	head.n = n
	v.skip(n)
	return head
}

// copyTo copies as much of the view as fits to dst, and returns the number of bytes.
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

// fieldStart bounds a tag with its number or length, and so any field that is not
// length-delimited.
const fieldStart = 20

// A field is one field of a message.
type field struct {
	num   protowire.Number // 0 if the field is not length-delimited
	whole view             // all its bytes, including tag and length
	value view             // the contents of a length-delimited field
}

// field reads the next field and moves over it. At least one byte must be left.
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

// eachField calls do with every field, until do or parsing fails. It returns that error.
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
