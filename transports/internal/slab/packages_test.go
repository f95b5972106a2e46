package slab

import (
	"errors"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

func twoTensors(t *testing.T) *tensor.Layout {
	t.Helper()
	l, err := tensor.NewLayout([]tensor.Spec{
		{Name: "a", DType: tensor.F32, Shape: []int{100}}, {Name: "b", DType: tensor.U8, Shape: []int{3}},
	})
	check.Must(t, err)
	return l
}

func roomFor(t *testing.T, l *tensor.Layout, n int) *Memory {
	t.Helper()
	size, err := SizeOf(l, n)
	check.Must(t, err)
	return heap(size)
}

// Updates are lent until they are released, in any order, also after Close.
func TestUpdates(t *testing.T) {
	const depth = 3
	l := twoTensors(t)
	var ledger tensor.Ledger
	mem := roomFor(t, l, depth)
	u := NewUpdates(mem, l, &ledger)
	next := func() *tensor.Package {
		t.Helper()
		h, err := u.Reserve()
		check.Must(t, err)
		written, err := u.At(h)
		check.Must(t, err)
		for _, change := range []func(*Handle){
			func(h *Handle) { h.Generation-- }, // of the job before
			func(h *Handle) { h.Offset += uint64(u.extent) },
			func(h *Handle) { *h = Handle{} },
		} {
			wrong := h
			change(&wrong)
			_, err = u.Lend(wrong)
			refused(t, err, ErrOther)
		}
		p, err := u.Lend(h)
		check.Must(t, err)
		check.That(t, p == written, "lent another package than was reserved")
		if _, err := u.Lend(h); err == nil {
			t.Error("lent twice")
		}
		return p
	}
	out := []*tensor.Package{next(), next(), next()}
	var full *FullError
	if _, err := u.Reserve(); !errors.As(err, &full) || full.Used == 0 {
		t.Errorf("got %v, want a full pool", err)
	}
	for _, i := range []int{1, 0, 1, 2, 2, 0, 1} {
		out[i].Release()
		out[i] = next()
	}
	out[0].Release()
	_, err := u.Reserve() // a job that is never collected
	check.Must(t, err)
	check.Must(t, u.Close())
	check.Equal(t, ledger.Out(), 2, "are out")
	out[1].Release()
	n := mem.refs.Load()
	check.That(t, n == 2, "memory is held %d times, want twice: by its maker, and for an update", n)
	out[2].View(0)[0] = 1
	out[2].Release()
	check.Equal(t, mem.refs.Load(), 1, "memory is held  times after the last release")
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
		_, err := p.At(c.h)
		check.That(t, errors.Is(err, c.want), "%s: got %v, want %v", name, err, c.want)
	}
	for i := range 2 {
		one, err := p.At(p.Handle(p.places[i]))
		check.That(t, err == nil && one == p.places[i], "the handle of package %d leads to %p, %v", i, one, err)
	}
	none, err := tensor.NewLayout(nil)
	check.Must(t, err)
	if _, err := NewPackages(roomFor(t, none, 2), none).At(Handle{Offset: 64}); err != nil {
		t.Errorf("a package of nothing: %v", err)
	}
	huge, err := tensor.NewLayout([]tensor.Spec{{Name: "h", DType: tensor.U8, Shape: []int{1 << 61}}})
	check.Must(t, err)
	if _, err := SizeOf(huge, 1000); err == nil {
		t.Error("a size that overflows: got no error")
	}
}
