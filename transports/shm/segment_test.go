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
	resum := func(b []byte) { binary.LittleEndian.PutUint64(b[48:], xxh3.Hash(b[:48])) }
	for name, c := range map[string]struct {
		change func(b []byte) []byte
		want   error
	}{
		"good":         {func(b []byte) []byte { return b }, nil},
		"empty":        {func(b []byte) []byte { return nil }, errTruncated},
		"cut":          {func(b []byte) []byte { return b[:55] }, errTruncated},
		"magic":        {func(b []byte) []byte { b[0]++; return b }, errMagic},
		"version":      {func(b []byte) []byte { b[6]++; return b }, errVersion},
		"dtype":        {func(b []byte) []byte { b[8]++; return b }, errChecksum},
		"other dtype":  {func(b []byte) []byte { b[8]++; resum(b); return b }, errSpec},
		"no dtype":     {func(b []byte) []byte { b[8] = 200; resum(b); return b }, errSpec},
		"rank":         {func(b []byte) []byte { b[9] = 255; return b }, errTruncated},
		"less rank":    {func(b []byte) []byte { b[9] = 1; return b }, errChecksum},
		"length":       {func(b []byte) []byte { b[16]++; resum(b); return b }, errSpec},
		"huge length":  {func(b []byte) []byte { b[23] = 0xff; resum(b); return b }, errSpec},
		"offset":       {func(b []byte) []byte { b[24]++; resum(b); return b }, errSpec},
		"shape":        {func(b []byte) []byte { b[32]++; resum(b); return b }, errSpec},
		"huge shape":   {func(b []byte) []byte { b[39] = 0xff; resum(b); return b }, errSpec},
		"bad checksum": {func(b []byte) []byte { b[48]++; return b }, errChecksum},
	} {
		b := make([]byte, dataAt(2))
		putHeader(b, s, l.Bytes(0))
		h, err := decodeHeader(c.change(b))
		if err == nil {
			err = h.check(s, l.Bytes(0))
		}
		check.Is(t, err, c.want, name)
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
