package batched

import (
	"errors"
	"io"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver/drivertest"
)

// TestChunksOnTheWire: O18. A model of n bytes travels in ⌈n/chunk⌉ messages, an empty one
// in one message. Peers of generated code count them on real sockets, in both directions.
// The descriptions of many empty tensors also fill several messages.
func TestChunksOnTheWire(t *testing.T) {
	for _, c := range []struct {
		setting string
		chunk   int
		sizes   []int
	}{
		{":chunk=64KiB", 64 << 10, []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3 * 64 << 10, 3*64<<10 + 5}},
		{"", 2 << 20, []int{2<<20 - 1, 2 << 20, 4<<20 + 1}}, // OpenFL's chunk size
	} {
		for _, n := range c.sizes {
			l := drivertest.Vectors(t, tensor.U8, n/3, n/7, n-n/3-n/7, 0)
			want := []int{}
			for left := n; left > 0 || len(want) == 0; left -= c.chunk {
				want = append(want, min(left, c.chunk))
			}
			check.Equal(t, streamed(t, "grpc-stream"+c.setting, l), want, n, "bytes down")
			peer := &liar{layout: l}
			w := peer.dial(t, "grpc-batch"+c.setting)
			check.Must(t, errors.Join(drivertest.Turn(waiting.Context(t), w.Worker, drivertest.Stock), w.Close()))
			check.Equal(t, peer.messages, want, n, "bytes up")
		}
	}
	empty := streamed(t, "grpc-stream:chunk=64KiB", drivertest.Vectors(t, tensor.U8, make([]int, 2000)...))
	check.That(t, len(empty) > 1, "2,000 tensors without bytes make %d messages, want more", len(empty))
}

// streamed returns the number of tensor bytes in each message that our server streams.
func streamed(t *testing.T, name string, l *tensor.Layout) (all []int) {
	t.Helper()
	r := listen(t, name, l, 1)
	r.dispatch(0, jobOf(0, 0))
	client, _ := r.stranger()
	request := &pb.GetAggregatedTensorsRequest{Header: r.head(0)}
	for i := range l.Len() {
		request.Specs = append(request.Specs, r.specs(0, i)...)
	}
	s, err := client.StreamAggregatedTensors(waiting.Context(t), request)
	for err == nil {
		var m *pb.TensorChunk
		if m, err = s.Recv(); err == nil {
			all = append(all, tensorBytes(m))
		}
	}
	check.Need(t, errors.Is(err, io.EOF), "%v", err)
	return all
}
