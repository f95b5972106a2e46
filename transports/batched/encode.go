package batched

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "ipcbench/transports/batched/federationpb"
)

// Field numbers of the messages that hold tensors, and of NamedTensor. The messages
// GetAggregatedTensorResponse, GetAggregatedTensorsResponse and TensorChunk use the
// same field numbers, so one encoder serves all three.
const (
	fieldHeader  = 1
	fieldResults = 2
	fieldTensors = 3

	fieldName     = 1
	fieldDType    = 2
	fieldShape    = 3
	fieldRound    = 4
	fieldTags     = 6
	fieldLossless = 7
	fieldCodec    = 8
	fieldOffset   = 9
	fieldData     = 10
	fieldBase     = 11
	fieldEncoded  = 12
)

// byReference is the size in bytes from which a piece's data is sent by reference.
// Copying a smaller piece costs less than another buffer in the slice.
const byReference = 1 << 10

// An outgoing is an encoded message that holds tensors. Its buffers alternate between
// headers and descriptions, and data that is passed by reference.
type outgoing struct{ bufs mem.BufferSlice }

// encode returns a message of the pieces in c.ready. Its bytes equal the output of
// generated code.
func (c *chunker) encode(header *pb.MessageHeader, results *pb.TaskResults) *outgoing {
	n := 4*fieldStart + proto.Size(header) + proto.Size(results)
	for _, p := range c.ready {
		n += fieldStart + c.sizeOf(p)
		if len(p.data) >= byReference {
			n -= len(p.data)
		}
	}
	small := c.pool.Get(max(n, frameSize)) // everything except data that is sent by reference
	b := (*small)[:0]
	if header != nil {
		b = appendMessage(b, fieldHeader, header)
	}
	if results != nil {
		b = appendMessage(b, fieldResults, results)
	}
	c.cuts = c.cuts[:0]
	for _, p := range c.ready {
		b = appendLength(b, fieldTensors, c.sizeOf(p))
		if p.coded == nil {
			b = c.appendDescription(b, p.tensor, p.rows, c.round, p.offset)
		} else {
			b = append(b, p.front...)
		}
		if len(p.data) > 0 {
			b = appendLength(b, fieldData, len(p.data))
		}
		c.cuts = append(c.cuts, len(b))
		if len(p.data) < byReference {
			b = append(b, p.data...)
		}
		if p.coded != nil {
			b = append(b, p.back...)
		}
	}
	*small = b
	return &outgoing{c.interleave(mem.NewBuffer(small, c.pool))}
}

// interleave splits small at c.cuts and inserts the data that is sent by reference.
func (c *chunker) interleave(small mem.Buffer) mem.BufferSlice {
	defer small.Free() // its slices hold references of their own
	bufs := make(mem.BufferSlice, 0, 2*len(c.ready)+1)
	at := 0
	for k, p := range c.ready {
		if len(p.data) >= byReference {
			bufs = append(bufs, small.Slice(at, c.cuts[k]), mem.SliceBuffer(p.data))
			at = c.cuts[k]
		}
	}
	if at < small.Len() {
		bufs = append(bufs, small.Slice(at, small.Len()))
	}
	return bufs
}

// appendMessage appends m as field num.
func appendMessage(b []byte, num protowire.Number, m proto.Message) []byte {
	return appendMarshalled(appendLength(b, num, proto.Size(m)), m)
}
