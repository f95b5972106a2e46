package batched

import (
	"bytes"
	"slices"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"ipcbench/phase"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// An assembly puts received tensors, whole or in pieces, into their places in a
// package, and takes nothing that was not expected next. It undoes what a chunker
// does.
type assembly struct {
	sequence
	round int64
	into  *tensor.Package
	takes takes
	begun bool // a message has come
	got   int  // bytes of the next tensor
	moved int  // bytes of all
}

// take puts all tensors of m into place. Errors are refusals.
func (a *assembly) take(m *incoming, t *tally) error {
	defer t.begin(phase.Decode).end()
	a.begun = true
	for _, nt := range m.tensors {
		if err := a.add(nt, viewOf(mem.BufferSlice{mem.SliceBuffer(nt.Data)})); err != nil {
			return err
		}
	}
	err := viewOf(m.bufs).eachField(func(f field) error {
		if f.num != fieldTensors {
			return nil
		}
		description, data, err := m.describe(f.value)
		if err != nil {
			return refuse(malformed, "%v", err)
		}
		if !a.done() && a.knows(description, m) {
			return a.place(a.at(a.count), data)
		}
		nt := &pb.NamedTensor{}
		if err := proto.Unmarshal(description, nt); err != nil {
			return refuse(malformed, "%v", err)
		}
		return a.add(nt, data)
	})
	if err == nil {
		m.release()
	}
	return err
}

// knows reports whether a piece of the next tensor is described as our own encoder does
// it, so that no object of generated code is needed.
func (a *assembly) knows(description []byte, m *incoming) bool {
	i := a.at(a.count)
	if a.takes != encoded {
		m.next = a.appendDescription(m.next[:0], i, a.into.Rows(i), a.round, a.got)
		if bytes.Equal(description, m.next) {
			return true
		}
	}
	return a.takes != plain && a.short(i, description)
}

// add copies data into place if t is what comes next.
func (a *assembly) add(t *pb.NamedTensor, data view) error {
	if a.done() || t.Name != a.layout.Spec(a.at(a.count)).Name {
		return a.unexpected(t)
	}
	i := a.at(a.count)
	if err := a.check(i, t); err != nil {
		return err
	}
	if t.Offset != uint64(a.got) {
		return refuse(outOfOrder, "tensor %q: bytes from %d came, the next are %d", t.Name, t.Offset, a.got)
	}
	if t.Encoded != nil {
		if !a.setLength(i, *t.Encoded) {
			return refuse(wrongSize, "tensor %q: an encoding of %d bytes: it has %d, and none has more than the %d of the tensor", t.Name, *t.Encoded, a.into.Rows(i), a.layout.Bytes(i))
		}
	} else if a.layout.Spec(i).Var {
		if err := a.into.SetRows(i, int(t.Shape[0])); err != nil {
			return err
		}
	}
	return a.place(i, data)
}

// place copies the next bytes of tensor i.
func (a *assembly) place(i int, data view) error {
	into := a.into.View(i)
	if data.n > len(into)-a.got {
		return refuse(wrongSize, "tensor %q: %d bytes from %d on, it has %d", a.layout.Spec(i).Name, data.n, a.got, len(into))
	}
	data.copyTo(into[a.got:])
	a.got += data.n
	a.moved += data.n
	if a.got == len(into) {
		a.count, a.got = a.count+1, 0
	}
	return nil
}

// check compares everything about t but its data with what tensor i is.
func (a *assembly) check(i int, t *pb.NamedTensor) error {
	s := a.layout.Spec(i)
	coded := t.Encoded != nil && a.takes != plain
	same := coded || t.Dtype == pb.DType(s.DType) && a.fits(i, t.Shape)
	switch {
	case !coded && (t.Encoded != nil || t.Base != nil):
		return refuse(unknownCodec, "tensor %q: an encoding, in a session without a codec", t.Name)
	case !same && !hasSize(t.Shape):
		return refuse(wrongSize, "tensor %q: shape %v has no size", t.Name, t.Shape)
	case !coded && a.takes == encoded:
		return refuse(unknownCodec, "tensor %q comes as it is: in a session with a codec results are encoded", t.Name)
	case !same:
		return refuse(wrongTensor, "tensor %q: dtype %d, shape %v: it is %v %v", t.Name, t.Dtype, t.Shape, s.DType, s.Shape)
	case t.Round != a.round:
		return refuse(wrongTask, "tensor %q: of round %d, this is round %d", t.Name, t.Round, a.round)
	case !coded && len(t.Codec) > 0:
		return refuse(unknownCodec, "tensor %q: encoded with %q", t.Name, t.Codec[0].GetName())
	case t.Report || len(t.Tags) != 1 || t.Tags[0] != a.tag:
		return refuse(wrongTensor, "tensor %q: report %v, tags %q: want %q", t.Name, t.Report, t.Tags, a.tag)
	}
	return nil
}

// fits reports whether tensor i may have this shape. The first piece says how many
// rows there are, if that varies.
func (a *assembly) fits(i int, shape []int64) bool {
	s, rows := a.layout.Spec(i), a.into.Rows(i)
	if s.Var && a.got == 0 && len(shape) > 0 && shape[0] >= 0 && shape[0] <= int64(s.Shape[0]) {
		rows = int(shape[0])
	}
	return slices.Equal(shape, shapeOf(s, rows))
}

// unexpected returns what is wrong with the name of t.
func (a *assembly) unexpected(t *pb.NamedTensor) error {
	i, known := a.index[t.Name]
	if !known {
		return refuse(unknownTensor, "no tensor %q", t.Name)
	}
	for k := range a.count {
		if a.at(k) == i {
			return refuse(duplicateTensor, "tensor %q came already", t.Name)
		}
	}
	if a.done() {
		return refuse(outOfOrder, "tensor %q after the last one", t.Name)
	}
	return refuse(outOfOrder, "tensor %q came, %q is next and has %d of %d bytes", t.Name,
		a.layout.Spec(a.at(a.count)).Name, a.got, len(a.into.View(a.at(a.count))))
}

// finish returns an error unless everything has come.
func (a *assembly) finish() error {
	if !a.done() {
		i := a.at(a.count)
		return refuse(cutShort, "%d of %d tensors came, and %d of %d bytes of %q", a.count, a.tensors(),
			a.got, len(a.into.View(i)), a.layout.Spec(i).Name)
	}
	return nil
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
