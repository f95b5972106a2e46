package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"ipcbench/internal/crash"
	"ipcbench/tensor"
	"ipcbench/transports/internal/slab"
)

// Errors of a segment that another process made.
var (
	errMagic     = errors.New("not a tensor segment")
	errVersion   = errors.New("segment has another format version")
	errTruncated = errors.New("segment is truncated")
	errChecksum  = errors.New("segment header is corrupt")
	errSpec      = errors.New("segment holds another tensor")
)

// A segment holds a header that describes a tensor, and then the tensor's data:
//
//	offset  size
//	     0     6  magic
//	     6     2  version
//	     8     1  dtype
//	     9     1  rank
//	    16     8  length of the data in bytes
//	    24     8  offset of the data, a multiple of 64
//	    32  8*rank  shape
//	     -     8  xxh3 hash of all preceding bytes
//
// The creator writes the header before it names the segment to another process.
const (
	segmentMagic   = "ipcseg"
	segmentVersion = 1
	shapeAt        = 32
	maxRank        = math.MaxUint8
)

// dataAt returns the offset of the data of a tensor of this rank.
func dataAt(rank int) int {
	return (shapeAt + 8*rank + 8 + tensor.Align - 1) &^ (tensor.Align - 1)
}

// segmentSize returns the size of the segment for tensor i of l.
func segmentSize(l *tensor.Layout, i int) int { return dataAt(len(l.Spec(i).Shape)) + l.Bytes(i) }

// putHeader writes the header of a tensor of n bytes to b.
func putHeader(b []byte, s tensor.Spec, n int) {
	end := shapeAt + 8*len(s.Shape)
	clear(b[:end])
	copy(b, segmentMagic)
	binary.LittleEndian.PutUint16(b[6:], segmentVersion)
	b[8], b[9] = byte(s.DType), byte(len(s.Shape))
	binary.LittleEndian.PutUint64(b[16:], uint64(n))
	binary.LittleEndian.PutUint64(b[24:], uint64(dataAt(len(s.Shape))))
	for i, d := range s.Shape {
		binary.LittleEndian.PutUint64(b[shapeAt+8*i:], uint64(d))
	}
	binary.LittleEndian.PutUint64(b[end:], xxh3.Hash(b[:end]))
}

// A header is a decoded segment header.
type header struct {
	dtype          tensor.DType
	shape          []int
	offset, length uint64
}

// decodeHeader decodes the header at the start of b and checks its hash. b must be a copy
// that no other process can change.
func decodeHeader(b []byte) (header, error) {
	switch {
	case len(b) < shapeAt+8:
		return header{}, errTruncated
	case string(b[:6]) != segmentMagic:
		return header{}, errMagic
	case binary.LittleEndian.Uint16(b[6:]) != segmentVersion:
		return header{}, fmt.Errorf("%w: %d", errVersion, binary.LittleEndian.Uint16(b[6:]))
	}
	rank := int(b[9])
	end := shapeAt + 8*rank
	if len(b) < end+8 {
		return header{}, errTruncated
	}
	if binary.LittleEndian.Uint64(b[end:]) != xxh3.Hash(b[:end]) {
		return header{}, errChecksum
	}
	h := header{
		dtype: tensor.DType(b[8]), shape: make([]int, rank),
		length: binary.LittleEndian.Uint64(b[16:]), offset: binary.LittleEndian.Uint64(b[24:]),
	}
	for i := range h.shape {
		d := binary.LittleEndian.Uint64(b[shapeAt+8*i:])
		if d > math.MaxInt {
			return header{}, fmt.Errorf("%w: dimension %d", errSpec, d)
		}
		h.shape[i] = int(d)
	}
	return h, nil
}

// check returns an error unless h describes a tensor of n bytes with spec s.
func (h header) check(s tensor.Spec, n int) error {
	if h.dtype != s.DType || !slices.Equal(h.shape, s.Shape) ||
		h.length != uint64(n) || h.offset != uint64(dataAt(len(s.Shape))) {
		return fmt.Errorf("%w: %v %v, %d bytes at %d must be %q %v %v, %d bytes",
			errSpec, h.dtype, h.shape, h.length, h.offset, s.Name, s.DType, s.Shape, n)
	}
	return nil
}

// dataOf returns the data of tensor i of l in mem, after checking the segment's header,
// which another process wrote.
func dataOf(mem []byte, l *tensor.Layout, i int) ([]byte, error) {
	at := segmentSize(l, i) - l.Bytes(i)
	if len(mem) != segmentSize(l, i) {
		return nil, errTruncated
	}
	var copied [shapeAt + 8*maxRank + 8 + tensor.Align]byte // its maker could change the original between check and use
	h, err := decodeHeader(copied[:copy(copied[:], mem[:at])])
	if err == nil {
		err = h.check(l.Spec(i), l.Bytes(i))
	}
	if err != nil {
		return nil, err
	}
	return mem[at:], nil
}

// A segmentSet is a package with each tensor in a segment of its own.
type segmentSet struct {
	serial   uint64 // unique in the session; with pass=fd, an update's is unique in its lane
	segments []*slab.Memory
	pkg      *tensor.Package
}

// newSegmentSet makes a segment set. For each tensor, open returns the segment and use its data.
// After an error, newSegmentSet closes the segments.
func newSegmentSet(l *tensor.Layout, serial uint64, open func(i int) (*slab.Memory, error),
	use func(m *slab.Memory, i int) ([]byte, error)) (*segmentSet, error) {
	b := &segmentSet{serial: serial, segments: make([]*slab.Memory, 0, l.Len())}
	data := make([][]byte, l.Len())
	for i := range data {
		m, err := open(i)
		if err == nil {
			b.segments = append(b.segments, m)
			err = crash.Guard(func() (err error) { data[i], err = use(m, i); return err }) // use faults if the file was truncated
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("tensor %d (%q): %w", i, l.Spec(i).Name, err), b.close())
		}
	}
	b.pkg = tensor.NewScattered(l, data)
	return b, nil
}

// makeSegmentSet makes a segment set of new segments, and writes headers.
func makeSegmentSet(l *tensor.Layout, serial uint64, open func(i int) (*slab.Memory, error)) (*segmentSet, error) {
	return newSegmentSet(l, serial, open, func(m *slab.Memory, i int) ([]byte, error) {
		putHeader(m.Bytes(), l.Spec(i), l.Bytes(i))
		at := m.Len() - l.Bytes(i)
		return m.Bytes()[at:], nil
	})
}

// takeSegmentSet makes a segment set of another process's segments, and checks headers.
func takeSegmentSet(l *tensor.Layout, serial uint64, open func(i int) (*slab.Memory, error)) (*segmentSet, error) {
	return newSegmentSet(l, serial, open, func(m *slab.Memory, i int) ([]byte, error) { return dataOf(m.Bytes(), l, i) })
}

// protect makes the segment set read-only in this process.
func (b *segmentSet) protect() error {
	for _, m := range b.segments {
		if err := m.Protect(); err != nil {
			return err
		}
	}
	return nil
}

// close unmaps the segments, and removes their files if this process made them.
func (b *segmentSet) close() error {
	if b == nil {
		return nil
	}
	var err error
	for _, m := range b.segments {
		err = errors.Join(err, m.Close())
	}
	b.segments = nil
	return err
}

func (b *segmentSet) handle() slab.Handle {
	return slab.Handle{Length: uint64(b.pkg.Layout().Size()), Generation: b.serial}
}
