package transports

import (
	"encoding/binary"
	"fmt"

	"ipcbench/codec"
	"ipcbench/tensor"
)

// A header describes how the tensors of a package were packed. It is at the beginning of
// the package's receipt:
//
//	magic    4 bytes, "ipcd"
//	format   1 byte, 1
//	codec    length of its name, then the name
//	version  of the model; for an update, of the model that was trained
//	base     the version of the base plus 1; 0 without a base
//	count    number of tensors
//
// and for each tensor its mode (one byte), its unpacked length in bytes and, if its length
// varies, its rows. Numbers are unsigned varints of minimal length.
type header struct {
	version, base int64 // base: -1 if there is none
	tensors       []packed
}

// packed is a header's entry for one tensor.
type packed struct {
	mode        codec.Mode
	bytes, rows int
}

const (
	magic  = "ipcd"
	format = 1
)

// append appends the header of a package of layout l, packed by the named codec, to b.
func (h *header) append(b []byte, name string, l *tensor.Layout) []byte {
	b = append(append(b, magic...), format)
	b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
	b = binary.AppendUvarint(b, uint64(h.version))
	b = binary.AppendUvarint(b, uint64(h.base+1))
	b = binary.AppendUvarint(b, uint64(len(h.tensors)))
	for i, t := range h.tensors {
		b = binary.AppendUvarint(append(b, byte(t.mode)), uint64(t.bytes))
		if l.Spec(i).Var {
			b = binary.AppendUvarint(b, uint64(t.rows))
		}
	}
	return b
}

// read reads the header at the beginning of b, which is not trusted, and returns the rest
// of b. h must have an entry for each tensor of l.
func (h *header) read(b []byte, name string, l *tensor.Layout) (rest []byte, err error) {
	r := reader{b: b}
	if got := r.take(len(magic)); string(got) != magic {
		return nil, fmt.Errorf("the receipt must begin with %q, not %q", magic, got)
	}
	if got := r.take(1); len(got) < 1 || got[0] != format {
		return nil, fmt.Errorf("the header's format must be [%d], not %v", format, got)
	}
	if got := r.take(int(r.number("length of the codec", 1<<10))); r.err == nil && string(got) != name {
		return nil, fmt.Errorf("packed with codec %q, but the session's is %q", got, name)
	}
	h.version = int64(r.number("version", 1<<62))
	h.base = int64(r.number("base", 1<<62)) - 1
	if n := r.number("number of tensors", 1<<62); r.err == nil && n != uint64(l.Len()) {
		return nil, fmt.Errorf("the header has %d tensors, the layout %d", n, l.Len())
	}
	for i := range h.tensors {
		s := l.Spec(i)
		if h.tensors[i], err = r.tensor(s, l.Bytes(i)); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", s.Name, err)
		}
	}
	return r.b, r.err
}

// A reader reads the fields of a header. After an error it returns zero values.
type reader struct {
	b   []byte
	err error
}

// take returns the next n bytes, or all remaining ones if fewer.
func (r *reader) take(n int) []byte {
	n = min(n, len(r.b))
	got := r.b[:n]
	r.b = r.b[n:]
	return got
}

// number returns the next number. It fails if that is above limit; what names it in the
// error.
func (r *reader) number(what string, limit uint64) uint64 {
	if r.err != nil {
		return 0
	}
	n, size := binary.Uvarint(r.b)
	switch {
	case size <= 0 || size > 1 && r.b[size-1] == 0: // not of minimal length
		r.err = fmt.Errorf("%s: not a number", what)
	case n > limit:
		r.err = fmt.Errorf("%s must be at most %d, not %d", what, limit, n)
	default:
		r.b = r.b[size:]
		return n
	}
	return 0
}

// tensor reads the entry of a tensor with spec s and this size in bytes.
func (r *reader) tensor(s tensor.Spec, size int) (t packed, err error) {
	if r.err != nil {
		return t, r.err
	}
	mode := r.take(1)
	if len(mode) < 1 || mode[0] > byte(codec.Coded) {
		return t, fmt.Errorf("unknown mode %v", mode)
	}
	t.mode = codec.Mode(mode[0])
	t.bytes = int(r.number("length", uint64(size)))
	want := size
	if s.Var {
		t.rows = int(r.number("rows", uint64(s.Shape[0])))
		if s.Shape[0] > 0 {
			want = size / s.Shape[0] * t.rows
		}
	}
	if r.err == nil && t.bytes != want {
		return t, fmt.Errorf("its unpacked length must be %d, not %d", want, t.bytes)
	}
	return t, r.err
}
