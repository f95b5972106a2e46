package batched

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// refused checks that err is a refusal with the code and reason of why, and that
// its message holds text.
func refused(t *testing.T, what string, err error, why reason, text string) {
	t.Helper()
	if got, want := status.Code(err), why.code; got != want || !hasReason(err, why) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v (%v), want %v %s with %q", what, err, got, want, why.name, text)
	}
}

// TestReasonsDiffer: no two reasons look the same to a client.
func TestReasonsDiffer(t *testing.T) {
	text, err := os.ReadFile("refusal.go")
	check.Must(t, err)
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`= reason\{"([A-Z_]+)", codes\.`).FindAllStringSubmatch(string(text), -1) {
		check.That(t, !seen[m[1]], "two reasons are called %s", m[1])
		seen[m[1]] = true
	}
	check.That(t, len(seen) >= 20, "found %d reasons, want more", len(seen))
	a, b, c := wrongReceiver.code, wrongFederation.code, wrongSender.code
	check.That(t, a != b && b != c && a != c, "header faults have codes %v, %v, %v: want different ones", a, b, c)
}

// TestHeaders: O4. A request for another receiver, of another federation, or of
// an unknown sender is refused, each with a status of its own, by every method.
func TestHeaders(t *testing.T) {
	r := listen(t, "grpc-batch", twenty(t), 1)
	r.dispatch(0, driver.Job{Round: 1})
	secret := r.at.Secret()
	for _, shown := range []string{"", "another", secret, "Bearer " + secret[1:], "Bearer " + secret + "0", "bearer " + secret} {
		client, _ := r.as(shown)
		for name, call := range callsOf(limited(t), client) {
			refused(t, fmt.Sprintf("%s with %q as metadata", name, shown), call(r.head(0)), noSecret, secretKey)
		}
	}
	client, _ := r.stranger()
	for name, call := range callsOf(limited(t), client) {
		good := func() *pb.MessageHeader { return r.head(0) }
		h := good()
		h.Receiver = "somebody"
		refused(t, name, call(h), wrongReceiver, "somebody")
		h = good()
		h.FederationId = "another"
		refused(t, name, call(h), wrongFederation, "another")
		for _, sender := range []string{"lane-1", "lane--1", "lane-00", "lane-", "", "aggregator", "lane-99999999999999999999"} {
			h = good()
			h.Sender = sender
			refused(t, name, call(h), wrongSender, sender)
		}
		refused(t, name, call(nil), noHeader, "header")
	}
}

// callsOf returns a call of every method whose requests have a header.
func callsOf(ctx context.Context, client pb.FederationClient) map[string]func(h *pb.MessageHeader) error {
	return map[string]func(h *pb.MessageHeader) error{
		"Join": func(h *pb.MessageHeader) error {
			_, err := client.Join(ctx, &pb.JoinRequest{Header: h})
			return err
		},
		"Leave": func(h *pb.MessageHeader) error {
			_, err := client.Leave(ctx, &pb.LeaveRequest{Header: h})
			return err
		},
		"GetTasks": func(h *pb.MessageHeader) error {
			_, err := client.GetTasks(ctx, &pb.GetTasksRequest{Header: h})
			return err
		},
		"GetAggregatedTensor": func(h *pb.MessageHeader) error {
			_, err := client.GetAggregatedTensor(ctx, &pb.GetAggregatedTensorRequest{Header: h})
			return err
		},
		"GetAggregatedTensors": func(h *pb.MessageHeader) error {
			_, err := client.GetAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{Header: h})
			return err
		},
		"StreamAggregatedTensors": func(h *pb.MessageHeader) error {
			s, err := client.StreamAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{Header: h})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
		"SendLocalTaskResults": func(h *pb.MessageHeader) error {
			return upload(ctx, client, &pb.TensorChunk{Header: h})
		},
	}
}

// upload sends chunks and returns what the server says.
func upload(ctx context.Context, client pb.FederationClient, chunks ...*pb.TensorChunk) error {
	s, err := client.SendLocalTaskResults(ctx)
	if err != nil {
		return err
	}
	for _, c := range chunks {
		if err := s.Send(c); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	_, err = s.CloseAndRecv()
	return err
}

// TestBadRequests: each has its own status and message.
func TestBadRequests(t *testing.T) {
	r := listen(t, "grpc-batch", twenty(t), 1)
	client, _ := r.stranger()
	ctx := limited(t)
	get := func(round int, specs ...*pb.TensorSpec) error {
		_, err := client.GetAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 3, Specs: specs})
		return err
	}
	refused(t, "no task", get(1), wrongTask, "no task")
	r.dispatch(0, driver.Job{Round: 1, Client: 3})
	good := r.specs(1, 0, 1, 2)
	check.Must(t, get(1, good...))
	unknown := proto.Clone(good[1]).(*pb.TensorSpec)
	unknown.Name = "layer99.weight"
	refused(t, "O6: unknown tensor", get(1, good[0], unknown, good[2]), unknownTensor, "layer99.weight")
	refused(t, "duplicate tensor", get(1, good[0], good[1], good[0]), duplicateTensor, "layer0.weight")
	refused(t, "wrong round", get(1, r.specs(2, 0)...), wrongTask, "round 2")
	for _, change := range []func(*pb.TensorSpec){
		func(s *pb.TensorSpec) { s.Tags = nil },
		func(s *pb.TensorSpec) { s.Tags = []string{"model", "metric"} },
		func(s *pb.TensorSpec) { s.Tags = []string{updateTag} },
		func(s *pb.TensorSpec) { s.Report = true },
	} {
		s := proto.Clone(good[0]).(*pb.TensorSpec)
		change(s)
		refused(t, "O3: tags and report are part of the name", get(1, good[1], s), unknownTensor, "layer0.weight")
	}
	_, err := client.GetAggregatedTensor(ctx, &pb.GetAggregatedTensorRequest{Header: r.head(0), Client: 3})
	refused(t, "no spec", err, unknownTensor, "0 tensors are asked for")
	_, err = client.GetAggregatedTensor(ctx, &pb.GetAggregatedTensorRequest{Header: r.head(0), Client: 4, Spec: good[0]})
	refused(t, "another client", err, wrongTask, "client 4")
	_, err = client.Join(ctx, &pb.JoinRequest{Header: r.head(0), ModelDigest: 1})
	refused(t, "another model", err, wrongLayout, "lane-0")
	check.OK(t, get(1, good...), "O6: after all that")
}

// TestUnknownTensor: O6. With one handler in all, a request in which one tensor is
// unknown is refused by the name of that tensor, and the handler is free for the
// next request: nobody ever waits for it.
func TestUnknownTensor(t *testing.T) {
	r := listen(t, "grpc-batch:threads=1", twenty(t), 1)
	r.dispatch(0, jobOf(1, 3))
	client, _ := r.stranger()
	ctx := limited(t)
	methods := map[string]func([]*pb.TensorSpec) error{
		"single": func(specs []*pb.TensorSpec) error {
			_, err := client.GetAggregatedTensor(ctx, &pb.GetAggregatedTensorRequest{Header: r.head(0), Client: 3, Spec: specs[1]})
			return err
		},
		"batch": func(specs []*pb.TensorSpec) error {
			_, err := client.GetAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 3, Specs: specs})
			return err
		},
		"stream": func(specs []*pb.TensorSpec) error {
			s, err := client.StreamAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 3, Specs: specs})
			for err == nil {
				_, err = s.Recv()
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		},
	}
	for name, get := range methods {
		for range 3 {
			bad := r.specs(1, 0, 1, 2)
			bad[1].Name = "layer99.weight"
			refused(t, name, get(bad), unknownTensor, `"layer99.weight"`)
			n := len(r.server.slots.free)
			check.Need(t, n == 0, "%s: %d handlers are at work after the refusal", name, n)
			check.OK(t, get(r.specs(1, 0, 1, 2)), name, "the next request")
		}
	}
	r.shutdown()
	samples, _ := r.recs[0].Drain()
	for _, s := range samples {
		check.That(t, s.Phase != phase.Queue, "a request waited %d ns for the handler", s.End-s.Start)
	}
}

// chunksOf cuts what a client may send into one chunk for each tensor.
func (r *rig) chunksOf(round, client int) []*pb.TensorChunk {
	var all []*pb.TensorChunk
	for i := range r.o.Up.Len() {
		s := r.o.Up.Spec(i)
		all = append(all, &pb.TensorChunk{Tensors: []*pb.NamedTensor{{
			Name: s.Name, Dtype: pb.DType(s.DType), Shape: shapeOf(s, 0), Round: int64(round),
			Tags: []string{updateTag}, Lossless: true, Data: make([]byte, r.o.Up.Bytes(i)),
		}}})
	}
	all[0].Header = r.head(0)
	all[0].Results = &pb.TaskResults{TaskId: 1, Round: int64(round), Client: int64(client), Report: 1, Reports: 1}
	return all
}

// TestBadResults: each has its own status and message, leaves the task to be
// done, and holds nothing.
func TestBadResults(t *testing.T) {
	r := listen(t, "grpc-stream", twenty(t), 2)
	client, _ := r.stranger()
	ctx := limited(t)
	r.dispatch(0, driver.Job{Round: 1, Client: 3})
	first := func(c []*pb.TensorChunk) *pb.NamedTensor { return c[0].Tensors[0] }
	for _, c := range []struct {
		name string
		make func(c []*pb.TensorChunk) []*pb.TensorChunk
		why  reason
		text string
	}{
		{"O18: an empty stream", func([]*pb.TensorChunk) []*pb.TensorChunk { return nil }, emptyStream, "without a message"},
		{"no results", func(c []*pb.TensorChunk) []*pb.TensorChunk { c[0].Results = nil; return c }, wrongTask, "first message"},
		{"wrong round", func(c []*pb.TensorChunk) []*pb.TensorChunk { c[0].Results.Round = 2; return c }, wrongTask, "round 2"},
		{"wrong client", func(c []*pb.TensorChunk) []*pb.TensorChunk { c[0].Results.Client = 4; return c }, wrongTask, "client 4"},
		{"tensor of another round", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Round = 2; return c }, wrongTask, "round 2"},
		{"unknown tensor", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Name = "x"; return c }, unknownTensor, `"x"`},
		{"duplicate tensor", func(c []*pb.TensorChunk) []*pb.TensorChunk { c[1].Tensors = c[0].Tensors; return c }, duplicateTensor, "layer0.weight"},
		{"duplicate tensor at the end", func(c []*pb.TensorChunk) []*pb.TensorChunk { return append(c, c[7]) }, duplicateTensor, "layer7.weight"},
		{"wrong dtype", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Dtype = pb.DType_DTYPE_I32; return c }, wrongTensor, "dtype 7"},
		{"no dtype", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Dtype = 0; return c }, wrongTensor, "dtype 0"},
		{"dtype beyond all", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Dtype = -7; return c }, wrongTensor, "dtype -7"},
		{"wrong shape", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Shape = []int64{2}; return c }, wrongTensor, "[2]"},
		{"negative size", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Shape = []int64{-1}; return c }, wrongSize, "[-1]"},
		{"overflowing size", func(c []*pb.TensorChunk) []*pb.TensorChunk {
			first(c).Shape = []int64{math.MaxInt64, math.MaxInt64}
			return c
		}, wrongSize, "no size"},
		{"more bytes than the shape has", func(c []*pb.TensorChunk) []*pb.TensorChunk {
			first(c).Data = make([]byte, 5)
			return c
		}, wrongSize, "5 bytes"},
		{"fewer bytes than the shape has", func(c []*pb.TensorChunk) []*pb.TensorChunk {
			first(c).Data = make([]byte, 3)
			return c
		}, outOfOrder, "3 of 4 bytes"},
		{"chunks out of order", func(c []*pb.TensorChunk) []*pb.TensorChunk { c[4], c[5] = c[5], c[4]; return c }, outOfOrder, "layer5.weight"},
		{"pieces out of order", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Offset = 2; return c }, outOfOrder, "from 2"},
		{"huge offset", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Offset = math.MaxUint64; return c }, outOfOrder, "from 18446744073709551615"},
		{"a stream that stops midway", func(c []*pb.TensorChunk) []*pb.TensorChunk { return c[:12] }, cutShort, "12 of 20 tensors"},
		{"encoded", func(c []*pb.TensorChunk) []*pb.TensorChunk {
			first(c).Codec = []*pb.CodecMetadata{{Name: "zip"}}
			return c
		}, unknownCodec, "zip"},
		{"another tag", func(c []*pb.TensorChunk) []*pb.TensorChunk { first(c).Tags = []string{"delta"}; return c }, wrongTensor, "delta"},
		{"tensors in a report", func(c []*pb.TensorChunk) []*pb.TensorChunk { c[0].Results.Reports = 2; return c }, outOfOrder, "report 1 of 2"},
	} {
		refused(t, c.name, upload(ctx, client, c.make(r.chunksOf(1, 3))...), c.why, c.text)
	}
	got := r.server.o.Out.Out()
	check.That(t, got == 1, "%d updates are out, want the one that was reserved for the task", got)
	// Who waits for results that do not come hears why the last ones were refused.
	if _, _, err := r.server.Collect(waiting.Ending(t, time.Millisecond), 0); err == nil || !strings.Contains(err.Error(), "(the last update was refused: 1 tensors in report 1 of 2: only") {
		t.Errorf("collect: got %v, want the last refusal in it", err)
	}
	check.Must(t, upload(ctx, client, r.chunksOf(1, 3)...), "good results after all that")
	p, err := r.session.Collect(ctx, 0)
	check.Must(t, err)
	refused(t, "the same results again", upload(ctx, client, r.chunksOf(1, 3)...), duplicateResults, "came already")
	p.Release()
	r.dispatch(0, driver.Job{Round: 2, Client: 3})
	r.server.lanes[0].close()
	chunks := r.chunksOf(2, 3)
	chunks[0].Results.TaskId = 2
	refused(t, "results of a task that is out when the session ends", upload(ctx, client, chunks...), closing, "the session is over")
}

// rawCodec sends bytes as they are.
type rawCodec struct{ codec }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// TestMalformed: bytes that are no message are refused, also those that promise
// more than they hold.
func TestMalformed(t *testing.T) {
	for _, marshalling := range []string{"inplace", "generated"} {
		t.Run(marshalling, func(t *testing.T) { malformedResults(t, "grpc-stream:marshal="+marshalling) })
	}
}

// malformations are bytes that make a message malformed which ends with them.
func malformations() map[string][]byte {
	return map[string][]byte{
		"garbage":                    []byte("\xff\xff\xff"),
		"a field of 1 GiB":           append(binary.AppendUvarint([]byte{3<<3 | 2}, 1<<30), make([]byte, 10)...),
		"a length that overflows":    append(binary.AppendUvarint([]byte{3<<3 | 2}, math.MaxUint64), make([]byte, 10)...),
		"data of 1 GiB in a tensor":  append([]byte{3<<3 | 2, 15}, append(binary.AppendUvarint([]byte{10<<3 | 2}, 1<<30), make([]byte, 9)...)...),
		"a name that is not UTF-8":   {3<<3 | 2, 3, 1<<3 | 2, 1, 0xff},
		"a group without an end":     {9<<3 | 3},
		"an end without a group":     {9<<3 | 4},
		"a wire type there is not":   {1<<3 | 6},
		"field number 0":             {2, 0},
		"a header that is malformed": {1<<3 | 2, 1, 0xff},
	}
}

func malformedResults(t *testing.T, variantName string) {
	r := listen(t, variantName, twenty(t), 1)
	r.dispatch(0, driver.Job{Round: 1})
	_, cc := r.stranger()
	good := marshal(&pb.TensorChunk{Header: r.head(0), Results: &pb.TaskResults{TaskId: 1, Round: 1, Report: 1, Reports: 1}})
	all := malformations()
	all["more results"], all["another header"] = []byte{2<<3 | 2, 0}, []byte{1<<3 | 2, 0}
	for name, b := range all {
		b = slices.Concat(good, b)
		ctx := limited(t)
		stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, pb.Federation_SendLocalTaskResults_FullMethodName, grpc.ForceCodecV2(rawCodec{newCodec(0)}))
		check.Must(t, err)
		check.Must(t, stream.SendMsg(b))
		if err := stream.RecvMsg(&pb.SendLocalTaskResultsResponse{}); status.Code(err) != codes.Internal || !hasReason(err, malformed) {
			t.Errorf("%s: got %v, want %v and %s", name, err, codes.Internal, malformed.name)
		}
	}
}

// TestInflated: O18. A message of many small things, of which each takes many
// times its bytes, costs no more than those bytes and is refused.
func TestInflated(t *testing.T) {
	skip.Long(t)
	for _, marshalling := range []string{"inplace", "generated"} {
		t.Run(marshalling, func(t *testing.T) { inflated(t, "grpc-stream:marshal="+marshalling) })
	}
}

func inflated(t *testing.T, variantName string) {
	const size = 8 << 20
	r := listen(t, variantName, twenty(t), 1)
	r.dispatch(0, jobOf(1, 3))
	_, cc := r.stranger()
	field := func(num int, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{byte(num<<3 | 2)}, uint64(len(content))), content...)
	}
	many := func(content ...byte) []byte { return bytes.Repeat(content, size/len(content)) }
	results := func(tensors []byte) []byte {
		return append(marshal(&pb.TensorChunk{
			Header: r.head(0), Results: &pb.TaskResults{TaskId: 1, Round: 1, Client: 3, Report: 1, Reports: 1},
		}), tensors...)
	}
	for name, c := range map[string]struct {
		method  string
		message []byte
		text    string
	}{
		"tensors":  {"SendLocalTaskResults", results(many(3<<3|2, 0)), ""},
		"shape":    {"SendLocalTaskResults", results(field(3, field(3, make([]byte, size)))), errDescribed.Error()},
		"unpacked": {"SendLocalTaskResults", results(field(3, many(3<<3, 1))), errDescribed.Error()},
		"tags":     {"SendLocalTaskResults", results(field(3, many(6<<3|2, 0))), errDescribed.Error()},
		"codecs":   {"SendLocalTaskResults", results(field(3, many(8<<3|2, 0))), errDescribed.Error()},
		"integers": {"SendLocalTaskResults", results(field(3, field(8, field(3, make([]byte, size))))), errDescribed.Error()},
		"header":   {"SendLocalTaskResults", field(1, field(1, make([]byte, size))), errDescribed.Error()},
		"specs":    {"GetAggregatedTensors", many(3<<3|2, 0), "a request of 8388608 bytes"},
		"streamed": {"StreamAggregatedTensors", many(3<<3|2, 0), "a request of 8388608 bytes"},
		"cause":    {"Leave", field(2, make([]byte, size)), "a request of 8388613 bytes"},
	} {
		method := "/" + pb.Federation_ServiceDesc.ServiceName + "/" + c.method
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		stream, err := cc.NewStream(limited(t), &grpc.StreamDesc{ClientStreams: true}, method, grpc.ForceCodecV2(rawCodec{newCodec(0)}))
		check.Must(t, err)
		check.Must(t, errors.Join(stream.SendMsg(c.message), stream.CloseSend()))
		err = stream.RecvMsg(&pb.PingResponse{})
		runtime.ReadMemStats(&after)
		why := malformed
		switch {
		case name == "tensors" && !r.server.cfg.generated:
			why = unknownTensor // they are looked at one by one
		case name == "tensors":
			c.text = errDescribed.Error()
		}
		check.That(t, status.Code(err) == why.code && strings.Contains(err.Error(), c.text),
			"%s: got %v, want %v with %q", name, err, why.code, c.text)
		check.That(t, c.method != "SendLocalTaskResults" || hasReason(err, why),
			"%s: got %v, want the reason %s", name, err, why.name)
		if got := after.TotalAlloc - before.TotalAlloc; got > 6*size { // frames at both ends, and the client's buffers
			t.Errorf("%s: a message of %d bytes made %d bytes of garbage", name, size, got)
		}
	}
}

// TestLengthPrefix: a message that is said to have 1 GiB, and of which 10 bytes
// come, costs nothing and ends with its stream.
func TestLengthPrefix(t *testing.T) {
	r := listen(t, "grpc-stream", twenty(t), 1)
	for name, c := range map[string]struct {
		length uint32
		code   string
	}{
		"over the limit":        {1 << 30, "8"},  // RESOURCE_EXHAUSTED
		"within, but cut short": {1 << 20, "13"}, // INTERNAL, as gRPC has it
	} {
		f := r.frames()
		message := append(binary.BigEndian.AppendUint32([]byte{0}, c.length), make([]byte, 10)...)
		upload := headers(t, pb.Federation_SendLocalTaskResults_FullMethodName, r.at.Authorization())
		check.Must(t, errors.Join(f.WriteHeaders(upload(1)), f.WriteData(1, true, message)))
		for {
			frame, err := f.ReadFrame()
			check.Must(t, err, name)
			if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
				got := ""
				for _, field := range h.Fields {
					if field.Name == "grpc-status" {
						got = field.Value
					}
				}
				check.Equal(t, got, c.code, name, "got status")
				break
			}
		}
	}
}

// TestHandlerPanics: A28. A handler that panics answers its call with an error, and
// the server goes on.
func TestHandlerPanics(t *testing.T) {
	r := listen(t, "grpc-batch", twenty(t), 1)
	r.dispatch(0, jobOf(1, 3))
	specs := r.specs(1, 0)
	r.server.down = nil // nobody reads it yet
	client, _ := r.stranger()
	ctx := limited(t)
	_, batch := client.GetAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 3, Specs: specs})
	s, stream := client.StreamAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 3, Specs: specs})
	if stream == nil {
		_, stream = s.Recv()
	}
	for what, err := range map[string]error{"batch": batch, "stream": stream} {
		check.Fails(t, err, "nil pointer", what)
	}
	_, err := client.Ping(ctx, &pb.PingRequest{})
	check.That(t, err == nil, "the server is gone: %v", err)
}
