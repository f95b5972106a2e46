package batched

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// plainLayout is the layout that clients train on. wireLayout is the layout of its encoded
// form.
func plainLayout(t testing.TB) *tensor.Layout {
	return drivertest.Layout(t,
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
	return drivertest.Layout(t, specs...)
}

// encodeAs fills p with bytes that could be the encoding of a model. The first tensor is
// lossy, the second is not encoded, and the last equals its base, so nothing of it is sent.
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

// encoded publishes encoded model n, based on model n-1.
func (r *rig) encoded(n int) {
	r.T.Helper()
	m := check.Value(r.Server.Reserve(0))(r.T)
	encodeAs(r.T, m, plainLayout(r.T), n)
	r.Model = check.Value(r.Server.Publish(r.T.Context(), 0, m))(r.T)
}

// TestEncoded: encoded models arrive at our worker byte for byte, and encoded updates at
// the server, also in small chunks.
func TestEncoded(t *testing.T) {
	for _, name := range []string{
		"grpc-tensor", "grpc-batch", "grpc-batch:split=on:limit=64KiB:chunk=4KiB", "grpc-stream:chunk=4KiB",
		"grpc-tensor:marshal=generated", "grpc-batch:marshal=generated", "grpc-stream:chunk=4KiB:marshal=generated",
	} {
		r := encodedRig(t, name)
		r.Dial(0)
		for n := range 5 {
			r.encoded(n)
			var sent uint64
			p := r.ExchangeBy(0, jobOf(n, 3), func(_ driver.Job, model, update *tensor.Package) error {
				check.Equal(t, model.Hash(), r.Model.Hash(), name, "the hash of model", n)
				encodeAs(t, update, plainLayout(t), 25-n)
				sent = update.Hash()
				return nil
			})
			check.Equal(t, p.Hash(), sent, name, "the hash of update", n)
			p.Release()
		}
	}
}

// TestStrangersAreServed: O3 ("each spec may carry its own lossless flag"), O14, O25.
//
// In a session with a codec, a client gets decoded tensors, bit for bit, unless it accepts
// encoded ones. Encoded ones come with their steps, base, data type, shape, and whether
// they are lossless. One request may ask for both.
func TestStrangersAreServed(t *testing.T) {
	for _, name := range []string{"grpc-stream:chunk=4KiB", "grpc-stream:chunk=4KiB:marshal=generated"} {
		r := encodedRig(t, name)
		client, _ := r.stranger()
		for n := range 4 {
			r.encoded(n + 1)
			r.dispatch(0, jobOf(n, 3))
			specs := r.specs(n, 0, 1, 2, 3, 4)
			var want []*pb.NamedTensor
			for i, s := range specs {
				s.AcceptEncoded = n == 1 || n > 1 && i%2 == n%2
				s.RequireLossless = i != 0 && i%2 == 1
				want = append(want, r.coded(i, n, s.AcceptEncoded))
			}
			ways, errs := r.fetched(client, specs)
			for way, got := range ways {
				check.Need(t, errs[way] == nil && len(got) == len(want), "%s: way %d: %d tensors, error %v", name, way, len(got), errs[way])
				for i, nt := range got {
					check.That(t, proto.Equal(nt, want[i]), "%s: way %d, round %d: %q is another tensor", name, way, n, nt.Name)
				}
			}
			r.end(client, uint64(n+1), n)
			r.collect().Release()
		}
	}
}

// coded returns the message for tensor i of an encoded model, encoded or decoded.
func (r *rig) coded(i, round int, encoded bool) *pb.NamedTensor {
	c := r.Model.Coding[i]
	nt := named(c.Spec, round, modelTag, r.Model.Plain.View(i))
	nt.Shape, nt.Lossless = shapeOf(c.Spec, r.Model.Plain.Rows(i)), c.Lossless
	if !encoded {
		return nt
	}
	nt.Data, nt.Encoded = r.Model.View(i), proto.Uint64(uint64(len(r.Model.View(i))))
	for _, step := range c.Steps {
		nt.Codec = append(nt.Codec, &pb.CodecMetadata{Name: step})
	}
	if c.Base >= 0 {
		nt.Base = proto.Int64(c.Base)
	}
	return nt
}

// end sends empty results for a task.
func (r *rig) end(client pb.FederationClient, task uint64, round int) {
	r.T.Helper()
	chunk := &pb.TensorChunk{Header: r.head(0), Results: results(round)}
	chunk.Results.TaskId = task
	for i := range r.Options.Up.Len() {
		chunk.Tensors = append(chunk.Tensors, &pb.NamedTensor{
			Name: r.Options.Up.Spec(i).Name, Round: int64(round), Tags: []string{updateTag}, Encoded: proto.Uint64(0),
		})
	}
	check.Must(r.T, upload(waiting.Context(r.T), client, chunk))
}

// TestLosslessIsRequired: O15 ("label equals reality"). A request that requires a lossless
// tensor is refused if the tensor's codec is lossy, whether it is sent encoded or decoded.
// The error names the tensor and the codec; the other tensors are served.
func TestLosslessIsRequired(t *testing.T) {
	r := encodedRig(t, "grpc-batch")
	r.dispatch(0, jobOf(1, 3))
	client, _ := r.stranger()
	for _, accept := range []bool{false, true} {
		all := r.specs(1, 1, 0, 3)
		for _, s := range all {
			s.AcceptEncoded = accept
		}
		_, alone := r.fetched(client, all[1:2])
		_, errs := r.fetched(client, all)
		for _, err := range []error{alone[0], errs[1], errs[2]} {
			refused(t, fmt.Sprint("accept ", accept), err, lossyCodec, `tensor "matrix" is not lossless after int8+gaps`)
		}
		all[1].RequireLossless = false
		_, errs = r.fetched(client, all)
		check.OK(t, errors.Join(errs[:]...), "without that")
	}
}

// TestStrangersResults: a session with a codec refuses results that are not encoded or
// whose length is wrong. A session without one refuses encoded results. The errors name the
// tensor, and the task stays open until good results come.
func TestStrangersResults(t *testing.T) {
	const none = math.MaxUint64 // length of a piece that is not encoded
	type piece struct {
		length, offset uint64
		data           int
	}
	coded, bare := encodedRig(t, "grpc-stream"), listen(t, "grpc-stream", wireLayout(t, plainLayout(t)), 1)
	for _, c := range []struct {
		what   string
		in     *rig
		pieces []piece
		why    reason
		text   string
	}{
		{"as it is", coded, []piece{{none, 0, 12_000}}, unknownCodec, `"matrix" is not encoded`},
		{"longer than the tensor", coded, []piece{{12_001, 0, 10}}, wrongSize, "12001 bytes"},
		{"longer than any", coded, []piece{{1 << 63, 0, 10}}, wrongSize, "9223372036854775808 bytes"},
		{"more data than it says", coded, []piece{{9, 0, 10}}, wrongSize, "length of 9"},
		{"less data than it says", coded, []piece{{11, 0, 10}}, cutShort, "10 of 11 bytes"},
		{"another length half-way", coded, []piece{{11, 0, 10}, {12, 10, 10}}, wrongSize, "12 bytes must have at most 12000, and the same length"},
		{"encoded, without a codec", bare, []piece{{10, 0, 10}}, unknownCodec, `"matrix"`},
		{"with steps, without a codec", bare, []piece{{none, 0, 10}}, unknownCodec, `"zip"`},
	} {
		if _, out := c.in.server.lanes[0].mail.Order(); !out {
			c.in.dispatch(0, jobOf(0, 3))
		}
		chunk := &pb.TensorChunk{Header: c.in.head(0), Results: results(0)}
		for _, p := range c.pieces {
			nt := &pb.NamedTensor{Name: "matrix", Tags: []string{updateTag}, Offset: p.offset, Data: make([]byte, p.data)}
			nt.Dtype, nt.Shape = pb.DType_DTYPE_U8, []int64{int64(p.data)} // bytes without a tensor's own type and shape
			if p.length != none {
				nt.Encoded = proto.Uint64(p.length)
			} else if c.in == bare {
				nt.Codec = []*pb.CodecMetadata{{Name: "zip"}}
			}
			chunk.Tensors = append(chunk.Tensors, nt)
		}
		client, _ := c.in.stranger()
		refused(t, c.what, upload(waiting.Context(t), client, chunk), c.why, c.text)
	}
	client, _ := coded.stranger()
	coded.end(client, 1, 0)
	coded.collect().Release()
}

// TestBareTask: a task without a model has no tensors to fetch, and accepts results.
func TestBareTask(t *testing.T) {
	r := encodedRig(t, "grpc-batch")
	client, _ := r.stranger()
	check.Must(t, r.server.Dispatch(t.Context(), 0, nil, driver.Job{Client: 3}))
	got, err := client.GetTasks(waiting.Context(t), &pb.GetTasksRequest{Header: r.head(0)})
	check.That(t, err == nil && got.Task.ModelVersion == 0 && len(got.Task.Receipt) == 0,
		"got %v, error %v, want a task without a model", got, err)
	_, errs := r.fetched(client, r.specs(0, 0, 1))
	for _, err := range errs[1:] {
		refused(t, "fetch", err, wrongTask, "without a model")
	}
	r.end(client, 1, 0)
	p, _, err := r.server.Collect(waiting.Context(t), 0)
	check.Must(t, err)
	p.Release()
}

// TestStrangersWithCodecs: O14, O15, O16. With real codecs, clients of generated code get
// the same model as our workers, also in the first version, which has no base.
func TestStrangersWithCodecs(t *testing.T) {
	l := drivertest.Layout(t, tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{300, 10}}, tensor.Spec{Name: "n", DType: tensor.I64, Shape: []int{2}})
	for _, c := range []struct {
		codec string
		lossy bool
	}{{"sparse", false}, {"int8", true}, {"bf16+gaps", true}} {
		r := listen(t, "grpc-stream:codec="+c.codec, l, 1)
		client, _ := r.stranger()
		r.Dial(0)
		for n := range 3 {
			m := check.Value(r.Server.Reserve(0))(t)
			m.CopyFrom(r.Model)
			tensor.Slice[float32](m.View(0))[n]++
			r.Model = check.Value(r.Server.Publish(t.Context(), 0, m))(t)
			r.ExchangeBy(0, jobOf(n, 3), func(_ driver.Job, model, update *tensor.Package) error {
				check.Equal(t, model.Hash(), r.Model.Hash(), c.codec, "what a worker trains on")
				specs := r.specs(n, 0, 1)
				specs[0].RequireLossless, specs[1].RequireLossless = false, false
				ways, errs := r.fetched(client, specs)
				for way, tensors := range ways {
					check.Need(t, errs[way] == nil && len(tensors) == 2, "%s: way %d: %d tensors, error %v", c.codec, way, len(tensors), errs[way])
					for i, nt := range tensors {
						check.That(t, bytes.Equal(nt.Data, model.View(i)) && len(nt.Codec) == 0 && nt.Dtype == pb.DType(l.Spec(i).DType),
							"%s: round %d, way %d: tensor %d is another one", c.codec, n, way, i)
					}
				}
				specs[0].AcceptEncoded = true
				ways, _ = r.fetched(client, specs)
				coded, by := ways[1][0], c.codec
				if len(coded.Codec) == 0 { // the codec sent the whole tensor without encoding it
					check.That(t, n == 0, "%s: round %d: nothing is encoded", c.codec, n)
					by = "a codec"
				} else {
					steps := strings.Split(c.codec, "+")
					check.That(t, len(coded.Codec) == len(steps) && coded.Codec[0].Name == steps[0] && *coded.Encoded == uint64(len(coded.Data)),
						"%s: round %d: got %v of %d bytes", c.codec, n, coded.Codec, len(coded.Data))
					check.Equal(t, coded.Lossless, !c.lossy, c.codec, "round", n, "lossless")
				}
				specs[0].RequireLossless = true
				if _, errs = r.fetched(client, specs); c.lossy {
					refused(t, fmt.Sprint(c.codec, ": round ", n), errs[1], lossyCodec, `"w" is not lossless after `+by)
				} else {
					check.OK(t, errs[1], c.codec)
				}
				update.CopyFrom(model)
				return nil
			}).Release()
		}
	}
}
