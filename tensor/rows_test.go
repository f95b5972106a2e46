package tensor

import (
	"bytes"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// ragged has tensors of varying length between two of fixed length.
func ragged(t testing.TB) *Layout {
	t.Helper()
	return mustLayout(t, []Spec{
		{Name: "scalar", DType: F64},
		{Name: "rollout", DType: F32, Shape: []int{5, 3}, Var: true},
		{Name: "nothing", DType: U8, Shape: []int{4, 0}, Var: true}, // rows without bytes
		{Name: "bytes", DType: U8, Shape: []int{300}, Var: true},
		{Name: "none", DType: I16, Shape: []int{0, 2}, Var: true},
		{Name: "fixed", DType: F32, Shape: []int{2, 7}},
	})
}

// setRows sets the rows of ragged's four tensors of varying length.
func setRows(t testing.TB, p *Package, rows ...int) {
	t.Helper()
	for i, n := range rows {
		check.Must(t, p.SetRows(i+1, n))
	}
}

func TestRows(t *testing.T) {
	l := ragged(t)
	check.That(t, l.Var() && !mixedLayout(t).Var(), "the layout does not say whether lengths vary")
	scattered := make([][]byte, l.Len())
	for i := range scattered {
		scattered[i] = make([]byte, l.Bytes(i), l.Bytes(i)+8)
	}
	for _, p := range []*Package{Alloc(l), NewScattered(l, scattered)} {
		verify := func(what string, payload int, rows ...int) {
			t.Helper()
			for i, want := range rows {
				view, row := p.View(i), l.Bytes(i)/max(1, l.Spec(i).rows())
				check.That(t, p.Rows(i) == want && len(view) == want*row,
					"%s: tensor %d has %d rows and a view of %d bytes, want %d of %d", what, i, p.Rows(i), len(view), want, row)
				check.That(t, !l.Spec(i).Var || cap(view) == l.Bytes(i),
					"%s: view %d has capacity %d, want %d: appending would reach what lies behind", what, i, cap(view), l.Bytes(i))
			}
			check.Equal(t, p.Payload(), payload, what, "payload is")
		}
		verify("new", l.Payload(), 1, 5, 4, 300, 0, 2)
		p.View(1)[12] = 7
		setRows(t, p, 1, 0, 299, 0)
		verify("less", 8+12+299+56, 1, 1, 0, 299, 0, 2)
		setRows(t, p, 2, 3, 0)
		verify("more and less", 8+24+0+56, 1, 2, 3, 0, 0, 2)
		check.That(t, p.View(1)[12] == 7, "rows that were not in use are lost")
		p.ResetRows()
		verify("reset", l.Payload(), 1, 5, 4, 300, 0, 2)
	}
	p := Alloc(mixedLayout(t))
	check.That(t, p.Payload() == p.Layout().Payload() && p.AppendRows(nil) == nil, "a layout whose lengths do not vary has rows")
}

func TestSetRowsRefuses(t *testing.T) {
	p := Alloc(ragged(t))
	tests := []struct {
		tensor, rows int
		want         string
	}{
		{0, 1, `tensor: "scalar": its length does not vary`},
		{5, 2, `tensor: "fixed": its length does not vary`},
		{1, -1, `tensor: "rollout": -1 rows, must be 0 to 5`},
		{1, 6, `tensor: "rollout": 6 rows, must be 0 to 5`},
		{2, 5, `tensor: "nothing": 5 rows, must be 0 to 4`},
		{4, 1, `tensor: "none": 1 rows, must be 0 to 0`},
	}
	for _, test := range tests {
		err := p.SetRows(test.tensor, test.rows)
		check.That(t, err != nil && err.Error() == test.want, "error %v, want %s", err, test.want)
	}
	check.That(t, p.Payload() == p.Layout().Payload(), "a refused number of rows has changed the package")
	_, err := NewLayout([]Spec{{Name: "s", DType: F32, Var: true}})
	check.That(t, err != nil && strings.Contains(err.Error(), `"s"`), "a scalar whose length varies: error %v", err)
}

// TestCopyAndHashOfRows: the rows in use are copied and count in the hash; the rows after them are not and do not.
func TestCopyAndHashOfRows(t *testing.T) {
	l := ragged(t)
	p, q := Alloc(l), Alloc(l)
	Fill(p, 1)
	Fill(q, 2)
	behind := q.View(3)[250]
	for _, rows := range [][]int{{2, 1, 250, 0}, {0, 0, 0, 0}, {5, 4, 0, 0}, {3, 4, 100, 0}} {
		p.ResetRows()
		full := p.Hash()
		setRows(t, p, rows...)
		q.CopyFrom(p)
		for i := range l.Len() {
			check.That(t, q.Rows(i) == p.Rows(i) && bytes.Equal(q.View(i), p.View(i)),
				"rows %v: the copy of tensor %d has %d rows, want %d", rows, i, q.Rows(i), p.Rows(i))
		}
		check.That(t, q.Hash() == p.Hash() && p.Hash() != full,
			"rows %v: hashes are %x, %x of the copy and %x of all rows", rows, p.Hash(), q.Hash(), full)
	}
	q.ResetRows()
	check.That(t, q.View(3)[250] == behind, "a row that was not in use was copied")

	p.ResetRows()
	clear(p.View(3)) // rows count even if they have no bytes, or only zeros
	hashes, digests := map[uint64]bool{}, map[uint64]bool{}
	for i, rows := range [][]int{{5, 4, 300, 0}, {5, 3, 300, 0}, {4, 4, 300, 0}, {5, 0, 300, 0}, {5, 4, 296, 0}, {5, 4, 297, 0}, {5, 4, 0, 0}, {0, 0, 0, 0}} {
		setRows(t, p, rows...)
		hashes[p.Hash()], digests[digest(p)] = true, true
		check.That(t, len(hashes) == i+1 && len(digests) == i+1, "rows %v have the hash or the digest of others", rows)
	}
}

// TestTakeRows: written numbers of rows are read again, and any other input is rejected and changes nothing.
func TestTakeRows(t *testing.T) {
	l := ragged(t)
	p, q := Alloc(l), Alloc(l)
	setRows(t, p, 2, 4, 299, 0)
	b := p.AppendRows([]byte("before"))
	check.Need(t, string(b) == "before\x02\x04\xab\x02\x00", "rows are %q", b)
	b = b[len("before"):]
	check.Must(t, q.TakeRows(b))
	check.Equal(t, []int{q.Rows(1), q.Rows(2), q.Rows(3), q.Rows(4)}, []int{2, 4, 299, 0}, "rows")
	tests := []struct{ name, rows, want string }{
		{"nothing", "", `"rollout": its rows are not a number`},
		{"one missing", "\x02\x04\x05", `"none": its rows are not a number`},
		{"one cut", "\x02\x04\xab", `"bytes": its rows are not a number`},
		{"one too many", "\x02\x04\x05\x00\x00", "1 bytes after"},
		{"above the capacity", "\x01\x04\xad\x02\x00", `"bytes": 301 rows, must be 0 to 300`},
		{"negative", "\x01\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", `"bytes": 18446744073709551615 rows`},
		{"overflow", "\x01\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00", `"bytes": its rows are not a number`},
		{"written longer", "\x82\x00\x04\x05\x00", `"rollout": its rows are not a number`},
	}
	for _, test := range tests {
		check.Fails(t, q.TakeRows([]byte(test.rows)), test.want, test.name)
		got := q.AppendRows(nil)
		check.Need(t, bytes.Equal(got, b), "%s: was refused, and rows are now % x", test.name, got)
	}
	fixed := Alloc(mixedLayout(t))
	check.OK(t, fixed.TakeRows(nil))
	err := fixed.TakeRows([]byte{0})
	check.That(t, err != nil, "rows of a layout whose lengths do not vary are taken")
}

func FuzzTakeRows(f *testing.F) {
	for _, s := range []string{"", "\x02\x04\xab\x02\x00", "\x00\x00\x00\x00", "\x05\x04\xac\x02\x00", "\x82\x00\x04\x05\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		f.Add([]byte(s))
	}
	l := ragged(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		p := Alloc(l)
		if err := p.TakeRows(b); err != nil {
			check.Equal(t, p.Payload(), l.Payload(), "refused, and the payload is")
			return
		}
		for i := range l.Len() {
			n := p.Rows(i)
			check.That(t, n >= 0 && n <= l.Spec(i).rows() && len(p.View(i)) <= l.Bytes(i), "tensor %d has %d rows and %d bytes", i, n, len(p.View(i)))
		}
		again := p.AppendRows(nil)
		check.That(t, bytes.Equal(again, b), "% x was read as % x", b, again)
	})
}
