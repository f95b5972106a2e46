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

// An assembly copies received pieces of tensors into a package, as the inverse of a
// chunker. It refuses every piece except the next one of its sequence.
type assembly struct {
	sequence
	round int64
	into  *tensor.Package
	takes takes
	begun bool // a message has arrived
	got   int  // bytes received of the next tensor
	moved int  // bytes received of all tensors
}

// take copies all tensors of m into place and releases m. Errors are refusals.
func (a *assembly) take(m *incoming, t *stopwatch) error {
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
		if !a.done() && a.matches(description, m) {
			return a.place(a.order[a.count], data)
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

// matches reports whether description is the expected one as this package encodes it. Then
// no object of generated code is needed.
func (a *assembly) matches(description []byte, m *incoming) bool {
	i := a.order[a.count]
	if a.takes != encoded {
		m.next = a.appendDescription(m.next[:0], i, a.into.Rows(i), a.round, a.got)
		if bytes.Equal(description, m.next) {
			return true
		}
	}
	return a.takes != plain && a.matchesEncoded(i, description)
}

// add copies data into place if t describes the next piece, and otherwise refuses it.
func (a *assembly) add(t *pb.NamedTensor, data view) error {
	if a.done() || t.Name != a.layout.Spec(a.order[a.count]).Name {
		return a.unexpected(t)
	}
	i := a.order[a.count]
	if err := a.check(i, t); err != nil {
		return err
	}
	if t.Offset != uint64(a.got) {
		return refuse(outOfOrder, "tensor %q: received a piece from offset %d, must be from offset %d", t.Name, t.Offset, a.got)
	}
	if t.Encoded != nil {
		if !a.setLength(i, *t.Encoded) {
			return refuse(wrongSize, "tensor %q: an encoding of %d bytes must have at most %d, and the same length in every piece", t.Name, *t.Encoded, a.layout.Bytes(i))
		}
	} else if a.layout.Spec(i).Var {
		if err := a.into.SetRows(i, int(t.Shape[0])); err != nil {
			return err
		}
	}
	return a.place(i, data)
}

// place copies data into tensor i, after the bytes received so far.
func (a *assembly) place(i int, data view) error {
	into := a.into.View(i)
	if data.n > len(into)-a.got {
		return refuse(wrongSize, "tensor %q: %d bytes at offset %d exceed its length of %d", a.layout.Spec(i).Name, data.n, a.got, len(into))
	}
	data.copyTo(into[a.got:])
	a.got += data.n
	a.moved += data.n
	if a.got == len(into) {
		a.count, a.got = a.count+1, 0
	}
	return nil
}

// check refuses t if its description does not match tensor i, except for the name, the
// offset and the length.
func (a *assembly) check(i int, t *pb.NamedTensor) error {
	s := a.layout.Spec(i)
	coded := t.Encoded != nil && a.takes != plain
	switch {
	case !coded && (t.Encoded != nil || t.Base != nil):
		return refuse(unknownCodec, "tensor %q must not be encoded: the session has no codec", t.Name)
	case !coded && a.takes == encoded:
		return refuse(unknownCodec, "tensor %q is not encoded: results must be encoded in a session with a codec", t.Name)
	case !coded && (t.Dtype != pb.DType(s.DType) || !a.fits(i, t.Shape)):
		return refuse(wrongTensor, "tensor %q: dtype %d, shape %v must be %v %v", t.Name, t.Dtype, t.Shape, s.DType, s.Shape)
	case t.Round != a.round:
		return refuse(wrongTask, "tensor %q belongs to round %d, must be round %d", t.Name, t.Round, a.round)
	case !coded && len(t.Codec) > 0:
		return refuse(unknownCodec, "tensor %q has the codec step %q, must have none", t.Name, t.Codec[0].GetName())
	case t.Report || len(t.Tags) != 1 || t.Tags[0] != a.tag:
		return refuse(wrongTensor, "tensor %q: report %v, tags %q must be false, [%q]", t.Name, t.Report, t.Tags, a.tag)
	}
	return nil
}

// fits reports whether tensor i may have this shape. If its length varies, the first
// piece determines the number of rows.
func (a *assembly) fits(i int, shape []int64) bool {
	s, rows := a.layout.Spec(i), a.into.Rows(i)
	if s.Var && a.got == 0 && len(shape) > 0 && shape[0] >= 0 && shape[0] <= int64(s.Shape[0]) {
		rows = int(shape[0])
	}
	return slices.Equal(shape, shapeOf(s, rows))
}

// unexpected returns the refusal of t, whose name differs from the next tensor's.
func (a *assembly) unexpected(t *pb.NamedTensor) error {
	i, known := a.index[t.Name]
	if !known {
		return refuse(unknownTensor, "unknown tensor %q", t.Name)
	}
	if slices.Contains(a.order[:a.count], i) {
		return refuse(duplicateTensor, "tensor %q was already received", t.Name)
	}
	if a.done() {
		return refuse(outOfOrder, "tensor %q after the last expected one", t.Name)
	}
	return refuse(outOfOrder, "received tensor %q instead of %q, of which %d of %d bytes have arrived", t.Name,
		a.layout.Spec(a.order[a.count]).Name, a.got, len(a.into.View(a.order[a.count])))
}

// finish returns a refusal unless all tensors are complete.
func (a *assembly) finish() error {
	if !a.done() {
		i := a.order[a.count]
		return refuse(cutShort, "received only %d of %d tensors, and %d of %d bytes of %q", a.count, len(a.order),
			a.got, len(a.into.View(i)), a.layout.Spec(i).Name)
	}
	return nil
}
