package shm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/zeebo/xxh3"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver/drivertest"
)

// TestSegmentHeader: A3: the header decodes to the exact dtype and shape, for every dtype
// and rank.
func TestSegmentHeader(t *testing.T) {
	for _, d := range tensor.DTypes() {
		for _, shape := range [][]int{nil, {}, {0}, {7}, {2, 0, 3}, {1, 2, 3, 4, 5}, make([]int, maxRank)} {
			s := tensor.Spec{Name: "t", DType: d, Shape: shape}
			l := drivertest.Layout(t, s)
			mem := make([]byte, segmentSize(l, 0))
			putHeader(mem, s, l.Bytes(0))
			data := check.Value(dataOf(mem, l, 0))(t)
			check.Equal(t, len(data), l.Bytes(0), d, shape, "bytes")
		}
	}
}

// TestSegmentHeaderRefused: A3, A21: each fault of a header has its own error.
func TestSegmentHeaderRefused(t *testing.T) {
	s := tensor.Spec{Name: "t", DType: tensor.F32, Shape: []int{4, 5}}
	l := drivertest.Layout(t, s)
	header := func() []byte {
		b := make([]byte, dataAt(2))
		putHeader(b, s, l.Bytes(0))
		return b
	}
	read := func(b []byte) error {
		h, err := decodeHeader(b)
		if err == nil {
			err = h.check(s, l.Bytes(0))
		}
		return err
	}
	for name, c := range map[string]struct {
		at    int
		flip  byte // bits of the byte at at
		resum bool // whether the checksum is right
		want  error
	}{
		"good":         {},
		"magic":        {0, 1, false, errMagic},
		"version":      {6, 3, false, errVersion},
		"dtype":        {8, 1, false, errChecksum},
		"other dtype":  {8, 1, true, errSpec},
		"no dtype":     {8, 200, true, errSpec},
		"rank":         {9, 2 ^ 255, false, errTruncated},
		"less rank":    {9, 2 ^ 1, false, errChecksum},
		"length":       {16, 1, true, errSpec},
		"huge length":  {23, 0xff, true, errSpec},
		"offset":       {24, 1, true, errSpec},
		"shape":        {32, 1, true, errSpec},
		"huge shape":   {39, 0xff, true, errSpec},
		"bad checksum": {48, 1, false, errChecksum},
	} {
		b := header()
		if b[c.at] ^= c.flip; c.resum {
			binary.LittleEndian.PutUint64(b[48:], xxh3.Hash(b[:48]))
		}
		check.Is(t, read(b), c.want, name)
	}
	for _, size := range []int{0, 55} {
		check.Is(t, read(header()[:size]), errTruncated, size, "bytes")
	}
	_, err := dataOf(make([]byte, segmentSize(l, 0)-1), l, 0)
	check.Is(t, err, errTruncated, "short segment")
}

func FuzzSegment(f *testing.F) {
	s := tensor.Spec{Name: "t", DType: tensor.F32, Shape: []int{4, 5}}
	l := drivertest.Layout(f, s)
	b := make([]byte, segmentSize(l, 0))
	putHeader(b, s, l.Bytes(0))
	f.Add(b)
	f.Add(b[:shapeAt])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		if data, err := dataOf(b, l, 0); err == nil && len(data) != l.Bytes(0) {
			t.Errorf("%d bytes, want %d", len(data), l.Bytes(0))
		}
		h, err := decodeHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, dataAt(len(h.shape)))
		putHeader(again, tensor.Spec{DType: h.dtype, Shape: h.shape}, int(h.length))
		if end := shapeAt + 8*len(h.shape); h.offset == uint64(dataAt(len(h.shape))) && !bytes.Equal(again[16:end], b[16:end]) {
			t.Errorf("%x came back as %x", b[:end], again[:end])
		}
	})
}
