package batched

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// everyKind has all dtypes, a scalar, empty tensors and sizes around those at
// which the encoder changes its ways.
func everyKind(t testing.TB) *tensor.Layout {
	var specs []tensor.Spec
	for _, d := range tensor.DTypes() {
		specs = append(specs,
			tensor.Spec{Name: d.String() + ".matrix", DType: d, Shape: []int{17, 300}},
			tensor.Spec{Name: d.String() + ".scalar", DType: d},
			tensor.Spec{Name: d.String() + ".empty", DType: d, Shape: []int{2, 0}},
		)
	}
	for _, n := range []int{0, 1, 127, 128, byReference - 1, byReference, frameSize - 1, frameSize, frameSize + 1, 100_000} {
		specs = append(specs, tensor.Spec{Name: fmt.Sprintf("%d%*s", n, n%200, "."), DType: tensor.U8, Shape: []int{n}})
	}
	return layoutFrom(t, specs...)
}

// TestDTypes: a data type has the same number here and on the wire.
func TestDTypes(t *testing.T) {
	if got, want := len(pb.DType_name), len(tensor.DTypes())+1; got != want {
		t.Errorf("%d data types on the wire, want %d", got, want)
	}
	for _, d := range tensor.DTypes() {
		if got, want := pb.DType(d).String(), "DTYPE_"+string(bytes.ToUpper([]byte(d.String()))); got != want {
			t.Errorf("%v is %s on the wire, want %s", d, got, want)
		}
	}
}

// TestEncodeAsGenerated: O25. What the codec sends is byte for byte what the
// generated code would send.
func TestEncodeAsGenerated(t *testing.T) {
	l := everyKind(t)
	p := tensor.Alloc(l)
	tensor.Fill(p, 1)
	c := newCatalog(l, modelTag)
	header := &pb.MessageHeader{Sender: aggregator, Receiver: "worker-0", FederationId: "f"}
	results := &pb.TaskResults{Round: 7, Client: 1, Report: 1, Reports: 1, Receipt: []byte("receipt")}
	for _, round := range []int64{0, 1, 7, 1 << 40, -1} {
		for _, size := range []int{5000, 65536, 1 << 20} {
			ch := chunker{catalog: c, e: encoder{pool: &framePool{}}, from: p, round: round, size: size}
			at, offset := 0, 0
			for first := true; first || !ch.done(); first = false {
				var m *outgoing
				var err error
				want := &pb.TensorChunk{}
				if first {
					m, err = ch.next(header, results)
					want.Header, want.Results = header, results
				} else {
					m, err = ch.next(nil, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				got := m.bufs.Materialize()
				m.bufs.Free()
				for at < ch.count || offset < ch.sent {
					s, end := l.Spec(at), l.Bytes(at)
					if at == ch.count {
						end = ch.sent
					}
					want.Tensors = append(want.Tensors, &pb.NamedTensor{
						Name: s.Name, Dtype: pb.DType(s.DType), Shape: shapeOf(s), Round: round, Tags: []string{modelTag},
						Lossless: true, Offset: uint64(offset), Data: p.View(at)[offset:end],
					})
					if offset = end; at < ch.count {
						at, offset = at+1, 0
					}
				}
				if !bytes.Equal(got, marshal(want)) {
					t.Fatalf("round %d, chunk %d: message of %d bytes differs from the generated one of %d bytes", round, size, len(got), proto.Size(want))
				}
			}
		}
	}
}

// TestChunks: O18. n bytes make ⌈n/chunk⌉ messages.
func TestChunks(t *testing.T) {
	const size = 64 << 10
	for _, n := range []int{0, 1, size - 1, size, size + 1, 3*size - 1, 3 * size, 3*size + 1} {
		for _, tensors := range []int{1, 2, 7} {
			var specs []tensor.Spec
			for k := range tensors {
				share := n / tensors
				if k == 0 {
					share += n % tensors
				}
				specs = append(specs, tensor.Spec{Name: string(rune('a' + k)), DType: tensor.U8, Shape: []int{share}})
			}
			l := layoutFrom(t, specs...)
			ch := chunker{catalog: newCatalog(l, updateTag), e: encoder{pool: &framePool{}}, from: tensor.Alloc(l), size: size}
			got := 0
			for first := true; first || !ch.done(); first = false {
				m, err := ch.next(nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				m.bufs.Free()
				got++
			}
			if want := max(1, (n+size-1)/size); got != want {
				t.Errorf("%d bytes in %d tensors: %d messages, want %d", n, tensors, got, want)
			}
		}
	}
}

// cutUp returns b in buffers of random lengths.
func cutUp(b []byte, r *rand.Rand) mem.BufferSlice {
	var bufs mem.BufferSlice
	for len(b) > 0 {
		n := 1 + r.IntN(min(len(b), 1+r.IntN(40)))
		bufs = append(bufs, mem.SliceBuffer(b[:n]))
		b = b[n:]
		if r.IntN(8) == 0 {
			bufs = append(bufs, mem.SliceBuffer(nil))
		}
	}
	return bufs
}

// generated returns a message of the generated code for a form, and how to read
// the parts that the codec reads.
func generated(f form) (proto.Message, func() (*pb.MessageHeader, *pb.TaskResults, []*pb.NamedTensor)) {
	switch f {
	case single:
		m := &pb.GetAggregatedTensorResponse{}
		return m, func() (*pb.MessageHeader, *pb.TaskResults, []*pb.NamedTensor) {
			if m.Tensor == nil {
				return m.Header, nil, nil
			}
			return m.Header, nil, []*pb.NamedTensor{m.Tensor}
		}
	case many:
		m := &pb.GetAggregatedTensorsResponse{}
		return m, func() (*pb.MessageHeader, *pb.TaskResults, []*pb.NamedTensor) { return m.Header, nil, m.Tensors }
	}
	m := &pb.TensorChunk{}
	return m, func() (*pb.MessageHeader, *pb.TaskResults, []*pb.NamedTensor) { return m.Header, m.Results, m.Tensors }
}

// compare decodes b with the codec and with the generated code and reports any
// difference in verdict or value.
func compare(t *testing.T, f form, b []byte, in *incoming, r *rand.Rand) {
	t.Helper()
	m, parts := generated(f)
	want := proto.Unmarshal(b, m)
	in.form, in.most = f, len(b) // an entry has a byte at least
	got := in.decode(cutUp(b, r))
	if (got == nil) != (want == nil) {
		t.Fatalf("%x: got %v, the generated code says %v", b, got, want)
	}
	if got != nil {
		return
	}
	header, results, tensors := parts()
	if in.header.set != (header != nil) || string(in.header.sender) != header.GetSender() ||
		string(in.header.receiver) != header.GetReceiver() || string(in.header.federation) != header.GetFederationId() {
		t.Errorf("%x: got header %+v, want %v", b, in.header, header)
	}
	if !proto.Equal(in.results, results) {
		t.Errorf("%x: got results %v, want %v", b, in.results, results)
	}
	if len(in.tensors) != len(tensors) {
		t.Fatalf("%x: got %d tensors, want %d", b, len(in.tensors), len(tensors))
	}
	for i, w := range tensors {
		g := &in.tensors[i]
		data := make([]byte, g.data.n)
		g.data.copyTo(data)
		if string(g.name) != w.Name || g.dtype != int32(w.Dtype) || !slices.Equal(g.shape, w.Shape) || g.round != w.Round ||
			g.report != w.Report || g.lossless != w.Lossless || g.offset != w.Offset || !bytes.Equal(data, w.Data) {
			t.Errorf("%x: tensor %d: got %+v, want %v", b, i, g, w)
		}
		if !slices.EqualFunc(g.tags, w.Tags, func(a []byte, b string) bool { return string(a) == b }) {
			t.Errorf("%x: tensor %d: got tags %q, want %q", b, i, g.tags, w.Tags)
		}
		if !slices.EqualFunc(g.codec, w.Codec, equalCodec) {
			t.Errorf("%x: tensor %d: got codec %v, want %v", b, i, g.codec, w.Codec)
		}
	}
	in.release()
	if in.most -= in.left; in.most > 0 { // as many as there are
		if err := in.decode(cutUp(b, r)); err != nil {
			t.Errorf("%x: got %v, with a bound of the %d entries that it has", b, err, in.most)
		}
		in.most--
		if err := in.decode(cutUp(b, r)); !errors.Is(err, errEntries) {
			t.Errorf("%x: got %v, with a bound of one entry less than it has", b, err)
		}
		in.release()
	}
}

// equalCodec compares what is known of two; what is not, proto.Equal would
// compare as well, and NaN would differ from itself.
func equalCodec(a, b *pb.CodecMetadata) bool {
	for name, x := range a.Numbers {
		if y, ok := b.Numbers[name]; !ok || math.Float64bits(x) != math.Float64bits(y) {
			return false
		}
	}
	return a.Name == b.Name && len(a.Numbers) == len(b.Numbers) && slices.Equal(a.Integers, b.Integers)
}

// samples are messages to start from: good ones, odd ones and broken ones.
func samples() [][]byte {
	chunk := &pb.TensorChunk{
		Header:  &pb.MessageHeader{Sender: "worker-0", Receiver: aggregator, FederationId: "f"},
		Results: &pb.TaskResults{Round: 1, Client: 2, Report: 1, Reports: 3, Receipt: []byte("r")},
		Tensors: []*pb.NamedTensor{{
			Name: "a", Dtype: pb.DType_DTYPE_F32, Shape: []int64{2, -1, 1 << 40}, Round: -5, Report: true,
			Tags: []string{"model", "x"}, Lossless: true, Offset: 9, Data: []byte("data"),
			Codec: []*pb.CodecMetadata{{Name: "zip", Numbers: map[string]float64{"level": 1.5}, Integers: []int64{1, -1}}},
		}, {Name: "b", Data: []byte{0}}, {}},
	}
	good := marshal(chunk)
	return [][]byte{
		nil,
		good,
		append(slices.Clone(good), good...), // everything twice: merged or repeated
		good[:len(good)/2],
		{3<<3 | 2, 0, 3<<3 | 2, 0},
		{1<<3 | 2, 0},
		{3<<3 | 2, 4, 3 << 3, 1, 3 << 3, 2}, // shape, not packed
		{3<<3 | 2, 3, 1 << 3, 1, 9 << 3},    // name as a number, then the end
		{9<<3 | 3, 8 << 3, 1, 9<<3 | 4},     // an unknown group
		{9<<3 | 3, 10<<3 | 3, 9<<3 | 4},     // crossed groups
		{1 << 3, 1, 2<<3 | 5, 1, 2, 3, 4, 3<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8},
		{0x80, 0x80, 0x80, 0x80, 0x10, 0}, // a field number beyond the last
		{0x1a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02},
		{3<<3 | 2, 3, 1<<3 | 2, 1, 0xff}, // not UTF-8
	}
}

// TestDecodeAsGenerated: the decoder agrees with the generated one.
func TestDecodeAsGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	in := &incoming{}
	for _, b := range samples() {
		for f := single; f <= chunk; f++ {
			for range 20 {
				compare(t, f, b, in, r)
			}
		}
	}
}

// FuzzDecode: whatever the bytes and wherever they are cut, the decoder comes to
// the verdict and the values of the generated one.
func FuzzDecode(f *testing.F) {
	for i, b := range samples() {
		f.Add(uint8(i), uint64(i), b)
	}
	f.Fuzz(func(t *testing.T, kind uint8, seed uint64, b []byte) {
		compare(t, form(kind%3), b, &incoming{}, rand.New(rand.NewPCG(seed, 0)))
	})
}
