package batched

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
)

// TestStranger: a client of generated code takes part in a round. O5: replies come in the
// order of shuffled requests. O3: each spec has its own fields. O13, O25: every tensor of
// every dtype equals the server's with every method, and the client's results arrive bit
// for bit. O23: this includes updates masked for secure aggregation, which look like any
// update.
func TestStranger(t *testing.T) {
	l := everyKind(t)
	r := listen(t, "grpc-batch:chunk=64KiB", l, 1)
	client, _ := r.stranger()
	ctx := waiting.Context(t)
	digest := l.Digest()
	joined := check.Value(client.Join(ctx, &pb.JoinRequest{Header: r.head(0), ModelDigest: digest, UpdateDigest: digest, Worker: 7}))(t)
	check.That(t, proto.Equal(joined.GetHeader(), mirror(r.head(0))), "joined with %v", joined)
	r.dispatch(0, driver.Job{Round: 4, Client: 3, Weight: 0.5, Device: "cpu", Config: []byte("c"), Timed: true})

	got := check.Value(client.GetTasks(ctx, &pb.GetTasksRequest{Header: r.head(0)}))(t)
	want := &pb.GetTasksResponse{Header: mirror(r.head(0)), Task: &pb.Task{
		Id: 1, Round: 4, Client: 3, Weight: 0.5, Device: "cpu", Config: []byte("c"), Timed: true, ModelVersion: 1, Receipt: []byte("model"),
	}}
	check.That(t, proto.Equal(got, want), "got %v, want %v", got, want)

	order := rand.New(rand.NewPCG(3, 4)).Perm(l.Len())
	specs := r.specs(4, order...)
	for k, s := range specs {
		s.RequireLossless = k%2 == 0
	}
	ways, errs := r.fetched(client, specs)
	update := tensor.Alloc(l)
	tensor.Fill(update, 99)
	var tensors []*pb.NamedTensor
	for i := range l.Len() {
		tensors = append(tensors, named(l.Spec(i), 4, modelTag, r.Model.View(i)))
	}
	for way, got := range ways {
		check.Need(t, errs[way] == nil && len(got) == len(order), "way %d: %d tensors, error %v", way, len(got), errs[way])
		for k, i := range order {
			check.That(t, proto.Equal(got[k], tensors[i]), "way %d: tensor %d, %s, is another one", way, k, tensors[i].Name)
		}
	}
	up := results(4)
	up.Receipt = []byte("up")
	chunks := []*pb.TensorChunk{{Header: r.head(0), Results: up}}
	for i, nt := range tensors {
		nt.Tags, nt.Data = []string{updateTag}, update.View(i)
		chunks = append(chunks, &pb.TensorChunk{Tensors: []*pb.NamedTensor{nt}})
	}
	check.Must(t, upload(ctx, client, chunks...))
	p := r.collect()
	check.That(t, p.Hash() == update.Hash() && string(p.Receipt) == "up",
		"the update or its receipt %q differs from what was sent", p.Receipt)
	p.Release()
	left := check.Value(client.Leave(ctx, &pb.LeaveRequest{Header: r.head(0)}))(t)
	check.That(t, proto.Equal(left.GetHeader(), mirror(r.head(0))), "left with %v", left)
}

type answer = pb.GetAggregatedTensorsResponse

// A liar is a server of generated code that has one task and a model of zeros, and changes
// its answers as the test says. It records the number of tensor bytes in each message of
// results.
type liar struct {
	pb.UnimplementedFederationServer
	layout   *tensor.Layout
	lie      func(*answer)
	messages []int
}

func mirror(h *pb.MessageHeader) *pb.MessageHeader {
	return &pb.MessageHeader{Sender: h.GetReceiver(), Receiver: h.GetSender(), FederationId: h.GetFederationId()}
}

func (l *liar) Ping(context.Context, *pb.PingRequest) (*pb.PingResponse, error) {
	return &pb.PingResponse{}, nil
}

func (l *liar) Join(_ context.Context, r *pb.JoinRequest) (*pb.JoinResponse, error) {
	return &pb.JoinResponse{Header: mirror(r.Header)}, nil
}

func (l *liar) GetTasks(_ context.Context, r *pb.GetTasksRequest) (*pb.GetTasksResponse, error) {
	return &pb.GetTasksResponse{Header: mirror(r.Header), Task: &pb.Task{ModelVersion: 1, Round: 1, Id: 1}}, nil
}

func (l *liar) answer(header *pb.MessageHeader, specs ...*pb.TensorSpec) *answer {
	a := &answer{Header: mirror(header)}
	for _, spec := range specs {
		i := newCatalog(l.layout, modelTag).index[spec.Name]
		a.Tensors = append(a.Tensors, named(l.layout.Spec(i), int(spec.Round), modelTag, make([]byte, l.layout.Bytes(i))))
	}
	if l.lie != nil {
		l.lie(a)
	}
	return a
}

func (l *liar) GetAggregatedTensor(_ context.Context, r *pb.GetAggregatedTensorRequest) (*pb.GetAggregatedTensorResponse, error) {
	a := l.answer(r.Header, r.Spec)
	resp := &pb.GetAggregatedTensorResponse{Header: a.Header}
	if len(a.Tensors) > 0 {
		resp.Tensor = a.Tensors[0]
	}
	return resp, nil
}

func (l *liar) GetAggregatedTensors(_ context.Context, r *pb.GetAggregatedTensorsRequest) (*answer, error) {
	return l.answer(r.Header, r.Specs...), nil
}

func (l *liar) StreamAggregatedTensors(r *pb.GetAggregatedTensorsRequest, s grpc.ServerStreamingServer[pb.TensorChunk]) error {
	a := l.answer(r.Header, r.Specs...)
	return s.Send(&pb.TensorChunk{Header: a.Header, Tensors: a.Tensors})
}

func (l *liar) SendLocalTaskResults(s grpc.ClientStreamingServer[pb.TensorChunk, pb.SendLocalTaskResultsResponse]) error {
	m, err := s.Recv()
	header := mirror(m.GetHeader())
	for ; err == nil; m, err = s.Recv() {
		l.messages = append(l.messages, tensorBytes(m))
	}
	if errors.Is(err, io.EOF) {
		return s.SendAndClose(&pb.SendLocalTaskResultsResponse{Header: header})
	}
	return err
}

func tensorBytes(m *pb.TensorChunk) (n int) {
	for _, t := range m.Tensors {
		n += len(t.Data)
	}
	return n
}

// A lie is a wrong answer to a fetch.
type lie struct {
	name     string
	lie      func(*answer)
	why      reason
	many     bool   // applies only to answers with several tensors
	inPython string // expected error of a worker in Python
}

func lies() []lie {
	first := func(f func(t *pb.NamedTensor)) func(*answer) { return func(a *answer) { f(a.Tensors[0]) } }
	return []lie{
		{"no header", func(a *answer) { a.Header = nil }, noHeader, false, "header"},
		{"for somebody else", func(a *answer) { a.Header.Receiver = "lane-1" }, wrongReceiver, false, `receiver: "lane-1"`},
		{"of somebody else", func(a *answer) { a.Header.Sender = "lane-1" }, wrongSender, false, `sender: "lane-1"`},
		{"of another federation", func(a *answer) { a.Header.FederationId += "0" }, wrongFederation, false, "federation_id"},
		{"none", func(a *answer) { a.Tensors = nil }, cutShort, false, "0 of 8 bytes of 'layer0.weight'"},
		{"one too few", func(a *answer) { a.Tensors = a.Tensors[:1] }, cutShort, true, "1 of 2 tensors arrived"},
		{"one too many", func(a *answer) { a.Tensors = append(a.Tensors, a.Tensors[0]) }, duplicateTensor, true, "'layer0.weight' came after the last one"},
		{"swapped", func(a *answer) { a.Tensors[0], a.Tensors[1] = a.Tensors[1], a.Tensors[0] }, outOfOrder, true, "'layer0.weight': name layer1.weight"},
		{"too short", func(a *answer) { a.Tensors, a.Tensors[0].Data = a.Tensors[:1], make([]byte, 7) }, cutShort, false, "7 of 8 bytes of 'layer0.weight'"},
		{"too long", first(func(t *pb.NamedTensor) { t.Data = make([]byte, 9) }), wrongSize, false, "'layer0.weight': 9 bytes from 0 on"},
		{"of another round", first(func(t *pb.NamedTensor) { t.Round = 2 }), wrongTask, false, "'layer0.weight': round 2, must be 1"},
		{"of another type", first(func(t *pb.NamedTensor) { t.Dtype = pb.DType_DTYPE_I32 }), wrongTensor, false, "'layer0.weight': dtype 7, must be 3"},
		{"of another shape", first(func(t *pb.NamedTensor) { t.Shape = []int64{1, 2} }), wrongTensor, false, "'layer0.weight': shape [1, 2], must be [2]"},
		{"further on", first(func(t *pb.NamedTensor) { t.Offset = 4 }), outOfOrder, false, "'layer0.weight': offset 4, must be 0"},
		{"an update", first(func(t *pb.NamedTensor) { t.Tags = []string{updateTag} }), wrongTensor, false, "'layer0.weight': tags ['trained']"},
		{"encoded", first(func(t *pb.NamedTensor) { t.Codec = []*pb.CodecMetadata{{Name: "zip"}} }), unknownCodec, false, "'layer0.weight': codec"},
	}
}

// TestLyingServer: O4 and O5 at the worker's end. A response for another receiver, or with
// missing, additional or wrong tensors, is an error and never becomes a model. The worker
// does not retry.
func TestLyingServer(t *testing.T) {
	for _, c := range lies() {
		for _, name := range []string{"grpc-tensor", "grpc-batch", "grpc-stream"} {
			if c.many && name == "grpc-tensor" {
				continue
			}
			l := &liar{layout: layoutOf(t, 2, 2), lie: c.lie}
			w := l.dial(t, name)
			_, _, err := w.Receive(waiting.Context(t))
			refused(t, name+": "+c.name, err, c.why, "")
			check.Equal(t, w.Rec.Counts()[phase.Retries], 0, name, c.name, "retries")
			check.Must(t, w.Close())
		}
	}
}

// serve serves l until the test ends.
func (l *liar) serve(t *testing.T, opts ...grpc.ServerOption) *endpoint.Endpoint {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener := check.Value(net.Listen("unix", path))(t)
	s := grpc.NewServer(opts...)
	pb.RegisterFederationServer(s, l)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // Serve may not have started yet
			check.OK(t, err)
		}
	})
	return endpoint.At("unix:"+path, "s")
}

// dial serves l and returns a worker that has connected to it.
func (l *liar) dial(t *testing.T, name string) *drivertest.Worker {
	t.Helper()
	o := driver.Options{Down: l.layout, Up: l.layout, Lanes: 1, Depth: 1}
	return check.Value(drivertest.Dial(waiting.Context(t), variant(t, name), l.serve(t), 0, o))(t)
}
