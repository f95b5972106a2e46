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

// codec is gRPC's codec "proto" with a faster path for messages that hold tensors: it
// sends their data by reference and leaves received data where it arrived, for one copy
// into place. The bytes sent are the same. gRPC's stock codec processes other messages
// and, with marshal=generated, all messages.
type codec struct {
	stock encoding.CodecV2
	most  int // maximum size of a received message without tensors; 0 is unlimited
}

func newCodec(most int) codec { return codec{encoding.GetCodecV2(stock.Name), most} }

// Name implements encoding.CodecV2. It sets the content type of plain protobuf.
func (codec) Name() string { return stock.Name }

// Marshal implements encoding.CodecV2. It passes the ownership of an outgoing message's
// buffers to gRPC, so such a message can be sent only once.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*outgoing); ok {
		bufs := m.bufs
		m.bufs = nil
		return bufs, nil
	}
	return c.stock.Marshal(v)
}

// Unmarshal implements encoding.CodecV2. Messages without tensors are limited to c.most,
// because generated code can make an object of every two bytes.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*incoming); ok {
		if m.refused = m.decode(data); m.refused == nil && m.cfg.generated {
			m.refused = m.unmarshal(data, c.stock)
		}
		return nil // see verdict
	}
	if n := data.Len(); c.most > 0 && n > c.most {
		return fmt.Errorf("a request of %d bytes without tensors must have at most %d", n, c.most)
	}
	return c.stock.Unmarshal(data, v)
}

// generate returns the same message as encode, as an object of generated code.
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

// unmarshal decodes the results and tensors of a message with generated code. It fails
// if descriptions exceed describeAll, to limit the size of the objects.
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

// Windows and buffers of a connection in bytes; the package comment gives the reasons.
// Both windows must be set: once one is, gRPC keeps the other at its default of 64 KiB.
const (
	streamWindow = 8 << 20
	connWindow   = 32 << 20
	ioBuffer     = 128 << 10
)

// serverBuffers and clientBuffers return the options that tune connections. With
// marshal=generated there are none, and gRPC's defaults apply.
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
