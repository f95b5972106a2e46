package slab

import (
	"errors"
	"testing"

	"ipcbench/tensor"
)

func twoTensors(t *testing.T) *tensor.Layout {
	t.Helper()
	l, err := tensor.NewLayout([]tensor.Spec{
		{Name: "a", DType: tensor.F32, Shape: []int{100}}, {Name: "b", DType: tensor.U8, Shape: []int{3}},
	})
	must(t, err)
	return l
}

func roomFor(t *testing.T, l *tensor.Layout, n int) *Memory {
	t.Helper()
	size, err := SizeOf(l, n)
	must(t, err)
	return Heap(size)
}

// Two models exist; publishing one gives the room of the one before back.
func TestModels(t *testing.T) {
	l := twoTensors(t)
	mem := roomFor(t, l, 2)
	m, err := NewModels(mem, l)
	must(t, err)
	var last *tensor.Package
	for round := range 7 {
		p, err := m.Reserve()
		must(t, err)
		if p == last {
			t.Fatal("the published model was lent for writing")
		}
		tensor.Fill(p, uint64(round))
		must(t, m.Publish())
		if _, current, err := m.packages.At(m.Current()); err != nil || current != p {
			t.Errorf("the handle leads to %p, %v, want %p", current, err, p)
		}
		last = p
	}
	_, err = m.Reserve() // a model that is never published
	must(t, err)
	must(t, m.Close())
	if n := mem.refs.Load(); n != 0 {
		t.Errorf("memory is held %d times at the end", n)
	}
}

// Updates are lent until they are released, in any order, also after Close.
func TestUpdates(t *testing.T) {
	const depth = 3
	l := twoTensors(t)
	var ledger tensor.Ledger
	mem := roomFor(t, l, depth)
	u, err := NewUpdates(mem, l, &ledger)
	must(t, err)
	next := func() *tensor.Package {
		t.Helper()
		h, written, err := u.Reserve()
		must(t, err)
		if _, _, err := u.Reserve(); err == nil {
			t.Error("reserved twice")
		}
		wrong := h
		wrong.Generation++
		_, err = u.Lend(wrong)
		refused(t, err, ErrStale)
		p, err := u.Lend(h)
		must(t, err)
		if p != written {
			t.Error("lent another package than was reserved")
		}
		if _, err := u.Lend(h); err == nil {
			t.Error("lent twice")
		}
		return p
	}
	out := []*tensor.Package{next(), next(), next()}
	var full *FullError
	if _, _, err := u.Reserve(); !errors.As(err, &full) {
		t.Errorf("got %v, want a full pool", err)
	}
	for _, i := range []int{1, 0, 1, 2, 2, 0, 1} {
		out[i].Release()
		out[i] = next()
	}
	out[0].Release()
	_, _, err = u.Reserve() // a job that is never collected
	must(t, err)
	must(t, u.Close())
	must(t, u.Close())
	_, _, err = u.Reserve()
	refused(t, err, ErrClosed)
	if ledger.Out() != 2 {
		t.Errorf("%d are out, want 2", ledger.Out())
	}
	out[1].Release()
	if n := mem.refs.Load(); n != 1 {
		t.Errorf("memory is held %d times, want once", n)
	}
	out[2].View(0)[0] = 1
	out[2].Release()
	if n := mem.refs.Load(); n != 0 {
		t.Errorf("memory is held %d times after the last release", n)
	}
}

// A handle that leads to no package is refused.
func TestPackagesAt(t *testing.T) {
	l := twoTensors(t)
	p := NewPackages(roomFor(t, l, 2), l)
	size := uint64(l.Size())
	for name, c := range map[string]struct {
		h    Handle
		want error
	}{
		"first":   {Handle{Length: size}, nil},
		"second":  {Handle{Offset: size, Length: size}, nil},
		"third":   {Handle{Offset: 2 * size, Length: size}, ErrBounds},
		"between": {Handle{Offset: 64, Length: size}, ErrAlignment},
		"shorter": {Handle{Length: size - 64}, ErrLength},
	} {
		if _, _, err := p.At(c.h); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	none, err := tensor.NewLayout(nil)
	must(t, err)
	if _, _, err := NewPackages(roomFor(t, none, 2), none).At(Handle{Offset: 64}); err != nil {
		t.Errorf("a package of nothing: %v", err)
	}
	huge, err := tensor.NewLayout([]tensor.Spec{{Name: "h", DType: tensor.U8, Shape: []int{1 << 61}}})
	must(t, err)
	if _, err := SizeOf(huge, 1000); err == nil {
		t.Error("a size that overflows: got no error")
	}
}
