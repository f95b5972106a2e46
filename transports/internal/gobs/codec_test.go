package gobs

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// TestWrongPiece: a piece is accepted only if it has the elements of its tensor.
func TestWrongPiece(t *testing.T) {
	l := drivertest.Vectors(t, tensor.F32, 3)
	for name, c := range map[string]struct {
		elems bool
		value any
		want  string
	}{
		"right":       {true, []float32{1, 2, 3}, ""},
		"bytes":       {true, make([]uint8, 3), "received remote type"},
		"i32":         {true, []int32{1, 2, 3}, "received remote type"},
		"too many":    {true, []float32{1, 2, 3, 4}, "a piece of 4 elements"},
		"too few":     {true, []float32{1, 2}, "a piece of 2 elements"},
		"none":        {true, struct{ X int }{}, "received remote type"},
		"half floats": {true, make([]uint16, 6), "received remote type"},
		"more bytes":  {false, make([]uint8, 13), "a piece of 13 bytes"},
		"less bytes":  {false, make([]uint8, 11), "a piece of 11 bytes"},
		"no bytes":    {false, []float32{1, 2, 3}, "received remote type"},
	} {
		var message bytes.Buffer
		enc := gob.NewEncoder(&message)
		check.Must(t, enc.Encode(Header{Tensors: 1}))
		check.Must(t, enc.Encode(c.value))
		p := tensor.Alloc(l)
		err := NewDecoder(&message, nil, c.elems).Decode(phase.OfRound(0), new(Header), p)
		if c.want == "" {
			check.Must(t, err)
			check.Equal(t, tensor.Slice[float32](p.View(0)), []float32{1, 2, 3})
			continue
		}
		check.Fails(t, err, `tensor 0 ("layer0.weight"): `, name)
		check.Fails(t, err, c.want, name)
	}
}

// A zeros is an endless stream of zeros that counts the bytes read.
type zeros struct{ read int }

func (z *zeros) Read(b []byte) (int, error) {
	clear(b)
	z.read += len(b)
	return len(b), nil
}

// TestHugeValue: decoding stops at maxValue, even if the peer keeps sending.
func TestHugeValue(t *testing.T) {
	skip.Long(t)
	rest := &zeros{}
	claim := bytes.NewReader([]byte{0xfc, 0x3f, 0xff, 0xff, 0xff}) // a gob value of 1 GiB
	err := NewDecoder(io.MultiReader(claim, rest), nil, false).Decode(phase.OfRound(0), new(Header), nil)
	check.That(t, errors.Is(err, errValue) && rest.read <= maxValue+16<<20,
		"got %v after %d bytes, want that it is too much after %d", err, rest.read, maxValue)
}

// varying returns a layout with a tensor whose length varies.
func varying(t testing.TB) *tensor.Layout {
	t.Helper()
	return drivertest.Layout(t,
		tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{7}},
		tensor.Spec{Name: "v", DType: tensor.I16, Shape: []int{100, 3}, Var: true},
	)
}

// TestRowsTravel: if a tensor's length varies, only its used rows are sent.
func TestRowsTravel(t *testing.T) {
	l := varying(t)
	for _, elems := range []bool{false, true} {
		sent, got := tensor.Alloc(l), tensor.Alloc(l)
		var wire bytes.Buffer
		e, d := NewEncoder(&wire, nil, elems), NewDecoder(&wire, nil, elems)
		for i, rows := range []int{100, 0, 3, 99} {
			tensor.Fill(sent, uint64(i))
			check.Must(t, sent.SetRows(1, rows))
			check.Must(t, e.Encode(phase.OfRound(0), Header{Receipt: []byte("r")}, sent))
			size := wire.Len()
			check.That(t, rows != 0 || size <= 150, "%d bytes for a message of 28", size)
			check.Must(t, d.Decode(phase.OfRound(0), new(Header), got))
			check.That(t, got.Rows(1) == rows && got.Hash() == sent.Hash(), "got %d rows of %d, or other bytes", got.Rows(1), rows)
			sent.ResetRows()
		}
	}
}

// FuzzDecode: input is refused, or decodes to a package that another encoding preserves.
func FuzzDecode(f *testing.F) {
	l := varying(f)
	for _, elems := range []bool{false, true} {
		var wire bytes.Buffer
		check.Must(f, NewEncoder(&wire, nil, elems).Encode(phase.OfRound(0), Header{Job: driver.Job{Config: []byte("c")}}, tensor.Alloc(l)))
		f.Add(wire.Bytes(), elems)
	}
	f.Fuzz(func(t *testing.T, wire []byte, elems bool) {
		p := tensor.Alloc(l)
		var h Header
		err := NewDecoder(bytes.NewReader(wire), nil, elems).Decode(phase.OfRound(0), &h, p)
		if err != nil || h.End {
			return
		}
		var again bytes.Buffer
		check.Must(t, NewEncoder(&again, nil, elems).Encode(phase.OfRound(0), h, p))
		same := tensor.Alloc(l)
		check.Must(t, NewDecoder(&again, nil, elems).Decode(phase.OfRound(0), &h, same))
		check.That(t, same.Hash() == p.Hash(), "a message is not what it was when it is sent again")
	})
}
