package batched

import (
	"fmt"
	"math"
	"testing"

	"google.golang.org/grpc/mem"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// varying has tensors whose lengths vary, one with rows of no bytes, and one that
// has its length.
func varying(t testing.TB) *tensor.Layout {
	return layoutFrom(t,
		tensor.Spec{Name: "tokens", DType: tensor.I32, Shape: []int{1000, 30}, Var: true},
		tensor.Spec{Name: "fixed", DType: tensor.F32, Shape: []int{7}},
		tensor.Spec{Name: "void", DType: tensor.F64, Shape: []int{200, 0}, Var: true},
		tensor.Spec{Name: "bytes", DType: tensor.U8, Shape: []int{300}, Var: true},
	)
}

// TestRows: O25. A tensor whose length varies travels with the rows that are in use,
// whichever way: none, one, all, more and fewer than before.
func TestRows(t *testing.T) {
	for _, name := range []string{
		"grpc-tensor", "grpc-batch", "grpc-stream:chunk=4KiB",
		"grpc-tensor:marshal=generated", "grpc-batch:marshal=generated", "grpc-stream:chunk=4KiB:marshal=generated",
	} {
		t.Run(name, func(t *testing.T) {
			r := listen(t, name, varying(t), 1)
			w := r.dial(name, 0)
			for n, rows := range [][2]int{{1000, 300}, {0, 0}, {1, 299}, {999, 1}, {128, 127}, {1000, 0}} {
				m, err := r.session.Reserve()
				check.Must(t, err)
				setRows(t, m, rows[0], rows[1])
				tensor.Fill(m, uint64(n))
				if _, err := r.session.Publish(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				r.dispatch(0, jobOf(n, 0))
				_, got, err := w.Receive(limited(t))
				check.Must(t, err)
				if got.Hash() != m.Hash() || got.Payload() != m.Payload() {
					t.Errorf("rows %v: a model of %d bytes came as %d bytes", rows, m.Payload(), got.Payload())
				}
				u, err := w.Reserve()
				check.Must(t, err)
				setRows(t, u, rows[1], rows[0]%301)
				tensor.Fill(u, uint64(n+100))
				want := u.Hash()
				check.Must(t, w.Submit(limited(t), u))
				p, err := r.session.Collect(limited(t), 0)
				check.Must(t, err)
				check.That(t, p.Hash() == want, "rows %v: the update is another one", rows)
				p.Release()
			}
		})
	}
}

func setRows(t *testing.T, p *tensor.Package, tokens, bytes int) {
	t.Helper()
	for i, n := range map[int]int{0: tokens, 2: tokens / 5, 3: bytes} {
		check.Must(t, p.SetRows(i, n))
	}
}

// TestBadRows: rows that there cannot be, that change half-way, or that are not
// those of the data are refused.
func TestBadRows(t *testing.T) {
	for _, marshalling := range []string{"inplace", "generated"} {
		r := listen(t, "grpc-stream:marshal="+marshalling, layoutFrom(t, tensor.Spec{Name: "a", DType: tensor.I32, Shape: []int{10, 3}, Var: true}), 1)
		r.dispatch(0, jobOf(1, 3))
		client, _ := r.stranger()
		send := func(pieces ...*pb.NamedTensor) error {
			for i, p := range pieces {
				p.Name, p.Dtype, p.Round, p.Tags, p.Lossless = "a", pb.DType_DTYPE_I32, 1, []string{updateTag}, true
				p.Offset = uint64(i * 12)
			}
			return upload(limited(t), client, &pb.TensorChunk{
				Header: r.head(0), Results: &pb.TaskResults{TaskId: 1, Round: 1, Client: 3, Report: 1, Reports: 1}, Tensors: pieces,
			})
		}
		data := make([]byte, 12)
		for _, c := range []struct {
			what   string
			pieces []*pb.NamedTensor
			why    reason
			text   string
		}{
			{"one row too many", []*pb.NamedTensor{{Shape: []int64{11, 3}, Data: data}}, wrongTensor, "[11 3]"},
			{"as many as there are numbers", []*pb.NamedTensor{{Shape: []int64{math.MaxInt64, 3}, Data: data}}, wrongSize, "no size"},
			{"fewer than none", []*pb.NamedTensor{{Shape: []int64{-1, 3}, Data: data}}, wrongSize, "no size"},
			{"longer rows", []*pb.NamedTensor{{Shape: []int64{2, 4}, Data: data}}, wrongTensor, "[2 4]"},
			{"no shape", []*pb.NamedTensor{{Data: data}}, wrongTensor, "[]"},
			{"more half-way", []*pb.NamedTensor{{Shape: []int64{2, 3}, Data: data}, {Shape: []int64{3, 3}, Data: data}}, wrongTensor, "[3 3]"},
			{"more data than rows", []*pb.NamedTensor{{Shape: []int64{0, 3}, Data: data}}, wrongSize, "it has 0"},
			{"more rows than data", []*pb.NamedTensor{{Shape: []int64{2, 3}, Data: data}}, cutShort, "12 of 24 bytes"},
		} {
			refused(t, marshalling+": "+c.what, send(c.pieces...), c.why, c.text)
		}
		check.Must(t, send(&pb.NamedTensor{Shape: []int64{2, 3}, Data: data}, &pb.NamedTensor{Shape: []int64{2, 3}, Data: data}))
		p, err := r.session.Collect(limited(t), 0)
		check.Must(t, err)
		got, want := fmt.Sprint(p.Rows(0), p.Payload()), "2 24"
		check.That(t, got == want, "%s: got rows and payload %s, want %s", marshalling, got, want)
		p.Release()
	}
}

// FuzzAssembly: whatever a message says of tensors, either all of it is what comes
// next, or it is refused: nothing is written where it does not belong.
func FuzzAssembly(f *testing.F) {
	l, wire := varying(f), wireLayout(f, plainLayout(f))
	up := newCatalog(l, updateTag)
	add := func(up *catalog, p *tensor.Package, kinds ...uint8) {
		c := chunker{sequence: sequence{catalog: up}, cfg: &config{generated: true}, from: p, round: 1, chunk: 100}
		var all pb.TensorChunk
		for !c.done() {
			all.Tensors = append(all.Tensors, c.next(nil, nil).(*pb.TensorChunk).Tensors...)
		}
		for _, kind := range kinds {
			f.Add(kind, marshal(&all))
		}
	}
	for _, n := range []int{0, 7} {
		p := tensor.Alloc(wire)
		encodeAs(f, p, plainLayout(f), n)
		add(newCatalog(wire, updateTag), p, 2, 3, 4, 5)
	}
	for _, rows := range []int{0, 1, 3} {
		p := tensor.Alloc(l)
		for _, i := range []int{0, 2, 3} {
			check.Must(f, p.SetRows(i, rows))
		}
		add(up, p, 0, 1)
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		l, takes := l, takes(kind/2%3)
		if takes != plain {
			l = wire
		}
		up := newCatalog(l, updateTag)
		in := &incoming{catalog: up, cfg: &config{generated: kind%2 == 1}}
		if err := newCodec(0).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, in); err != nil || in.refused != nil {
			return
		}
		a := assembly{sequence: sequence{catalog: up}, round: 1, into: tensor.Alloc(l), takes: takes}
		err := a.take(in, &tally{})
		sum := 0
		for k := range a.count {
			sum += len(a.into.View(k))
		}
		check.That(t, err != nil || sum+a.got == a.moved,
			"%d bytes were taken for %d in %d tensors and %d in the next", a.moved, sum, a.count, a.got)
		for i := range l.Len() {
			if s := l.Spec(i); s.Var && (a.into.Rows(i) < 0 || a.into.Rows(i) > s.Shape[0]) {
				t.Errorf("tensor %d has %d rows of %d", i, a.into.Rows(i), s.Shape[0])
			}
		}
	})
}
