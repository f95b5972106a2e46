package batched

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
)

// A rig is a session that clients of generated code can use, too.
type rig struct {
	*drivertest.Session
	server  *server
	working sync.WaitGroup // the workers that open has started
	opened  bool
}

// layoutOf returns a layout of F32 tensors with the given numbers of elements.
func layoutOf(t testing.TB, elems ...int) *tensor.Layout {
	return drivertest.Vectors(t, tensor.F32, elems...)
}

// twenty returns a layout of 20 tensors, as in OpenFL's example.
func twenty(t testing.TB) *tensor.Layout {
	elems := make([]int, 20)
	for i := range elems {
		elems[i] = 100*i + 1
	}
	return layoutOf(t, elems...)
}

// variant parses name[:key=value]….
func variant(t testing.TB, text string) transports.Variant {
	return drivertest.Parse(t, text, Unary(), Batched(), Streaming())
}

// listen starts a session of a variant, and publishes a model.
func listen(t testing.TB, text string, l *tensor.Layout, lanes int) *rig {
	t.Helper()
	return rigOf(drivertest.Listen(t, variant(t, text), driver.Options{Down: l, Up: l, Lanes: lanes}))
}

func rigOf(s *drivertest.Session) *rig {
	r := &rig{Session: s, server: s.Driver.(*server)}
	r.Publish(1)
	s.T.Cleanup(r.shutdown)
	return r
}

// open is listen with workers that train until the session ends.
func open(t testing.TB, text string, l *tensor.Layout, lanes int) *rig {
	t.Helper()
	r := listen(t, text, l, lanes)
	r.opened = true
	for n := range lanes {
		w := r.Dial(n)
		r.working.Go(func() {
			check.OK(t, drivertest.Serve(context.Background(), w.Worker, drivertest.Stock), "lane", n)
		})
	}
	return r
}

// shutdown closes the workers and ends the session without errors.
func (r *rig) shutdown() {
	r.T.Helper()
	for _, w := range r.Workers {
		if !r.opened {
			check.OK(r.T, w.Close(), "close")
		}
	}
	check.OK(r.T, r.Server.Shutdown(waiting.Context(r.T)), "shutdown")
	r.working.Wait()
}

// counts returns counters with a prefix, without it in their names, of the server and of
// all workers together.
func (r *rig) counts(prefix string) (server, workers map[string]int64) {
	selected := func(counts map[string]int64) map[string]int64 {
		all := map[string]int64{}
		for name, n := range counts {
			if rest, ok := strings.CutPrefix(name, prefix); ok && n != 0 {
				all[rest] = n
			}
		}
		return all
	}
	server, workers = r.Counts()
	return selected(server), selected(workers)
}

// shown is the secret that a client of generated code sends with every request.
type shown string

func (s shown) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{secretKey: string(s)}, nil
}

func (shown) RequireTransportSecurity() bool { return false }

// stranger returns a client of generated code that knows the secret.
func (r *rig) stranger(opts ...grpc.DialOption) (pb.FederationClient, *grpc.ClientConn) {
	return r.as(r.Endpoint.Authorization(), opts...)
}

// as returns a client of generated code that sends the given secret.
func (r *rig) as(secret string, opts ...grpc.DialOption) (pb.FederationClient, *grpc.ClientConn) {
	r.T.Helper()
	target := r.Endpoint.Addr()
	if rest, ok := strings.CutPrefix(target, "tcp:"); ok {
		target = "passthrough:///" + rest
	}
	cc := check.Value(grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithPerRPCCredentials(shown(secret)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
	}, opts...)...))(r.T)
	r.T.Cleanup(func() { cc.Close() })
	return pb.NewFederationClient(cc), cc
}

// call makes a call with one message, and returns the error of the answer.
func call(t testing.TB, cc *grpc.ClientConn, method string, message any, opts ...grpc.CallOption) error {
	t.Helper()
	ctx, cancel := context.WithCancel(waiting.Context(t))
	defer cancel()
	s := check.Value(cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/"+service.ServiceName+"/"+method, opts...))(t)
	if err := errors.Join(s.SendMsg(message), s.CloseSend()); !errors.Is(err, io.EOF) { // already refused
		check.Must(t, err)
	}
	return s.RecvMsg(&pb.PingResponse{})
}

// head returns the header of a lane's requests.
func (r *rig) head(lane int) *pb.MessageHeader {
	return &pb.MessageHeader{Sender: endpoint.LaneName(lane), Receiver: aggregator, FederationId: r.server.header.FederationId}
}

// dispatch gives lane a job for a client of generated code.
func (r *rig) dispatch(lane int, j driver.Job) {
	r.T.Helper()
	check.Must(r.T, r.Server.Dispatch(r.T.Context(), lane, j))
}

// collect returns the update of lane 0.
func (r *rig) collect() *tensor.Package {
	r.T.Helper()
	return check.Value(r.Server.Collect(waiting.Context(r.T), 0))(r.T)
}

// specs returns specs for the model's tensors in the given order.
func (r *rig) specs(round int, order ...int) []*pb.TensorSpec {
	var all []*pb.TensorSpec
	for _, i := range order {
		all = append(all, &pb.TensorSpec{
			Name: r.Options.Down.Spec(i).Name, Round: int64(round), Tags: []string{modelTag}, RequireLossless: true,
		})
	}
	return all
}

// named returns the message for a whole tensor of fixed length.
func named(s tensor.Spec, round int, tag string, data []byte) *pb.NamedTensor {
	return &pb.NamedTensor{
		Name: s.Name, Dtype: pb.DType(s.DType), Shape: shapeOf(s, 0), Round: int64(round),
		Tags: []string{tag}, Lossless: true, Data: data,
	}
}

// results returns client 3's results for its first task, without tensors.
func results(round int) *pb.TaskResults {
	return &pb.TaskResults{TaskId: 1, Round: int64(round), Client: 3, Report: 1, Reports: 1}
}

// fetched requests tensors with each method, as client 3, and joins the pieces of each
// tensor.
func (r *rig) fetched(client pb.FederationClient, specs []*pb.TensorSpec) (all [3][]*pb.NamedTensor, errs [3]error) {
	ctx := waiting.Context(r.T)
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
			last := len(all[2]) - 1
			if t.Offset == 0 || last < 0 || t.Name != all[2][last].Name || int(t.Offset) != len(all[2][last].Data) {
				all[2] = append(all[2], t)
			} else {
				all[2][last].Data = append(all[2][last].Data, t.Data...)
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		errs[2] = err
	}
	return all, errs
}

// upload sends chunks and returns the server's error.
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

func jobOf(round, client int) driver.Job { return driver.Job{Round: round, Client: client} }
