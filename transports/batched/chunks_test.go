package batched

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"testing"

	"google.golang.org/grpc"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// collector is a server of generated code that gives one task, a model of zeros,
// and notes how many tensor bytes are in each message of the results.
type collector struct {
	pb.UnimplementedFederationServer
	layout   *tensor.Layout
	messages []int
}

func (c *collector) Join(_ context.Context, r *pb.JoinRequest) (*pb.JoinResponse, error) {
	return &pb.JoinResponse{Header: mirror(r.Header)}, nil
}

func (c *collector) Leave(_ context.Context, r *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	return &pb.LeaveResponse{Header: mirror(r.Header)}, nil
}

func (c *collector) GetTasks(_ context.Context, r *pb.GetTasksRequest) (*pb.GetTasksResponse, error) {
	return &pb.GetTasksResponse{Header: mirror(r.Header), Task: &pb.Task{ModelVersion: 1, Id: 1}}, nil
}

func (c *collector) GetAggregatedTensors(_ context.Context, r *pb.GetAggregatedTensorsRequest) (*pb.GetAggregatedTensorsResponse, error) {
	resp := &pb.GetAggregatedTensorsResponse{Header: mirror(r.Header)}
	for i := range c.layout.Len() {
		s := c.layout.Spec(i)
		resp.Tensors = append(resp.Tensors, &pb.NamedTensor{
			Name: s.Name, Dtype: pb.DType(s.DType), Shape: shapeOf(s, 0), Tags: []string{modelTag}, Lossless: true, Data: make([]byte, c.layout.Bytes(i)),
		})
	}
	return resp, nil
}

func (c *collector) SendLocalTaskResults(s grpc.ClientStreamingServer[pb.TensorChunk, pb.SendLocalTaskResultsResponse]) error {
	var header *pb.MessageHeader
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&pb.SendLocalTaskResultsResponse{Header: mirror(header)})
		}
		if err != nil {
			return err
		}
		if m.Header != nil {
			header = m.Header
		}
		c.messages = append(c.messages, tensorBytes(m))
	}
}

func tensorBytes(m *pb.TensorChunk) int {
	n := 0
	for _, t := range m.Tensors {
		n += len(t.Data)
	}
	return n
}

// TestChunksOnTheWire: O18. A model of n bytes travels in ⌈n/chunk⌉ messages, and one
// if it has none: counted by peers of generated code, on real sockets, both ways.
func TestChunksOnTheWire(t *testing.T) {
	for _, c := range []struct {
		setting string
		chunk   int
		sizes   []int
	}{
		{":chunk=64KiB", 64 << 10, []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3 * 64 << 10, 3*64<<10 + 5}},
		{"", 2 << 20, []int{2<<20 - 1, 2 << 20, 4<<20 + 1}}, // OpenFL's
	} {
		for _, n := range c.sizes {
			l := layoutFrom(t,
				tensor.Spec{Name: "a", DType: tensor.U8, Shape: []int{n / 3}},
				tensor.Spec{Name: "b", DType: tensor.U8, Shape: []int{n - n/3}},
			)
			want := max(1, (n+c.chunk-1)/c.chunk)
			for way, messages := range map[string][]int{
				"down": streamed(t, "grpc-stream"+c.setting, l),
				"up":   sent(t, "grpc-batch"+c.setting, l),
			} {
				check.Equal(t, len(messages), want, way, n, "bytes came in messages")
				sum := 0
				for k, bytes := range messages {
					if sum += bytes; bytes != c.chunk && k != len(messages)-1 {
						t.Errorf("%s: message %d has %d bytes of tensors, want %d", way, k, bytes, c.chunk)
					}
				}
				check.Equal(t, sum, n, way, "bytes came")
			}
		}
	}
}

// streamed returns the tensor bytes in each message of a stream of our server.
func streamed(t *testing.T, name string, l *tensor.Layout) []int {
	t.Helper()
	r := listen(t, name, l, 1)
	r.dispatch(0, jobOf(0, 0))
	client, _ := r.stranger()
	var all []int
	s, err := client.StreamAggregatedTensors(limited(t), &pb.GetAggregatedTensorsRequest{Header: r.head(0), Specs: r.specs(0, 0, 1)})
	for err == nil {
		var m *pb.TensorChunk
		if m, err = s.Recv(); err == nil {
			all = append(all, tensorBytes(m))
		}
	}
	check.Need(t, errors.Is(err, io.EOF), "%v", err)
	return all
}

// sent returns the tensor bytes in each message of our worker's results.
func sent(t *testing.T, name string, l *tensor.Layout) []int {
	t.Helper()
	c := &collector{layout: l}
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	check.Must(t, err)
	s := grpc.NewServer()
	pb.RegisterFederationServer(s, c)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	w, err := dialTo(limited(t), t, name, driver.EndpointAt("unix:"+path, "s"), 0, driver.Options{Down: l, Up: l, Lanes: 1, Depth: 1})
	if err == nil {
		err = errors.Join(turn(w), w.Close())
	}
	s.Stop()
	check.Must(t, errors.Join(err, <-served))
	return c.messages
}

// TestExtraMemory: O19. Models are lent whole at both ends, as the contract has it.
// What a transfer needs beside them grows with the chunk and the window of a stream,
// and not with the model; only a batch takes the model once more.
func TestExtraMemory(t *testing.T) {
	skip.Long(t)
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	const size = 24 << 20
	l := layoutOf(t, size/8, size/8)
	for _, c := range []struct {
		name  string
		whole bool // the worker takes the model in one message
	}{
		{"grpc-stream", false}, {"grpc-stream:chunk=64KiB", false}, {"grpc-batch", true},
	} {
		r := listen(t, c.name, l, 1)
		w := r.dial(c.name, 0)
		_, settings := variant(t, c.name)
		bound := streamWindow + 3*settings.Int("chunk")
		failed := make(chan error, 1)
		exchange := func(n int) {
			go func() { failed <- turn(w) }()
			check.Must(t, errors.Join(r.exchange(0, jobOf(0, n)), <-failed))
		}
		exchange(0)
		var before, after runtime.MemStats
		idle := r.server.frames.most() + w.inner.frames.most()
		runtime.ReadMemStats(&before)
		exchange(1)
		runtime.ReadMemStats(&after)
		idle = r.server.frames.most() + w.inner.frames.most() - idle
		// Buffers that are kept are bounded below; what else is made are gRPC's lists of them.
		made := int(after.TotalAlloc-before.TotalAlloc) - idle
		check.That(t, made <= size/20, "%s: a model and an update of %d bytes each made %d bytes of garbage", c.name, size, made)
		for end, pool := range map[string]*framePool{"server": &r.server.frames, "worker": &w.inner.frames} {
			n := pool.most()
			if end == "worker" && c.whole {
				check.That(t, n >= size*9/10, "%s: the worker took a message of %d bytes in buffers of %d", c.name, size, n)
			} else if n > bound {
				t.Errorf("%s: the %s had %d bytes in buffers at once for a model of %d, bound %d", c.name, end, n, size, bound)
			}
		}
		r.shutdown()
	}
}

// most returns the bytes of all buffers that were ever out at once: they are kept.
func (p *framePool) most() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) * frameSize
}
