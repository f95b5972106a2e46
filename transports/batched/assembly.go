package batched

import (
	"slices"

	"ipcbench/tensor"
)

// An assembly puts received tensors, whole or in pieces, into their places in a
// package, and takes nothing that was not expected next.
type assembly struct {
	*catalog
	round int64
	order []int // the tensors to come; nil: all of the layout
	into  *tensor.Package
	count int // tensors in order that are complete
	got   int // bytes of the next one
	moved int // bytes of all
}

// tensors returns how many tensors are to come.
func (a *assembly) tensors() int {
	if a.order == nil {
		return a.layout.Len()
	}
	return len(a.order)
}

// at returns the k-th of the tensors to come.
func (a *assembly) at(k int) int {
	if a.order == nil {
		return k
	}
	return a.order[k]
}

// add copies the data of t into place. Errors are refusals.
func (a *assembly) add(t *named) error {
	if a.count == a.tensors() || string(t.name) != a.layout.Spec(a.at(a.count)).Name {
		return a.unexpected(t)
	}
	i := a.at(a.count)
	if err := a.check(i, t); err != nil {
		return err
	}
	size := a.layout.Bytes(i)
	switch {
	case t.offset != uint64(a.got):
		return refuse(outOfOrder, "tensor %q: bytes from %d came, the next are %d", t.name, t.offset, a.got)
	case t.data.n > size-a.got:
		return refuse(wrongSize, "tensor %q: %d bytes from %d on, it has %d", t.name, t.data.n, t.offset, size)
	}
	n := t.data.n
	t.data.copyTo(a.into.View(i)[a.got:])
	a.got += n
	a.moved += n
	if a.got == size {
		a.count, a.got = a.count+1, 0
	}
	return nil
}

// check compares everything about t but its data with what tensor i is.
func (a *assembly) check(i int, t *named) error {
	s := a.layout.Spec(i)
	switch {
	case !sameShape(t.shape, s.Shape) && !hasSize(t.shape):
		return refuse(wrongSize, "tensor %q: shape %v has no size", t.name, t.shape)
	case t.dtype != int32(s.DType) || !sameShape(t.shape, s.Shape):
		return refuse(wrongTensor, "tensor %q: dtype %d, shape %v: it is %v %v", t.name, t.dtype, t.shape, s.DType, s.Shape)
	case t.round != a.round:
		return refuse(wrongTask, "tensor %q: of round %d, this is round %d", t.name, t.round, a.round)
	case len(t.codec) > 0:
		return refuse(unknownCodec, "tensor %q: encoded with %q", t.name, t.codec[0].GetName())
	case t.report || len(t.tags) != 1 || string(t.tags[0]) != a.tag:
		return refuse(wrongTensor, "tensor %q: report %v, tags %q: want %q", t.name, t.report, t.tags, a.tag)
	}
	return nil
}

// unexpected returns what is wrong with the name of t.
func (a *assembly) unexpected(t *named) error {
	i, known := a.index[string(t.name)]
	if !known {
		return refuse(unknownTensor, "no tensor %q", t.name)
	}
	for k := range a.count {
		if a.at(k) == i {
			return refuse(duplicateTensor, "tensor %q came already", t.name)
		}
	}
	if a.count == a.tensors() {
		return refuse(outOfOrder, "tensor %q after the last one", t.name)
	}
	return refuse(outOfOrder, "tensor %q came, %q is next and has %d of %d bytes", t.name,
		a.layout.Spec(a.at(a.count)).Name, a.got, a.layout.Bytes(a.at(a.count)))
}

// finish returns an error unless everything has come.
func (a *assembly) finish() error {
	if a.count < a.tensors() {
		i := a.at(a.count)
		return refuse(cutShort, "%d of %d tensors came, and %d of %d bytes of %q", a.count, a.tensors(),
			a.got, a.layout.Bytes(i), a.layout.Spec(i).Name)
	}
	return nil
}

func sameShape(got []int64, want []int) bool {
	return slices.EqualFunc(got, want, func(g int64, w int) bool { return g == int64(w) })
}

// hasSize reports whether a tensor of this shape could exist.
func hasSize(shape []int64) bool {
	s := tensor.Spec{DType: tensor.F64}
	for _, d := range shape {
		s.Shape = append(s.Shape, int(d))
	}
	_, err := s.Bytes()
	return err == nil
}
