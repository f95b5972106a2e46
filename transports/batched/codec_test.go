package batched

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"ipcbench/internal/test/check"
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
		got, want := pb.DType(d).String(), "DTYPE_"+string(bytes.ToUpper([]byte(d.String())))
		check.That(t, got == want, "%v is %s on the wire, want %s", d, got, want)
	}
}

// TestEncodeAsGenerated: O25. What the codec sends is byte for byte what the
// generated code would send.
func TestEncodeAsGenerated(t *testing.T) {
	l := everyKind(t)
	p := tensor.Alloc(l)
	tensor.Fill(p, 1)
	c := newCatalog(l, modelTag)
	header := &pb.MessageHeader{Sender: aggregator, Receiver: "lane-0", FederationId: "f"}
	results := &pb.TaskResults{Round: 7, Client: 1, Report: 1, Reports: 1, Receipt: []byte("receipt")}
	for _, round := range []int64{0, 1, 7, 1 << 40, -1} {
		for _, size := range []int{5000, 65536, 1 << 20} {
			ours := chunker{sequence: sequence{catalog: c}, cfg: &config{}, pool: &framePool{}, from: p, round: round, chunk: size}
			theirs := ours
			theirs.cfg = &config{generated: true}
			for first := true; first || !ours.done(); first = false {
				var got, want any
				if first {
					got, want = ours.next(header, results), theirs.next(header, results)
				} else {
					got, want = ours.next(nil, nil), theirs.next(nil, nil)
				}
				bufs := got.(*outgoing).bufs
				if message := want.(*pb.TensorChunk); !bytes.Equal(bufs.Materialize(), marshal(message)) {
					t.Fatalf("round %d, chunk %d: message of %d bytes differs from the generated one of %d bytes", round, size, bufs.Len(), proto.Size(message))
				}
				bufs.Free()
			}
			check.Need(t, theirs.done(),
				"round %d, chunk %d: generated code sends %d tensors, ours %d", round, size, theirs.count, ours.count)
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
			ch := chunker{sequence: sequence{catalog: newCatalog(l, updateTag)}, cfg: &config{}, pool: &framePool{}, from: tensor.Alloc(l), chunk: size}
			got := 0
			for first := true; first || !ch.done(); first = false {
				ch.next(nil, nil).(*outgoing).bufs.Free()
				got++
			}
			check.Equal(t, got, max(1, (n+size-1)/size), n, "bytes in", tensors, "tensors messages")
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

// parse decodes b, cut up at random, all of it.
func parse(in *incoming, b []byte, r *rand.Rand) (*pb.TensorChunk, error) {
	bufs := cutUp(b, r)
	if err := newCodec(0).Unmarshal(bufs, in); err != nil {
		return nil, err
	}
	defer in.release()
	got := &pb.TensorChunk{Header: in.header, Results: in.results, Tensors: in.tensors}
	err := viewOf(in.bufs).eachField(func(f field) error {
		if f.num != fieldTensors {
			return nil
		}
		description, data, err := in.describe(f.value)
		t := &pb.NamedTensor{}
		if err == nil {
			err = proto.Unmarshal(description, t)
		}
		t.Data = data.appendTo(nil)
		got.Tensors = append(got.Tensors, t)
		return err
	})
	return got, errors.Join(in.refused, err)
}

// compare decodes b in both ways and with nothing but generated code, and reports
// any difference in verdict or value. Some that is valid is refused: groups, what
// is to be merged, and what is too long.
func compare(t *testing.T, cfg *config, b []byte, in *incoming, r *rand.Rand) {
	t.Helper()
	message := &pb.TensorChunk{}
	want := proto.Unmarshal(b, message)
	in.cfg, in.catalog = cfg, &catalog{describeOne: len(b), describeAll: (1 + entryCost) * len(b)}
	got, err := parse(in, b, r)
	strict := errors.Is(err, errGroup) || errors.Is(err, errTwice) || errors.Is(err, errDescribed) && len(b) > headerRoom
	check.Need(t, (err == nil) == (want == nil) || strict, "%x: got %v, generated code says %v", b, err, want)
	if err != nil {
		return
	}
	message.ProtoReflect().SetUnknown(nil)
	check.That(t, proto.Equal(got, message), "%x: got %v, want %v", b, got, message)
	long := 0 // what is said most of a tensor
	_ = viewOf(cutUp(b, r)).eachField(func(f field) error {
		if f.num == fieldTensors {
			description, _, _ := in.describe(f.value)
			long = max(long, len(description))
		}
		return nil
	})
	if in.describeOne = long - 1; long > 0 {
		if _, err := parse(in, b, r); !errors.Is(err, errDescribed) {
			t.Errorf("%x: got %v, with a bound of a byte less than what is said of a tensor", b, err)
		}
	}
}

// samples are messages to start from: good ones, odd ones and broken ones.
func samples() [][]byte {
	chunk := &pb.TensorChunk{
		Header:  &pb.MessageHeader{Sender: "lane-0", Receiver: aggregator, FederationId: "f"},
		Results: &pb.TaskResults{Round: 1, Client: 2, Report: 1, Reports: 3, Receipt: []byte("r")},
		Tensors: []*pb.NamedTensor{{
			Name: "a", Dtype: pb.DType_DTYPE_F32, Shape: []int64{2, -1, 1 << 40}, Round: -5, Report: true,
			Tags: []string{"model", "x"}, Lossless: true, Offset: 9, Data: []byte("data"),
			Codec: []*pb.CodecMetadata{{Name: "zip", Numbers: map[string]float64{"level": 1.5}, Integers: []int64{1, -1}}},
		}, {Name: "b", Data: []byte{0}, Base: proto.Int64(-1), Encoded: proto.Uint64(0)}, {Base: proto.Int64(0), Encoded: proto.Uint64(1 << 63)}, {}},
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
		{3<<3 | 2, 3, 1<<3 | 2, 1, 0xff},      // not UTF-8
		{3<<3 | 2, 4, 12 << 3, 1, 12 << 3, 2}, // encoded twice, last wins
		{3<<3 | 2, 3, 11<<3 | 2, 1, 0},        // a base with a length
	}
}

// TestDecodeAsGenerated: the decoder agrees with the generated one.
func TestDecodeAsGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	in := &incoming{}
	for _, b := range samples() {
		for _, cfg := range []*config{{}, {generated: true}} {
			for range 20 {
				compare(t, cfg, b, in, r)
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
		compare(t, &config{generated: kind%2 == 1}, b, &incoming{}, rand.New(rand.NewPCG(seed, 0)))
	})
}
