package batched

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	stock "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"

	pb "ipcbench/transports/batched/federationpb"
)

// codec is gRPC's codec "proto" with a short cut for messages that hold tensors:
// it sends their data by reference and leaves received data where it arrived,
// for one copy into its final place. On the wire there is no difference. All
// other messages go through the stock codec, if they are not too large: generated
// code makes an object of two bytes. With marshal=generated, all messages do.
type codec struct {
	stock encoding.CodecV2
	most  int // bytes of a received message without tensors; 0: any number
}

func newCodec(most int) codec { return codec{encoding.GetCodecV2(stock.Name), most} }

// Name makes the content type that of plain protobuf.
func (codec) Name() string { return stock.Name }

// Marshal implements encoding.CodecV2. It hands the buffers of an outgoing
// message over to gRPC, so that such a message can be sent once.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*outgoing); ok {
		bufs := m.bufs
		m.bufs = nil
		return bufs, nil
	}
	return c.stock.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*incoming); ok {
		if m.refused = m.decode(data); m.refused == nil && m.cfg.generated {
			m.refused = m.unmarshal(data, c.stock)
		}
		return nil // gRPC would make a mere text of the error: see verdict
	}
	if n := data.Len(); c.most > 0 && n > c.most {
		return fmt.Errorf("a request of %d bytes without tensors: at most %d", n, c.most)
	}
	return c.stock.Unmarshal(data, v)
}

// generate is encode with generated code.
func (c *chunker) generate(header *pb.MessageHeader, results *pb.TaskResults) *pb.TensorChunk {
	m := &pb.TensorChunk{Header: header, Results: results}
	for _, p := range c.ready {
		s := c.layout.Spec(p.tensor)
		t := &pb.NamedTensor{
			Name: s.Name, Dtype: pb.DType(s.DType), Shape: shapeOf(s, p.rows), Round: c.round,
			Tags: []string{c.tag}, Lossless: true, Offset: uint64(p.offset), Data: p.data,
		}
		if p.coded != nil {
			p.generate(t)
		}
		m.Tensors = append(m.Tensors, t)
	}
	return m
}

// unmarshal reads the tensors of a decoded message with generated code, unless
// what that would make of them is too much.
func (m *incoming) unmarshal(data mem.BufferSlice, stock encoding.CodecV2) error {
	m.release()
	left := m.describeAll
	err := viewOf(data).eachField(func(f field) error {
		if f.num != fieldTensors {
			return nil
		}
		description, _, err := m.describe(f.value)
		if left -= entryCost + len(description); err == nil && left < 0 {
			err = errDescribed
		}
		return err
	})
	if err != nil {
		return err
	}
	c := &pb.TensorChunk{}
	err = stock.Unmarshal(data, c)
	m.results, m.tensors = c.Results, c.Tensors
	return err
}

// Windows and buffers of a connection: the package comment says why these.
// Windows are set as a pair: gRPC leaves one that is not set at 64 KiB for ever.
const (
	streamWindow = 8 << 20
	connWindow   = 32 << 20
	ioBuffer     = 128 << 10
)

// serverBuffers and clientBuffers are how a connection is tuned; with
// marshal=generated it is not.
func (c *config) serverBuffers(pool *framePool) []grpc.ServerOption {
	if c.generated {
		return nil
	}
	return []grpc.ServerOption{
		grpc.ReadBufferSize(ioBuffer), grpc.WriteBufferSize(ioBuffer),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		experimental.BufferPool(pool),
	}
}

func (c *config) clientBuffers(pool *framePool) []grpc.DialOption {
	if c.generated {
		return nil
	}
	return []grpc.DialOption{
		grpc.WithReadBufferSize(ioBuffer), grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
		experimental.WithBufferPool(pool),
	}
}
