package slab

import (
	"errors"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

func twoTensors(t *testing.T) *tensor.Layout {
	return drivertest.Layout(t,
		tensor.Spec{Name: "a", DType: tensor.F32, Shape: []int{100}}, tensor.Spec{Name: "b", DType: tensor.U8, Shape: []int{3}},
	)
}

func roomFor(t *testing.T, l *tensor.Layout, n int) *Memory {
	t.Helper()
	size := check.Value(SizeOf(l, n))(t)
	return heap(size)
}

// TestUpdates: updates are lent until they are released, in any order, even after Close.
func TestUpdates(t *testing.T) {
	const depth = 3
	l := twoTensors(t)
	var ledger tensor.Ledger
	mem := roomFor(t, l, depth)
	u := NewUpdates(mem, l, &ledger)
	next := func() *tensor.Package {
		t.Helper()
		before, h := check.Value(u.Reserve())(t), check.Value(u.Reserve())(t)
		check.That(t, h.Offset == before.Offset && h.Generation > before.Generation, "two reservations: %+v and %+v", before, h)
		p := check.Value(u.Lend())(t)
		check.That(t, p == check.Value(u.At(h))(t), "lent another package than was reserved")
		return p
	}
	out := []*tensor.Package{next(), next(), next()}
	refused(t, check.Err(u.Reserve()), driver.OutError(depth))
	for _, i := range []int{1, 0, 1, 2, 2, 0, 1} {
		out[i].Release()
		out[i] = next()
	}
	out[0].Release()
	check.Must(t, check.Err(u.Reserve())) // a job that is never collected
	check.Must(t, u.Close())
	check.Equal(t, ledger.Out(), 2, "are out")
	out[1].Release()
	check.Equal(t, mem.refs.Load(), 2, "memory is held, by its maker and for an update, this many times")
	out[2].View(0)[0] = 1
	out[2].Release()
	check.Equal(t, mem.refs.Load(), 1, "memory is held  times after the last release")
}

// TestPackagesAt: a handle that does not name a package is refused.
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
		one, err := p.At(p.handle(i))
		check.That(t, err == nil && one == p.places[i], "the handle of package %d leads to %p, %v", i, one, err)
	}
	none := drivertest.Layout(t)
	check.OK(t, check.Err(NewPackages(roomFor(t, none, 2), none).At(Handle{Offset: 64})), "a package of nothing")
	check.Fails(t, check.Err(SizeOf(drivertest.Vectors(t, tensor.U8, 1<<61), 1000)), "overflow")
}
