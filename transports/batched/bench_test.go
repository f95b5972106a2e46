package batched

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"

	"ipcbench/tensor"
	"ipcbench/tensor/models"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// These benchmarks move a model down and an update up, with both ends in this
// process and nobody who trains. They compare ways of using gRPC with each other;
// what a round costs is what ipcbench run says.

func histology(b *testing.B) *tensor.Layout {
	b.Helper()
	m, err := models.Parse("histology")
	if err != nil {
		b.Fatal(err)
	}
	return m.Layout
}

// BenchmarkExchange is the three transports.
func BenchmarkExchange(b *testing.B) {
	for _, name := range []string{"grpc-tensor", "grpc-batch", "grpc-stream", "grpc-stream:network=tcp"} {
		b.Run(name, func(b *testing.B) { exchange(b, name) })
	}
}

// BenchmarkChunk is the curve from which the default chunk was chosen.
func BenchmarkChunk(b *testing.B) {
	for size := 16 << 10; size <= 16<<20; size *= 2 {
		name := tensor.FormatBytes(size)
		b.Run(name, func(b *testing.B) { exchange(b, "grpc-stream:chunk="+name) })
	}
}

func exchange(b *testing.B, name string) {
	l := histology(b)
	tr, settings := variant(b, name)
	o := driver.Options{Down: l, Up: l, Lanes: 1, Clients: 1, Depth: 1, Dir: b.TempDir(), Settings: settings}
	ctx := context.Background()
	s, err := tr.Listen(ctx, o)
	if err != nil {
		b.Fatal(err)
	}
	w, err := tr.Dial(ctx, s.Addr(), 0, o)
	if err != nil {
		b.Fatal(err)
	}
	m, err := s.Reserve()
	if err != nil {
		b.Fatal(err)
	}
	tensor.Fill(m, 1)
	if err := s.Publish(ctx, m); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			_, _, err := w.Receive(ctx)
			if errors.Is(err, io.EOF) {
				ended <- nil
				return
			}
			u, e := w.Reserve()
			if err := errors.Join(err, e); err != nil {
				ended <- err
				return
			}
			if err := w.Submit(ctx, u); err != nil {
				ended <- err
				return
			}
		}
	}()
	turn := func() {
		if err := s.Dispatch(ctx, 0, driver.Job{}); err != nil {
			b.Fatal(err)
		}
		p, err := s.Collect(ctx, 0)
		if err != nil {
			b.Fatal(err)
		}
		p.Release()
	}
	turn()
	turn() // every buffer has been used
	b.SetBytes(int64(2 * l.Payload()))
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		turn()
	}
	b.StopTimer()
	b.ReportMetric((processorTime(b)-before)/float64(b.N), "cpu-ns/op")
	if err := errors.Join(s.Shutdown(ctx), <-ended, w.Close()); err != nil {
		b.Fatal(err)
	}
}

// plain is the same protocol through nothing but generated code, tuned alike:
// socket, windows, buffers, pool and chunk are those of the transports.
type plain struct {
	pb.UnimplementedFederationServer
	layout *tensor.Layout
	model  *tensor.Package
	update *tensor.Package
	chunk  int
}

// chunks cuts a package as the transports do.
func (p *plain) chunks(from *tensor.Package, send func(*pb.TensorChunk) error) error {
	c, room := &pb.TensorChunk{}, p.chunk
	for i := range from.Len() {
		s := p.layout.Spec(i)
		for sent, first := 0, true; first || sent < len(from.View(i)); first = false {
			n := min(room, len(from.View(i))-sent)
			c.Tensors = append(c.Tensors, &pb.NamedTensor{
				Name: s.Name, Dtype: pb.DType(s.DType), Shape: shapeOf(s), Offset: uint64(sent), Data: from.View(i)[sent : sent+n],
			})
			sent += n
			if room -= n; room == 0 {
				if err := send(c); err != nil {
					return err
				}
				c, room = &pb.TensorChunk{}, p.chunk
			}
		}
	}
	return send(c)
}

// place puts a chunk into place; i is the tensor that came last.
func (p *plain) place(into *tensor.Package, i *int, c *pb.TensorChunk) {
	for _, t := range c.Tensors {
		for p.layout.Spec(*i).Name != t.Name {
			*i++
		}
		copy(into.View(*i)[t.Offset:], t.Data)
	}
}

func (p *plain) GetAggregatedTensor(_ context.Context, r *pb.GetAggregatedTensorRequest) (*pb.GetAggregatedTensorResponse, error) {
	i := int(r.Client)
	s := p.layout.Spec(i)
	return &pb.GetAggregatedTensorResponse{Tensor: &pb.NamedTensor{Name: s.Name, Dtype: pb.DType(s.DType), Shape: shapeOf(s), Data: p.model.View(i)}}, nil
}

func (p *plain) GetAggregatedTensors(context.Context, *pb.GetAggregatedTensorsRequest) (*pb.GetAggregatedTensorsResponse, error) {
	resp := &pb.GetAggregatedTensorsResponse{}
	whole := *p
	whole.chunk = 1 << 40
	return resp, whole.chunks(p.model, func(c *pb.TensorChunk) error { resp.Tensors = c.Tensors; return nil })
}

func (p *plain) StreamAggregatedTensors(_ *pb.GetAggregatedTensorsRequest, s grpc.ServerStreamingServer[pb.TensorChunk]) error {
	return p.chunks(p.model, s.Send)
}

func (p *plain) SendLocalTaskResults(s grpc.ClientStreamingServer[pb.TensorChunk, pb.SendLocalTaskResultsResponse]) error {
	for i := 0; ; {
		c, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&pb.SendLocalTaskResultsResponse{})
		}
		if err != nil {
			return err
		}
		p.place(p.update, &i, c)
	}
}

// BenchmarkGenerated is what generated code reaches, for the ratio.
func BenchmarkGenerated(b *testing.B) {
	for _, way := range []string{"tensor", "batch", "stream"} {
		b.Run(way, func(b *testing.B) { generatedExchange(b, way) })
	}
}

func generatedExchange(b *testing.B, way string) {
	l := histology(b)
	_, settings := variant(b, "grpc-stream")
	p := &plain{layout: l, model: tensor.Alloc(l), update: tensor.Alloc(l), chunk: settings.Int("chunk")}
	tensor.Fill(p.model, 1)
	listener, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer(
		grpc.ReadBufferSize(ioBuffer), grpc.WriteBufferSize(ioBuffer),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.MaxRecvMsgSize(1<<30), grpc.MaxSendMsgSize(1<<30), experimental.BufferPool(&framePool{}),
	)
	pb.RegisterFederationServer(s, p)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	cc, err := grpc.NewClient("unix:"+listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithReadBufferSize(ioBuffer), grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithDisableRetry(), experimental.WithBufferPool(&framePool{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)),
	)
	if err != nil {
		b.Fatal(err)
	}
	client := pb.NewFederationClient(cc)
	local, update := tensor.Alloc(l), tensor.Alloc(l)
	turn := func() {
		if err := errors.Join(p.down(client, way, local), p.up(client, update)); err != nil {
			b.Fatal(err)
		}
	}
	turn()
	turn()
	b.SetBytes(int64(2 * l.Payload()))
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		turn()
	}
	b.StopTimer()
	b.ReportMetric((processorTime(b)-before)/float64(b.N), "cpu-ns/op")
	if local.Hash() != p.model.Hash() {
		b.Error("the model is another one")
	}
	cc.Close()
	s.Stop()
	if err := <-served; err != nil {
		b.Fatal(err)
	}
}

func (p *plain) down(client pb.FederationClient, way string, into *tensor.Package) error {
	ctx, i := context.Background(), 0
	switch way {
	case "tensor":
		for k := range p.layout.Len() {
			resp, err := client.GetAggregatedTensor(ctx, &pb.GetAggregatedTensorRequest{Client: int64(k)})
			if err != nil {
				return err
			}
			p.place(into, &i, &pb.TensorChunk{Tensors: []*pb.NamedTensor{resp.Tensor}})
		}
		return nil
	case "batch":
		resp, err := client.GetAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{})
		if err == nil {
			p.place(into, &i, &pb.TensorChunk{Tensors: resp.Tensors})
		}
		return err
	case "stream":
		s, err := client.StreamAggregatedTensors(ctx, &pb.GetAggregatedTensorsRequest{})
		if err != nil {
			return err
		}
		for {
			c, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			p.place(into, &i, c)
		}
	}
	return fmt.Errorf("no way %q", way)
}

func (p *plain) up(client pb.FederationClient, from *tensor.Package) error {
	s, err := client.SendLocalTaskResults(context.Background())
	if err != nil {
		return err
	}
	if err := p.chunks(from, s.Send); err != nil {
		return err
	}
	_, err = s.CloseAndRecv()
	return err
}

// processorTime returns what this process has used so far, in ns. It is steadier
// than the time that passes when a machine has other things to do.
func processorTime(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}
