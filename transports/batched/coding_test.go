package batched

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// plainLayout is what clients train on, and wireLayout what travels of it with a
// codec.
func plainLayout(t testing.TB) *tensor.Layout {
	return layoutFrom(t,
		tensor.Spec{Name: "matrix", DType: tensor.F32, Shape: []int{100, 30}},
		tensor.Spec{Name: "scalar", DType: tensor.I64},
		tensor.Spec{Name: "none", DType: tensor.U8, Shape: []int{3, 0, 2}},
		tensor.Spec{Name: "rows", DType: tensor.BF16, Shape: []int{40, 7}, Var: true},
		tensor.Spec{Name: "same", DType: tensor.U8, Shape: []int{500}},
	)
}

func wireLayout(t testing.TB, plain *tensor.Layout) *tensor.Layout {
	var specs []tensor.Spec
	for i := range plain.Len() {
		specs = append(specs, tensor.Spec{Name: plain.Spec(i).Name, DType: tensor.U8, Shape: []int{plain.Bytes(i)}, Var: true})
	}
	return layoutFrom(t, specs...)
}

// encodeAs fills p with what could be an encoding of a model with a layout: lossy
// in the first tensor, as it is in the second, and of which nothing travels but that
// it is the base's in the last.
func encodeAs(t testing.TB, p *tensor.Package, plain *tensor.Layout, n int) {
	t.Helper()
	p.Plain = tensor.Alloc(plain)
	check.Must(t, p.Plain.SetRows(3, 10+n))
	tensor.Fill(p.Plain, uint64(n))
	p.Coding = nil
	for i := range plain.Len() {
		p.Coding = append(p.Coding, tensor.Coding{Spec: plain.Spec(i), Steps: []string{"sparse", "zstd"}, Lossless: true, Base: int64(n - 1)})
	}
	p.Coding[0].Steps, p.Coding[0].Lossless = []string{"int8", "gaps"}, false
	p.Coding[1].Steps, p.Coding[1].Base = nil, -1
	for i, rows := range []int{9000 + n, 8, 0, 3 + n, 0} {
		check.Must(t, p.SetRows(i, rows))
	}
	tensor.Fill(p, uint64(1000+n))
}

// encodedRig returns a session whose model is encoded.
func encodedRig(t *testing.T, name string) *rig {
	t.Helper()
	r := listen(t, name, wireLayout(t, plainLayout(t)), 1)
	r.encoded(1)
	return r
}

// encoded publishes an encoded model.
func (r *rig) encoded(n int) {
	r.t.Helper()
	m, err := r.session.Reserve()
	check.Must(r.t, err)
	encodeAs(r.t, m, plainLayout(r.t), n)
	m.Receipt = append(m.Receipt[:0], "header"...)
	if _, err := r.session.Publish(r.t.Context(), m); err != nil {
		r.t.Fatal(err)
	}
	r.model = m
}

// TestEncoded: what a codec has made of a model arrives at our worker byte for byte,
// and what it has made of an update at the server, also in small pieces.
func TestEncoded(t *testing.T) {
	for _, name := range []string{
		"grpc-tensor", "grpc-batch", "grpc-batch:split=on:limit=64KiB:chunk=4KiB", "grpc-stream:chunk=4KiB",
		"grpc-tensor:marshal=generated", "grpc-batch:marshal=generated", "grpc-stream:chunk=4KiB:marshal=generated",
	} {
		r := encodedRig(t, name)
		w := r.dial(name, 0)
		for n := range 5 {
			r.encoded(n)
			r.dispatch(0, jobOf(n, 3))
			_, m, err := w.Receive(limited(t))
			check.Must(t, err, name)
			check.That(t, m.Hash() == r.model.Hash() && string(m.Receipt) == "header",
				"%s: version %d came as another one", name, n)
			u, err := w.Reserve()
			check.Must(t, err)
			encodeAs(t, u, plainLayout(t), 25-n)
			want := u.Hash()
			check.Must(t, w.Submit(limited(t), u), name)
			p, err := r.session.Collect(limited(t), 0)
			check.Must(t, err)
			check.That(t, p.Hash() == want, "%s: update %d came as another one", name, n)
			p.Release()
		}
	}
}

// fetched asks for all tensors of the model in each of the three ways, and returns
// what came, in one piece each.
func (r *rig) fetched(client pb.FederationClient, specs []*pb.TensorSpec) (all [3][]*pb.NamedTensor, errs [3]error) {
	ctx := limited(r.t)
	for _, s := range specs {
		a, err := client.GetAggregatedTensor(ctx, &pb.GetAggregatedTensorRequest{Header: r.head(0), Client: 3, Spec: s})
		all[0], errs[0] = append(all[0], a.GetTensor()), errors.Join(errs[0], err)
	}
	many := &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 3, Specs: specs}
	a, err := client.GetAggregatedTensors(ctx, many)
	all[1], errs[1] = a.GetTensors(), err
	stream, err := client.StreamAggregatedTensors(ctx, many)
	for err == nil {
		var c *pb.TensorChunk
		c, err = stream.Recv()
		for _, t := range c.GetTensors() {
			if last := len(all[2]) - 1; t.Offset > 0 && last >= 0 && int(t.Offset) == len(all[2][last].Data) {
				all[2][last].Data = append(all[2][last].Data, t.Data...)
				continue
			}
			all[2] = append(all[2], t)
		}
	}
	if !errors.Is(err, io.EOF) {
		errs[2] = err
	}
	return all, errs
}

// TestStrangersAreServed: O3 ("each spec may carry its own lossless flag"), O14, O25. In
// a session with a codec, who does not say that it can decode gets every tensor as it
// is for those who train, bit for bit, and who says so gets it as it travels, with all
// that makes it: steps, data type and shape of the tensor, whether it is exactly what
// its sender had, and its base. One request may ask for both.
func TestStrangersAreServed(t *testing.T) {
	for _, name := range []string{"grpc-stream:chunk=4KiB", "grpc-stream:chunk=4KiB:marshal=generated"} {
		r := encodedRig(t, name)
		client, _ := r.stranger()
		for n := range 4 {
			r.encoded(n + 1)
			r.dispatch(0, jobOf(n, 3))
			specs := r.specs(n, 0, 1, 2, 3, 4)
			for i, s := range specs {
				s.AcceptEncoded = n == 1 || n > 1 && i%2 == n%2
				s.RequireLossless = i != 0 && i%2 == 1
			}
			ways, errs := r.fetched(client, specs)
			for way, got := range ways {
				if errs[way] != nil || len(got) != len(specs) {
					t.Fatalf("%s: way %d: %d tensors, error %v", name, way, len(got), errs[way])
				}
				for i, nt := range got {
					c, from := r.model.Coding[i], r.model.Plain
					want := &pb.NamedTensor{
						Name: c.Spec.Name, Dtype: pb.DType(c.Spec.DType), Round: int64(n), Tags: []string{modelTag}, Lossless: c.Lossless,
					}
					for _, d := range c.Spec.Shape {
						want.Shape = append(want.Shape, int64(d))
					}
					if c.Spec.Var {
						want.Shape[0] = int64(10 + n + 1)
					}
					if specs[i].AcceptEncoded {
						from = r.model
						for _, step := range c.Steps {
							want.Codec = append(want.Codec, &pb.CodecMetadata{Name: step})
						}
						if c.Base >= 0 {
							want.Base = proto.Int64(c.Base)
						}
						want.Encoded = proto.Uint64(uint64(len(from.View(i))))
					}
					if data := nt.Data; !bytes.Equal(data, from.View(i)) {
						t.Errorf("%s: way %d: %q: %d bytes that are not its %d", name, way, nt.Name, len(data), len(from.View(i)))
					}
					nt.Data = nil
					check.That(t, proto.Equal(nt, want), "%s: way %d:\ngot  %v\nwant %v", name, way, nt, want)
				}
			}
			r.end(client, n)
		}
	}
}

// end ends the task in hand.
func (r *rig) end(client pb.FederationClient, round int) {
	r.t.Helper()
	chunk := &pb.TensorChunk{
		Header:  r.head(0),
		Results: &pb.TaskResults{TaskId: uint64(round + 1), Round: int64(round), Client: 3, Report: 1, Reports: 1},
	}
	for i := range r.o.Up.Len() {
		chunk.Tensors = append(chunk.Tensors, &pb.NamedTensor{
			Name: r.o.Up.Spec(i).Name, Dtype: pb.DType_DTYPE_F32, Round: int64(round), Tags: []string{updateTag}, Encoded: proto.Uint64(0),
		})
	}
	check.Must(r.t, upload(limited(r.t), client, chunk))
	p, err := r.session.Collect(limited(r.t), 0)
	check.Must(r.t, err)
	p.Release()
}

// TestLosslessIsRequired: O15 ("label equals reality"). A tensor that went through a
// lossy codec is refused to who requires it to be lossless, be it encoded or decoded,
// by its name and the codec's; the others are served.
func TestLosslessIsRequired(t *testing.T) {
	r := encodedRig(t, "grpc-batch")
	r.dispatch(0, jobOf(1, 3))
	client, _ := r.stranger()
	for _, accept := range []bool{false, true} {
		all := r.specs(1, 1, 0, 3)
		for _, s := range all {
			s.AcceptEncoded = accept
		}
		_, errs := r.fetched(client, all)
		for way, err := range errs {
			if way == 0 { // one call a tensor: the others have come
				err = func() error { _, errs := r.fetched(client, all[1:2]); return errs[1] }()
			}
			refused(t, fmt.Sprintf("way %d, accept %v", way, accept), err, lossyCodec, `tensor "matrix" went through int8+gaps`)
		}
		all[1].RequireLossless = false
		if _, errs := r.fetched(client, all); errors.Join(errs[:]...) != nil {
			t.Errorf("without that: %v", errs)
		}
	}
}

// TestStrangersResults: in a session with a codec, results that are not encoded are
// refused by name, and those that lie about their length; without one, encoded results.
// The task stays out, and ends as it should.
func TestStrangersResults(t *testing.T) {
	r := encodedRig(t, "grpc-stream")
	r.dispatch(0, jobOf(0, 3))
	client, _ := r.stranger()
	results := &pb.TaskResults{TaskId: 1, Client: 3, Report: 1, Reports: 1}
	send := func(pieces ...*pb.NamedTensor) error {
		return upload(limited(t), client, &pb.TensorChunk{Header: r.head(0), Results: results, Tensors: pieces})
	}
	piece := func(length, data int) *pb.NamedTensor {
		nt := &pb.NamedTensor{Name: "matrix", Dtype: pb.DType_DTYPE_F32, Shape: []int64{100, 30}, Tags: []string{updateTag}, Data: make([]byte, data)}
		if length >= 0 {
			nt.Encoded = proto.Uint64(uint64(length))
		}
		return nt
	}
	refused(t, "as it is", send(piece(-1, 12_000)), unknownCodec, `"matrix" comes as it is`)
	asBytes := piece(-1, 12_000)
	asBytes.Dtype, asBytes.Shape = pb.DType_DTYPE_U8, []int64{12_000}
	refused(t, "as bytes", send(asBytes), unknownCodec, `"matrix" comes as it is`)
	refused(t, "longer than the tensor", send(piece(12_001, 10)), wrongSize, "12001 bytes")
	huge := piece(0, 10)
	huge.Encoded = proto.Uint64(1 << 63)
	refused(t, "longer than any", send(huge), wrongSize, "9223372036854775808 bytes")
	refused(t, "more data than it says", send(piece(9, 10)), wrongSize, "it has 9")
	refused(t, "less data than it says", send(piece(11, 10)), cutShort, "10 of 11 bytes")
	second := piece(12, 10)
	second.Offset = 10
	refused(t, "another length half-way", send(piece(11, 10), second), wrongSize, "12 bytes: it has 11")
	r.end(client, 0)

	r = listen(t, "grpc-stream", wireLayout(t, plainLayout(t)), 1)
	r.dispatch(0, jobOf(0, 3))
	client, _ = r.stranger()
	refused(t, "encoded", send(piece(10, 10)), unknownCodec, `"matrix"`)
	steps := piece(-1, 10)
	steps.Codec = []*pb.CodecMetadata{{Name: "zip"}}
	steps.Dtype, steps.Shape = pb.DType_DTYPE_U8, []int64{10}
	refused(t, "with steps", send(steps), unknownCodec, `"zip"`)
}

// TestEncodedAsGenerated: O25. What is said of encoded tensors is byte for byte what
// generated code would say, and is read without it: also by a receiver that does not
// know whether there is a codec.
func TestEncodedAsGenerated(t *testing.T) {
	wire := wireLayout(t, plainLayout(t))
	p := tensor.Alloc(wire)
	encodeAs(t, p, plainLayout(t), 3)
	c := newCatalog(wire, modelTag)
	for _, round := range []int64{0, 1, 1 << 40, -1} {
		for _, size := range []int{100, 5000, 1 << 20} {
			for _, decoded := range [][]bool{nil, {true, true, true, true, true}, {true, false, true, false, true}} {
				ours := chunker{sequence: sequence{catalog: c}, cfg: &config{}, pool: &framePool{}, from: p, plain: decoded, round: round, chunk: size}
				theirs := ours
				theirs.cfg = &config{generated: true}
				into := assembly{sequence: sequence{catalog: c}, round: round, into: tensor.Alloc(wire), takes: either}
				for first := true; first || !ours.done(); first = false {
					bufs := ours.next(nil, nil).(*outgoing).bufs
					if want := theirs.next(nil, nil).(*pb.TensorChunk); !bytes.Equal(bufs.Materialize(), marshal(want)) {
						t.Fatalf("round %d, chunk %d, decoded %v: the message differs from the generated one:\n%v", round, size, decoded, want)
					}
					m := &incoming{catalog: c}
					if decoded != nil {
						continue
					}
					err := viewOf(bufs).eachField(func(f field) error {
						description, data, err := m.describe(f.value)
						if err == nil && !into.knows(description, m) {
							return fmt.Errorf("what is said of a piece of tensor %d is not known", into.count)
						}
						return errors.Join(err, into.place(into.count, data))
					})
					check.Must(t, err, "round", round, "chunk", size)
				}
				check.That(t, decoded != nil || into.into.Hash() == p.Hash(),
					"round %d, chunk %d: another package came", round, size)
			}
		}
	}
}

// TestBareTask: a task without a model has no tensors to fetch, and takes results.
func TestBareTask(t *testing.T) {
	r := encodedRig(t, "grpc-batch")
	client, _ := r.stranger()
	check.Must(t, r.server.Dispatch(t.Context(), 0, nil, driver.Job{Client: 3}))
	got, err := client.GetTasks(limited(t), &pb.GetTasksRequest{Header: r.head(0)})
	check.That(t, err == nil && got.Task.ModelVersion == 0 && len(got.Task.Receipt) <= 0,
		"got %v, error %v, want a task without a model", got, err)
	_, errs := r.fetched(client, r.specs(0, 1))
	for _, err := range errs {
		refused(t, "fetch", err, wrongTask, "without a model")
	}
	chunk := &pb.TensorChunk{Header: r.head(0), Results: &pb.TaskResults{TaskId: 1, Client: 3, Report: 1, Reports: 1}}
	for i := range r.o.Up.Len() {
		chunk.Tensors = append(chunk.Tensors, &pb.NamedTensor{Name: r.o.Up.Spec(i).Name, Tags: []string{updateTag}, Encoded: proto.Uint64(0)})
	}
	check.Must(t, upload(limited(t), client, chunk))
	p, _, err := r.server.Collect(limited(t), 0)
	check.Must(t, err)
	p.Release()
}

// TestStrangersWithCodecs: O14, O15, O16: the same with real codecs, also after the
// first version, which has no base: what strangers get is what our workers train on.
func TestStrangersWithCodecs(t *testing.T) {
	l := layoutFrom(t, tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{300, 10}}, tensor.Spec{Name: "n", DType: tensor.I64, Shape: []int{2}})
	for _, c := range []struct {
		codec string
		steps []string
		lossy bool
	}{{"sparse", []string{"sparse"}, false}, {"int8", []string{"int8"}, true}, {"bf16+gaps", []string{"bf16", "gaps"}, true}} {
		r := listen(t, "grpc-stream:codec="+c.codec, l, 1)
		client, _ := r.stranger()
		w := r.dial("grpc-stream:codec="+c.codec, 0)
		for n := range 3 {
			m, err := r.session.Reserve()
			check.Must(t, err)
			if n > 0 {
				m.CopyFrom(r.model)
			} else {
				tensor.Fill(m, 1)
			}
			tensor.Slice[float32](m.View(0))[n]++
			r.model, err = r.session.Publish(t.Context(), m)
			check.Need(t, err == nil, "%v", err)
			done := make(chan error, 1)
			r.dispatch(0, jobOf(n, 3))
			_, got, err := w.Receive(limited(t))
			check.Must(t, err)
			specs := r.specs(n, 0, 1)
			for _, s := range specs {
				s.RequireLossless = false
			}
			ways, errs := r.fetched(client, specs)
			for way, tensors := range ways {
				if errs[way] != nil {
					t.Fatalf("%s: %v", c.codec, errs[way])
				}
				for i, nt := range tensors {
					if !bytes.Equal(nt.Data, r.model.View(i)) || !bytes.Equal(got.View(i), r.model.View(i)) || len(nt.Codec) > 0 || nt.Dtype != pb.DType(l.Spec(i).DType) {
						t.Errorf("%s: round %d, way %d: tensor %d is another one", c.codec, n, way, i)
					}
				}
			}
			specs[0].AcceptEncoded = true
			ways, _ = r.fetched(client, specs)
			if first := ways[1][0]; n > 0 && (first.Lossless == c.lossy || len(first.Codec) != len(c.steps) || first.Codec[0].Name != c.steps[0] || *first.Encoded != uint64(len(first.Data))) {
				t.Errorf("%s: round %d: got %v %v of %d bytes", c.codec, n, first.Lossless, first.Codec, len(first.Data))
			}
			specs[0].RequireLossless = true
			if _, errs := r.fetched(client, specs); c.lossy {
				by := c.codec
				if len(ways[1][0].Codec) == 0 { // all of it, as the codec has left it
					by = "a codec"
				}
				refused(t, fmt.Sprint(c.codec, ": round ", n), errs[1], lossyCodec, `"w" went through `+by)
			} else if errs[1] != nil {
				t.Errorf("%s: %v", c.codec, errs[1])
			}
			u, err := w.Reserve()
			check.Must(t, err)
			u.CopyFrom(got)
			go func() { done <- w.Submit(limited(t), u) }()
			p, err := r.session.Collect(limited(t), 0)
			check.Must(t, errors.Join(err, <-done))
			p.Release()
		}
	}
}
