package batched

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// TestStranger: a client of generated code alone takes part in a round: O5, the
// replies come in the order of shuffled requests; O3, each spec has its own
// fields; O13 and O25, every tensor of every dtype is what the server has, over
// every method, and what the client sends arrives bit for bit.
func TestStranger(t *testing.T) {
	l := everyKind(t)
	r := listen(t, "grpc-batch:chunk=64KiB", l, 1)
	client, _ := r.stranger()
	ctx := limited(t)
	r.dispatch(0, driver.Job{Round: 4, Client: 2, Weight: 0.5, Device: "cpu", Config: []byte("c"), Timed: true})

	tasks, err := client.GetTasks(ctx, &pb.GetTasksRequest{Header: r.head(0)})
	check.Must(t, err)
	if task := tasks.Task; task.GetRound() != 4 || task.GetClient() != 2 || task.GetDevice() != "cpu" || string(task.GetReceipt()) != "receipt" {
		t.Errorf("got task %v", task)
	}
	if h := tasks.Header; h.GetSender() != aggregator || h.GetReceiver() != "lane-0" || h.GetFederationId() != r.server.header.FederationId {
		t.Errorf("O4: the response's header does not mirror the request's: %v", h)
	}

	order := rand.New(rand.NewPCG(3, 4)).Perm(l.Len())
	specs := r.specs(4, order...)
	for k, s := range specs {
		s.RequireLossless = k%2 == 0
	}
	batch, err := client.GetAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 2, Specs: specs})
	check.Must(t, err)
	r.sameTensors("batch", batch.Tensors, order)

	var streamed []*pb.NamedTensor
	stream, err := client.StreamAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 2, Specs: specs})
	check.Must(t, err)
	for {
		c, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		check.Must(t, err)
		for _, piece := range c.Tensors {
			if piece.Offset == 0 {
				streamed = append(streamed, piece)
			} else if whole := streamed[len(streamed)-1]; int(piece.Offset) == len(whole.Data) && piece.Name == whole.Name {
				whole.Data = append(whole.Data, piece.Data...)
			} else {
				t.Fatalf("piece of %q from %d after %d bytes of %q", piece.Name, piece.Offset, len(whole.Data), whole.Name)
			}
		}
	}
	r.sameTensors("stream", streamed, order)

	update := tensor.Alloc(l)
	tensor.Fill(update, 99)
	chunks := []*pb.TensorChunk{{Header: r.head(0), Results: &pb.TaskResults{TaskId: tasks.Task.Id, Round: 4, Client: 2, Report: 1, Reports: 1, Receipt: []byte("up")}}}
	for k := range l.Len() {
		one, err := client.GetAggregatedTensor(ctx, &pb.GetAggregatedTensorRequest{Header: r.head(0), Client: 2, Spec: r.specs(4, k)[0]})
		check.Must(t, err)
		r.sameTensors("single", []*pb.NamedTensor{one.Tensor}, []int{k})
		one.Tensor.Tags, one.Tensor.Data = []string{updateTag}, update.View(k)
		chunks = append(chunks, &pb.TensorChunk{Tensors: []*pb.NamedTensor{one.Tensor}})
	}
	check.Must(t, upload(ctx, client, chunks...))
	p, err := r.session.Collect(ctx, 0)
	check.Must(t, err)
	check.That(t, p.Hash() == update.Hash() && string(p.Receipt) == "up",
		"the update or its receipt %q differs from what was sent", p.Receipt)
	p.Release()
}

// sameTensors compares tensors with those of the model, in order.
func (r *rig) sameTensors(what string, got []*pb.NamedTensor, order []int) {
	r.t.Helper()
	check.Need(r.t, len(got) == len(order), "%s: got %d tensors, want %d", what, len(got), len(order))
	for k, i := range order {
		s, g := r.o.Down.Spec(i), got[k]
		if g.Name != s.Name || g.Dtype != pb.DType(s.DType) || !slices.Equal(g.Shape, shapeOf(s, 0)) || g.Round != 4 || !g.Lossless {
			r.t.Errorf("%s: tensor %d: got %s %v %v of round %d, lossless %v, want %+v", what, k, g.Name, g.Dtype, g.Shape, g.Round, g.Lossless, s)
		}
		check.That(r.t, string(g.Data) == string(r.model.View(i)), "%s: tensor %d, %s: the data differs", what, k, s.Name)
	}
}

// liar is a server of generated code that answers as the test says.
type liar struct {
	pb.UnimplementedFederationServer
	header  func(*pb.MessageHeader) *pb.MessageHeader // of the response, from a right one
	tensors func([]*pb.NamedTensor) []*pb.NamedTensor // from the right ones
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
	return &pb.GetTasksResponse{Header: mirror(r.Header), Task: &pb.Task{ModelVersion: 1, Round: 1}}, nil
}

func (l *liar) answer(specs []*pb.TensorSpec) []*pb.NamedTensor {
	var all []*pb.NamedTensor
	for _, s := range specs {
		all = append(all, &pb.NamedTensor{
			Name: s.Name, Dtype: pb.DType_DTYPE_F32, Shape: []int64{2}, Round: s.Round, Tags: s.Tags, Lossless: true, Data: make([]byte, 8),
		})
	}
	return l.tensors(all)
}

func (l *liar) GetAggregatedTensor(_ context.Context, r *pb.GetAggregatedTensorRequest) (*pb.GetAggregatedTensorResponse, error) {
	resp := &pb.GetAggregatedTensorResponse{Header: l.header(mirror(r.Header))}
	if all := l.answer([]*pb.TensorSpec{r.Spec}); len(all) > 0 {
		resp.Tensor = all[0]
	}
	return resp, nil
}

func (l *liar) GetAggregatedTensors(_ context.Context, r *pb.GetAggregatedTensorsRequest) (*pb.GetAggregatedTensorsResponse, error) {
	return &pb.GetAggregatedTensorsResponse{Header: l.header(mirror(r.Header)), Tensors: l.answer(r.Specs)}, nil
}

func (l *liar) StreamAggregatedTensors(r *pb.GetAggregatedTensorsRequest, s grpc.ServerStreamingServer[pb.TensorChunk]) error {
	return s.Send(&pb.TensorChunk{Header: l.header(mirror(r.Header)), Tensors: l.answer(r.Specs)})
}

// A lie is an answer with which a server ends a fetch.
type lie struct {
	name     string
	header   func(*pb.MessageHeader) *pb.MessageHeader
	tensors  func([]*pb.NamedTensor) []*pb.NamedTensor
	why      reason
	many     bool   // of several tensors only
	inPython string // what a worker in Python says of it
}

func lies() []lie {
	same := func(h *pb.MessageHeader) *pb.MessageHeader { return h }
	all := func(ts []*pb.NamedTensor) []*pb.NamedTensor { return ts }
	first := func(f func(t *pb.NamedTensor)) func([]*pb.NamedTensor) []*pb.NamedTensor {
		return func(ts []*pb.NamedTensor) []*pb.NamedTensor { f(ts[0]); return ts }
	}
	return []lie{
		{"no header", func(*pb.MessageHeader) *pb.MessageHeader { return nil }, all, noHeader, false, "header"},
		{"for somebody else", func(h *pb.MessageHeader) *pb.MessageHeader { h.Receiver = "lane-1"; return h }, all, wrongReceiver, false, `receiver: "lane-1"`},
		{"of somebody else", func(h *pb.MessageHeader) *pb.MessageHeader { h.Sender = "lane-1"; return h }, all, wrongSender, false, `sender: "lane-1"`},
		{"of another federation", func(h *pb.MessageHeader) *pb.MessageHeader { h.FederationId += "0"; return h }, all, wrongFederation, false, "federation_id"},
		{"none", same, func([]*pb.NamedTensor) []*pb.NamedTensor { return nil }, cutShort, false, "0 of 8 bytes of 'layer0.weight'"},
		{"one too few", same, func(ts []*pb.NamedTensor) []*pb.NamedTensor { return ts[:len(ts)-1] }, cutShort, true, "1 of 2 tensors came"},
		{"one too many", same, func(ts []*pb.NamedTensor) []*pb.NamedTensor { return append(ts, ts[0]) }, duplicateTensor, true, "'layer0.weight' came after the last one"},
		{"swapped", same, func(ts []*pb.NamedTensor) []*pb.NamedTensor { ts[0], ts[1] = ts[1], ts[0]; return ts }, outOfOrder, true, "'layer0.weight': name layer1.weight"},
		{"too short", same, func(ts []*pb.NamedTensor) []*pb.NamedTensor { ts[0].Data = ts[0].Data[:7]; return ts[:1] }, cutShort, false, "7 of 8 bytes of 'layer0.weight'"},
		{"too long", same, first(func(t *pb.NamedTensor) { t.Data = make([]byte, 9) }), wrongSize, false, "'layer0.weight': 9 bytes from 0 on"},
		{"of another round", same, first(func(t *pb.NamedTensor) { t.Round = 2 }), wrongTask, false, "'layer0.weight': round 2, want 1"},
		{"of another type", same, first(func(t *pb.NamedTensor) { t.Dtype = pb.DType_DTYPE_I32 }), wrongTensor, false, "'layer0.weight': dtype 7, want 3"},
		{"of another shape", same, first(func(t *pb.NamedTensor) { t.Shape = []int64{1, 2} }), wrongTensor, false, "'layer0.weight': shape [1, 2], want [2]"},
		{"further on", same, first(func(t *pb.NamedTensor) { t.Offset = 4 }), outOfOrder, false, "'layer0.weight': offset 4, want 0"},
		{"an update", same, first(func(t *pb.NamedTensor) { t.Tags = []string{updateTag} }), wrongTensor, false, "'layer0.weight': tags ['trained']"},
		{"encoded", same, first(func(t *pb.NamedTensor) { t.Codec = []*pb.CodecMetadata{{Name: "zip"}} }), unknownCodec, false, "'layer0.weight': codec"},
	}
}

// TestLyingServer: O4 and O5 at the worker's end. A response that is not for it,
// or that has too few tensors, too many, or others, is an error and never a
// model; and it is not asked for again and again.
func TestLyingServer(t *testing.T) {
	for _, c := range lies() {
		for _, variantName := range []string{"grpc-tensor", "grpc-batch", "grpc-stream"} {
			if c.many && variantName == "grpc-tensor" {
				continue
			}
			err := fetchFrom(t, variantName, &liar{header: c.header, tensors: c.tensors})
			refused(t, variantName+": "+c.name, err, c.why, "")
		}
	}
}

// serve serves l until the test ends.
func (l *liar) serve(t *testing.T, opts ...grpc.ServerOption) *driver.Endpoint {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	check.Must(t, err)
	s := grpc.NewServer(opts...)
	pb.RegisterFederationServer(s, l)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it has begun
			t.Error(err)
		}
	})
	return driver.EndpointAt("unix:"+path, "s")
}

// fetchFrom lets a worker receive a model of two tensors from l.
func fetchFrom(t *testing.T, variantName string, l *liar) error {
	t.Helper()
	two := layoutOf(t, 2, 2)
	w, err := dialTo(limited(t), t, variantName, l.serve(t), 0, driver.Options{Down: two, Up: two, Lanes: 1, Depth: 1})
	check.Must(t, err)
	defer w.Close()
	_, _, err = w.Receive(limited(t))
	check.Need(t, err != nil, "got a model")
	return err
}

// TestMasked: O23. Updates that are masked for secure aggregation pass unchanged:
// masks that cancel out leave the plain sum.
func TestMasked(t *testing.T) {
	for _, variantName := range []string{"grpc-tensor", "grpc-batch", "grpc-stream"} {
		l := layoutOf(t, 1000)
		r := listen(t, variantName, l, 1)
		w := r.dial(variantName, 0)
		mask := rand.New(rand.NewPCG(5, 6))
		masks := make([]float32, 1000)
		for i := range masks {
			masks[i] = mask.Float32()*8 - 4
		}
		sum := make([]float64, 1000)
		for client, sign := range []float32{1, -1} {
			r.dispatch(0, driver.Job{Client: client})
			_, model, err := w.Receive(limited(t))
			check.Must(t, err)
			u, err := w.Reserve()
			check.Must(t, err)
			masked := tensor.Slice[float32](u.View(0))
			for i, x := range tensor.Slice[float32](model.View(0)) {
				masked[i] = x + sign*masks[i]
			}
			sent := u.Hash()
			check.Must(t, w.Submit(limited(t), u))
			p, err := r.session.Collect(limited(t), 0)
			check.Must(t, err)
			check.That(t, p.Hash() == sent, "%s: the masked update changed on its way", variantName)
			for i, x := range tensor.Slice[float32](p.View(0)) {
				sum[i] += float64(x)
			}
			p.Release()
		}
		for i, x := range tensor.Slice[float32](r.model.View(0)) {
			check.Need(t, math.Abs(sum[i]-2*float64(x)) <= 1e-5, "%s: element %d: got sum %v, want %v", variantName, i, sum[i], 2*x)
		}
	}
}
