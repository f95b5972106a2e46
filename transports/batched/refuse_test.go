package batched

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// refused checks that err is a refusal with the code and reason of why, and that its
// message contains text. If why has no name, gRPC itself refuses, and no reason is checked.
func refused(t *testing.T, what string, err error, why reason, text string) {
	t.Helper()
	named := why.name == "" || hasReason(err, why)
	check.That(t, status.Code(err) == why.code && named && strings.Contains(err.Error(), text),
		"%s: got %v (%v), want %v %s with %q", what, err, status.Code(err), why.code, why.name, text)
}

// TestHeaders: O4. Every method refuses a request with a wrong receiver, federation or
// sender, each with its own status.
func TestHeaders(t *testing.T) {
	r := listen(t, "grpc-batch", twenty(t), 1)
	r.dispatch(0, driver.Job{Round: 1})
	secret := r.Endpoint.Secret()
	for _, shown := range []string{"", "another", secret, "Bearer " + secret[1:], "Bearer " + secret + "0", "bearer " + secret} {
		_, cc := r.as(shown)
		for name, call := range callsOf(t, cc) {
			refused(t, fmt.Sprintf("%s with %q as metadata", name, shown), call(r.head(0)), noSecret, secretKey)
		}
	}
	_, cc := r.stranger()
	for name, call := range callsOf(t, cc) {
		h := r.head(0)
		h.Receiver = "somebody"
		refused(t, name, call(h), wrongReceiver, "somebody")
		h = r.head(0)
		h.FederationId = "another"
		refused(t, name, call(h), wrongFederation, "another")
		for _, sender := range []string{"lane-1", "lane--1", "lane-00", "lane-", "", "aggregator", "lane-99999999999999999999"} {
			h = r.head(0)
			h.Sender = sender
			refused(t, name, call(h), wrongSender, sender)
		}
		refused(t, name, call(nil), noHeader, "header")
	}
	for _, other := range []reason{wrongFederation, wrongSender} {
		check.That(t, wrongReceiver.code != other.code && wrongFederation.code != wrongSender.code, "header faults share codes")
	}
}

// callsOf returns a call of each method whose requests have a header.
func callsOf(t *testing.T, cc *grpc.ClientConn) map[string]func(h *pb.MessageHeader) error {
	all := map[string]func(h *pb.MessageHeader) error{}
	for method := range newMethods(nil, "") {
		if name := path.Base(method); name != "Ping" {
			all[name] = func(h *pb.MessageHeader) error { return call(t, cc, name, &pb.GetTasksRequest{Header: h}) } // all requests have the header in the same field
		}
	}
	return all
}

// TestBadRequests: each bad request gets its own status and message, and leaves the only
// handler free.
func TestBadRequests(t *testing.T) {
	r := listen(t, "grpc-batch:threads=1", twenty(t), 1)
	client, cc := r.stranger()
	get := func(specs ...*pb.TensorSpec) error {
		_, errs := r.fetched(client, specs)
		check.Equal(t, status.Code(errs[1]), status.Code(errs[2]), "the codes of a batch and of a stream")
		check.Equal(t, len(r.server.slots.free), 0, "handlers at work after the request")
		return errs[1]
	}
	refused(t, "no task", get(), wrongTask, "no task")
	r.dispatch(0, jobOf(1, 3))
	good := r.specs(1, 0, 1, 2)
	check.Must(t, get(good...))
	refused(t, "duplicate tensor", get(good[0], good[1], good[0]), duplicateTensor, "layer0.weight")
	refused(t, "wrong round", get(r.specs(2, 0)...), wrongTask, "round 2")
	refused(t, "O3: each tensor has its own round", get(good[0], r.specs(0, 1)[0], good[2]), wrongTask, fmt.Sprintf("tensor %q is requested for round 0, must be round 1", good[1].Name))
	for _, c := range []struct {
		what, name string
		change     func(*pb.TensorSpec)
	}{
		{"O6: unknown tensor", "layer99.weight", func(s *pb.TensorSpec) { s.Name = "layer99.weight" }},
		{"O3: tags and report are part of the name", "layer0.weight", func(s *pb.TensorSpec) { s.Tags = nil }},
		{"two tags", "layer0.weight", func(s *pb.TensorSpec) { s.Tags = []string{"model", "metric"} }},
		{"another tag", "layer0.weight", func(s *pb.TensorSpec) { s.Tags = []string{updateTag} }},
		{"a report", "layer0.weight", func(s *pb.TensorSpec) { s.Report = true }},
	} {
		s := r.specs(1, 0)[0]
		c.change(s)
		refused(t, c.what, get(good[1], s, good[2]), unknownTensor, fmt.Sprintf("%q", c.name))
	}
	one := &pb.GetAggregatedTensorRequest{Header: r.head(0), Client: 3}
	refused(t, "no spec", call(t, cc, "GetAggregatedTensor", one), unknownTensor, "one tensor, not 0")
	one.Client, one.Spec = 4, good[0]
	refused(t, "another client", call(t, cc, "GetAggregatedTensor", one), wrongTask, "client 4")
	refused(t, "another model", call(t, cc, "Join", &pb.JoinRequest{Header: r.head(0), ModelDigest: 1}), wrongLayout, "lane-0")
	check.OK(t, get(good...), "O6: after all that")
}

// chunksOf returns the results of client 3 with one tensor per chunk.
func (r *rig) chunksOf(round int) []*pb.TensorChunk {
	var all []*pb.TensorChunk
	for i := range r.Options.Up.Len() {
		nt := named(r.Options.Up.Spec(i), round, updateTag, make([]byte, r.Options.Up.Bytes(i)))
		all = append(all, &pb.TensorChunk{Tensors: []*pb.NamedTensor{nt}})
	}
	all[0].Header, all[0].Results = r.head(0), results(round)
	return all
}

// TestBadResults: each bad result gets its own status and message, leaves the task open,
// and holds no memory.
func TestBadResults(t *testing.T) {
	r := listen(t, "grpc-stream", twenty(t), 2)
	client, _ := r.stranger()
	ctx := waiting.Context(t)
	r.dispatch(0, jobOf(1, 3))
	type chunks = []*pb.TensorChunk
	all := func(f func(c chunks) chunks) func() chunks { return func() chunks { return f(r.chunksOf(1)) } }
	head := func(f func(c *pb.TensorChunk)) func() chunks {
		return all(func(c chunks) chunks {
			f(c[0])
			return c
		})
	}
	first := func(f func(t *pb.NamedTensor)) func() chunks {
		return head(func(c *pb.TensorChunk) { f(c.Tensors[0]) })
	}
	for _, c := range []struct {
		name string
		make func() chunks
		why  reason
		text string
	}{
		{"O18: an empty stream", all(func(chunks) chunks { return nil }), emptyStream, "without a message"},
		{"no results", head(func(c *pb.TensorChunk) { c.Results = nil }), wrongTask, "first message"},
		{"wrong round", head(func(c *pb.TensorChunk) { c.Results.Round = 2 }), wrongTask, "round 2"},
		{"wrong client", head(func(c *pb.TensorChunk) { c.Results.Client = 4 }), wrongTask, "client 4"},
		{"task beyond", head(func(c *pb.TensorChunk) { c.Results.TaskId = 2 }), wrongTask, "results of task 2"},
		{"tensor of another round", first(func(t *pb.NamedTensor) { t.Round = 2 }), wrongTask, "round 2"},
		{"unknown tensor", first(func(t *pb.NamedTensor) { t.Name = "x" }), unknownTensor, `"x"`},
		{"duplicate tensor", all(func(c chunks) chunks { c[1].Tensors = c[0].Tensors; return c }), duplicateTensor, "layer0.weight"},
		{"duplicate tensor at the end", all(func(c chunks) chunks { return append(c, c[7]) }), duplicateTensor, "layer7.weight"},
		{"wrong dtype", first(func(t *pb.NamedTensor) { t.Dtype = pb.DType_DTYPE_I32 }), wrongTensor, "dtype 7"},
		{"no dtype", first(func(t *pb.NamedTensor) { t.Dtype = 0 }), wrongTensor, "dtype 0"},
		{"dtype beyond all", first(func(t *pb.NamedTensor) { t.Dtype = -7 }), wrongTensor, "dtype -7"},
		{"wrong shape", first(func(t *pb.NamedTensor) { t.Shape = []int64{2} }), wrongTensor, "[2]"},
		{"negative size", first(func(t *pb.NamedTensor) { t.Shape = []int64{-1} }), wrongTensor, "[-1]"},
		{"overflowing size", first(func(t *pb.NamedTensor) { t.Shape = []int64{math.MaxInt64, math.MaxInt64} }), wrongTensor, "[9223372036854775807 "},
		{"more bytes than the shape has", first(func(t *pb.NamedTensor) { t.Data = make([]byte, 5) }), wrongSize, "5 bytes"},
		{"fewer bytes than the shape has", first(func(t *pb.NamedTensor) { t.Data = make([]byte, 3) }), outOfOrder, "3 of 4 bytes"},
		{"chunks out of order", all(func(c chunks) chunks { c[4], c[5] = c[5], c[4]; return c }), outOfOrder, "layer5.weight"},
		{"pieces out of order", first(func(t *pb.NamedTensor) { t.Offset = 2 }), outOfOrder, "from offset 2"},
		{"huge offset", first(func(t *pb.NamedTensor) { t.Offset = math.MaxUint64 }), outOfOrder, "from offset 18446744073709551615"},
		{"a stream that stops midway", all(func(c chunks) chunks { return c[:12] }), cutShort, "12 of 20 tensors"},
		{"encoded", first(func(t *pb.NamedTensor) { t.Codec = []*pb.CodecMetadata{{Name: "zip"}} }), unknownCodec, "zip"},
		{"another tag", first(func(t *pb.NamedTensor) { t.Tags = []string{"delta"} }), wrongTensor, "delta"},
		{"tensors in a report", head(func(c *pb.TensorChunk) { c.Results.Reports = 2 }), outOfOrder, "report 1 of 2"},
	} {
		refused(t, c.name, upload(ctx, client, c.make()...), c.why, c.text)
	}
	check.Equal(t, r.server.o.Out.Out(), 1, "updates out, of which the task has reserved one")
	// A Collect that ends without results quotes the last refusal.
	_, _, err := r.server.Collect(waiting.Ending(t, time.Millisecond), 0)
	check.Fails(t, err, "(the last update was refused: 1 tensors in report 1 of 2: only", "collect")
	check.Must(t, check.Err(r.server.lanes[0].begin()))
	refused(t, "results while others come in", upload(ctx, client, r.chunksOf(1)...), busy, "lane-0")
	check.Must(t, errors.Join(r.server.lanes[0].end(false), upload(ctx, client, r.chunksOf(1)...)), "good results after all that")
	p := r.collect()
	refused(t, "the same results again", upload(ctx, client, r.chunksOf(1)...), duplicateResults, "already received")
	p.Release()
	r.dispatch(0, jobOf(2, 3))
	r.server.lanes[0].close()
	late := r.chunksOf(2)
	late[0].Results.TaskId = 2
	refused(t, "results of a task that is out when the session ends", upload(ctx, client, late...), closing, "the session is over")
}

// rawCodec sends bytes unchanged.
type rawCodec struct{ codec }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// malformations returns bytes that, at the end of a message, make it malformed.
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

// TestMalformed: malformed messages are refused, including those that announce more bytes
// than they contain.
func TestMalformed(t *testing.T) {
	for _, name := range []string{"grpc-stream", "grpc-stream:marshal=generated"} {
		r := listen(t, name, twenty(t), 1)
		r.dispatch(0, jobOf(1, 3))
		_, cc := r.stranger()
		good := marshal(&pb.TensorChunk{Header: r.head(0), Results: results(1)})
		all := malformations()
		all["more results"], all["another header"] = []byte{2<<3 | 2, 0}, []byte{1<<3 | 2, 0}
		for what, b := range all {
			err := call(t, cc, "SendLocalTaskResults", slices.Concat(good, b), grpc.ForceCodecV2(rawCodec{newCodec(0)}))
			refused(t, name+": "+what, err, malformed, "")
		}
	}
}

// TestInflated: O18. A message of many small fields, each of which would need many times
// its size in memory, is refused. It needs only about its own size.
func TestInflated(t *testing.T) {
	skip.Long(t)
	for _, name := range []string{"grpc-stream", "grpc-stream:marshal=generated"} {
		t.Run(name, func(t *testing.T) { inflated(t, listen(t, name, twenty(t), 1)) })
	}
}

func inflated(t *testing.T, r *rig) {
	const size = 8 << 20
	r.dispatch(0, jobOf(1, 3))
	_, cc := r.stranger()
	field := func(num int, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{byte(num<<3 | 2)}, uint64(len(content))), content...)
	}
	many := func(content ...byte) []byte { return bytes.Repeat(content, size/len(content)) }
	whole := malformed
	if !r.server.cfg.generated {
		whole = unknownTensor // our decoder checks tensors one by one
	}
	sends := func(tensors []byte) []byte {
		return slices.Concat(marshal(&pb.TensorChunk{Header: r.head(0), Results: results(1)}), tensors)
	}
	for _, c := range []struct {
		what, method string
		message      []byte
		why          reason
		text         string
	}{
		{"tensors", "SendLocalTaskResults", sends(many(3<<3|2, 0)), whole, ""},
		{"shape", "SendLocalTaskResults", sends(field(3, field(3, make([]byte, size)))), malformed, errDescribed.Error()},
		{"unpacked", "SendLocalTaskResults", sends(field(3, many(3<<3, 1))), malformed, errDescribed.Error()},
		{"tags", "SendLocalTaskResults", sends(field(3, many(6<<3|2, 0))), malformed, errDescribed.Error()},
		{"codecs", "SendLocalTaskResults", sends(field(3, many(8<<3|2, 0))), malformed, errDescribed.Error()},
		{"integers", "SendLocalTaskResults", sends(field(3, field(8, field(3, make([]byte, size))))), malformed, errDescribed.Error()},
		{"header", "SendLocalTaskResults", field(1, field(1, make([]byte, size))), malformed, errDescribed.Error()},
		{"specs", "GetAggregatedTensors", many(3<<3|2, 0), reason{code: codes.Internal}, "a request of 8388608 bytes"},
		{"streamed", "StreamAggregatedTensors", many(3<<3|2, 0), reason{code: codes.Internal}, "a request of 8388608 bytes"},
		{"cause", "Leave", field(2, make([]byte, size)), reason{code: codes.Internal}, "a request of 8388613 bytes"},
	} {
		garbage := check.Allocated(func() { // frames at both ends, and the client's buffers
			refused(t, c.what, call(t, cc, c.method, c.message, grpc.ForceCodecV2(rawCodec{newCodec(0)})), c.why, c.text)
		})
		check.That(t, garbage <= 6*size, "%s: a message of %d bytes made %d bytes of garbage", c.what, size, garbage)
	}
}

// TestLengthPrefix: a message that announces 1 GiB, of which 10 bytes arrive, ends with its
// stream.
func TestLengthPrefix(t *testing.T) {
	r := listen(t, "grpc-stream", twenty(t), 1)
	for length, want := range map[uint32]string{
		1 << 30: "8",  // over the limit: RESOURCE_EXHAUSTED
		1 << 20: "13", // below the limit, but cut short: gRPC's INTERNAL
	} {
		f := r.frames()
		message := append(binary.BigEndian.AppendUint32([]byte{0}, length), make([]byte, 10)...)
		check.Must(t, errors.Join(f.WriteHeaders(uploads(t, 1, r.Endpoint.Authorization())), f.WriteData(1, true, message)))
		for ended := false; !ended; {
			frame := check.Value(f.ReadFrame())(t)
			if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
				ended = true
				check.Equal(t, statusOf(h), want, "status of a message of", length)
			}
		}
	}
}

// TestHandlerPanics: A28. A panic in a handler is returned as the error of its call, and
// the server continues.
func TestHandlerPanics(t *testing.T) {
	r := listen(t, "grpc-batch", twenty(t), 1)
	r.dispatch(0, jobOf(1, 3))
	specs := r.specs(1, 0)
	r.server.down = nil // not read before the fetch
	client, cc := r.stranger()
	_, errs := r.fetched(client, specs)
	for way, err := range errs {
		check.Fails(t, err, "nil pointer", "way", way)
	}
	check.OK(t, call(t, cc, "Ping", &pb.PingRequest{}), "the server is gone")
}
