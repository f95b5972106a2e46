package batched

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver/drivertest"
)

// varying has tensors whose lengths vary, one of them with rows of 0 bytes, and one of
// fixed length.
func varying(t testing.TB) *tensor.Layout {
	return drivertest.Layout(t,
		tensor.Spec{Name: "tokens", DType: tensor.I32, Shape: []int{1000, 30}, Var: true},
		tensor.Spec{Name: "fixed", DType: tensor.F32, Shape: []int{7}},
		tensor.Spec{Name: "void", DType: tensor.F64, Shape: []int{200, 0}, Var: true},
		tensor.Spec{Name: "bytes", DType: tensor.U8, Shape: []int{300}, Var: true},
	)
}

// TestBadRows: O25. Impossible numbers of rows, rows that change midway, and rows that do
// not match the data are refused. Rows that arrive in pieces are accepted.
func TestBadRows(t *testing.T) {
	l := drivertest.Layout(t, tensor.Spec{Name: "a", DType: tensor.I32, Shape: []int{10, 3}, Var: true})
	for _, name := range []string{"grpc-stream", "grpc-stream:marshal=generated"} {
		r := listen(t, name, l, 1)
		r.dispatch(0, jobOf(1, 3))
		client, _ := r.stranger()
		send := func(shapes ...[]int64) error {
			chunk := &pb.TensorChunk{Header: r.head(0), Results: results(1)}
			for i, shape := range shapes {
				nt := named(l.Spec(0), 1, updateTag, bytes.Repeat([]byte{byte(i + 1)}, 12))
				nt.Shape, nt.Offset = shape, uint64(i*12)
				chunk.Tensors = append(chunk.Tensors, nt)
			}
			return upload(waiting.Context(t), client, chunk)
		}
		for _, c := range []struct {
			what   string
			shapes [][]int64 // shapes of the pieces; each piece has one row of data
			why    reason
			text   string
		}{
			{"one row too many", [][]int64{{11, 3}}, wrongTensor, "[11 3]"},
			{"as many as there are numbers", [][]int64{{math.MaxInt64, 3}}, wrongTensor, "[9223372036854775807 3]"},
			{"fewer than none", [][]int64{{-1, 3}}, wrongTensor, "[-1 3]"},
			{"longer rows", [][]int64{{2, 4}}, wrongTensor, "[2 4]"},
			{"no shape", [][]int64{nil}, wrongTensor, "[]"},
			{"more half-way", [][]int64{{2, 3}, {3, 3}}, wrongTensor, "[3 3]"},
			{"more data than rows", [][]int64{{0, 3}}, wrongSize, "length of 0"},
			{"more rows than data", [][]int64{{2, 3}}, cutShort, "12 of 24 bytes"},
		} {
			refused(t, name+": "+c.what, send(c.shapes...), c.why, c.text)
		}
		check.Must(t, send([]int64{2, 3}, []int64{2, 3}))
		p := r.collect()
		check.Equal(t, p.Rows(0), 2, name, "rows")
		check.Equal(t, p.View(0), []byte(strings.Repeat("\x01", 12)+strings.Repeat("\x02", 12)), name)
		p.Release()
	}
}

// FuzzAssembly: whatever a message says about its tensors, either all of it is the expected
// next data, or the message is refused. No byte is written to a wrong place.
func FuzzAssembly(f *testing.F) {
	l, wire := varying(f), wireLayout(f, plainLayout(f))
	up := newCatalog(l, updateTag)
	add := func(up *catalog, p *tensor.Package, kinds ...uint8) {
		c := chunker{sequence: up.whole(), cfg: &config{generated: true}, from: p, round: 1, chunk: 100}
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
		a := assembly{sequence: up.whole(), round: 1, into: tensor.Alloc(l), takes: takes}
		err := a.take(in, &stopwatch{})
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
