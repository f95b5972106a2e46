package batched

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver/drivertest"
)

// everyKind has matrices, scalars and empty tensors of all dtypes, and tensors of sizes
// around the encoder's limits.
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
	return drivertest.Layout(t, specs...)
}

// TestDTypes: a data type has the same number in package tensor and in messages.
func TestDTypes(t *testing.T) {
	check.Equal(t, len(pb.DType_name), len(tensor.DTypes())+1, "data types on the wire")
	for _, d := range tensor.DTypes() {
		check.Equal(t, pb.DType(d).String(), "DTYPE_"+strings.ToUpper(d.String()))
	}
}

// TestEncodeAsGenerated: O25. Our encoding equals the generated code's byte for byte, and
// our decoder reads it, whether or not the receiver knows of a codec. That holds for plain
// tensors, some of their rows, and encoded tensors.
func TestEncodeAsGenerated(t *testing.T) {
	rows, wire := tensor.Alloc(varying(t)), wireLayout(t, plainLayout(t))
	check.Must(t, errors.Join(rows.SetRows(0, 999), rows.SetRows(2, 200), rows.SetRows(3, 1)))
	tensor.Fill(rows, 2)
	kinds, coded := tensor.Alloc(everyKind(t)), tensor.Alloc(wire)
	tensor.Fill(kinds, 1)
	encodeAs(t, coded, plainLayout(t), 3)
	for _, c := range []struct {
		from    *tensor.Package
		decoded []bool
		takes   takes
	}{
		{kinds, nil, plain}, {rows, nil, plain}, {coded, nil, either}, {coded, nil, encoded},
		{coded, slices.Repeat([]bool{true}, 5), plain}, {coded, []bool{true, false, true, false, true}, plain},
	} {
		for _, round := range []int64{0, 1, 7, 1 << 40, -1} {
			for _, size := range []int{100, 5000, 1 << 16, 1 << 20} {
				asGenerated(t, c.from, c.decoded, c.takes, round, size)
			}
		}
	}
}

func asGenerated(t *testing.T, from *tensor.Package, decoded []bool, takes takes, round int64, size int) {
	t.Helper()
	c := newCatalog(from.Layout(), modelTag)
	header := &pb.MessageHeader{Sender: aggregator, Receiver: "lane-0", FederationId: "f"}
	ours := chunker{sequence: c.whole(), cfg: &config{}, pool: &framePool{}, from: from, plain: decoded, round: round, chunk: size}
	theirs := ours
	theirs.cfg = &config{generated: true}
	into := assembly{sequence: c.whole(), round: round, into: tensor.Alloc(from.Layout()), takes: takes}
	for i := range from.Len() {
		if takes == plain && from.Layout().Spec(i).Var { // the state after the message that sets the rows
			check.Must(t, into.into.SetRows(i, from.Rows(i)))
		}
	}
	r := results(int(round))
	for first := true; first || !ours.done(); first, header, r = false, nil, nil {
		bufs := ours.next(header, r).(*outgoing).bufs
		want := theirs.next(header, r).(*pb.TensorChunk)
		check.Need(t, bytes.Equal(bufs.Materialize(), marshal(want)),
			"round %d, chunk %d, decoded %v: the message differs from the generated one, of %d bytes", round, size, decoded, proto.Size(want))
		m := &incoming{catalog: c}
		err := viewOf(bufs).eachField(func(f field) error {
			if f.num != fieldTensors || decoded != nil {
				return nil
			}
			description, data, err := m.describe(f.value)
			if err == nil && !into.matches(description, m) {
				return fmt.Errorf("what is said of a piece of tensor %d is not known", into.count)
			}
			return errors.Join(err, into.place(into.count, data))
		})
		check.Must(t, err, "round", round, "chunk", size)
		bufs.Free()
	}
	check.Need(t, theirs.done() && (decoded != nil || into.done()), "round %d, chunk %d: not all is sent and read", round, size)
	check.That(t, decoded != nil || into.into.Hash() == from.Hash(), "round %d, chunk %d: another package came", round, size)
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

// parse decodes all of b, cut up at random.
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

// compare decodes b with our code and with generated code only, and reports any difference.
// Our code may refuse valid messages with groups, fields to be merged, or long
// descriptions.
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
	long := 0 // length of the longest description of a tensor
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

// FuzzDecode: for any bytes, cut up anywhere, our decoder accepts the same messages as
// generated code and returns the same values. More seeds, unusual and broken ones, are in
// testdata.
func FuzzDecode(f *testing.F) {
	good := marshal(&pb.TensorChunk{
		Header:  &pb.MessageHeader{Sender: "lane-0", Receiver: aggregator, FederationId: "f"},
		Results: &pb.TaskResults{Round: 1, Client: 2, Report: 1, Reports: 3, Receipt: []byte("r")},
		Tensors: []*pb.NamedTensor{{
			Name: "a", Dtype: pb.DType_DTYPE_F32, Shape: []int64{2, -1, 1 << 40}, Round: -5, Report: true,
			Tags: []string{"model", "x"}, Lossless: true, Offset: 9, Data: []byte("data"),
			Codec: []*pb.CodecMetadata{{Name: "zip", Numbers: map[string]float64{"level": 1.5}, Integers: []int64{1, -1}}},
		}, {Name: "b", Data: []byte{0}, Base: proto.Int64(-1), Encoded: proto.Uint64(0)}, {Base: proto.Int64(0), Encoded: proto.Uint64(1 << 63)}, {}},
	})
	for _, b := range [][]byte{nil, good, slices.Concat(good, good), good[:len(good)/2]} {
		f.Add(uint8(0), uint64(1), b)
	}
	f.Fuzz(func(t *testing.T, kind uint8, seed uint64, b []byte) {
		for cut := range uint64(6) {
			compare(t, &config{generated: (uint64(kind)+cut)%2 == 1}, b, &incoming{}, rand.New(rand.NewPCG(seed, cut)))
		}
	})
}
