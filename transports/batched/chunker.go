package batched

import (
	"google.golang.org/protobuf/encoding/protowire"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// A piece is a part of a tensor, or a whole tensor.
type piece struct {
	tensor, rows, offset int // index and rows of the tensor; offset of data
	data                 []byte

	*coded // nil without a codec
}

// sizeOf returns the encoded size of p's NamedTensor.
func (c *chunker) sizeOf(p piece) int {
	if p.coded == nil {
		return c.size(p.tensor, p.rows, c.round, p.offset, len(p.data))
	}
	n := len(p.front) + len(p.back)
	if len(p.data) > 0 {
		n += 1 + protowire.SizeBytes(len(p.data))
	}
	return n
}

// A sequence lists tensors of a catalog in the order in which they are sent.
type sequence struct {
	*catalog
	order []int // indices of the tensors
	count int   // number of tensors sent or received completely
}

// whole returns the sequence of all tensors, in the order of the layout.
func (c *catalog) whole() sequence { return sequence{catalog: c, order: c.all} }

// done reports whether all tensors have been sent or received.
func (s *sequence) done() bool { return s.count == len(s.order) }

// A chunker cuts the tensors of a package into the messages of a stream. Each message
// except the last holds chunk bytes of tensors, or fewer if descriptions fill it. So n
// bytes of large tensors make ⌈n/chunk⌉ messages, and at least one.
type chunker struct {
	sequence
	cfg       *config
	pool      *framePool
	from      *tensor.Package
	plain     []bool // parallel to order: send the tensor decoded; nil means none
	round     int64
	chunk     int     // bytes of tensors per message
	sent      int     // bytes sent of the next tensor
	ready     []piece // contents of the next message
	cuts      []int   // per piece: place of its data; see interleave
	described []byte  // memory of the descriptions of encoded pieces
}

// next returns the next message, for gRPC to send. The first message of a stream needs a
// header and, in an upload, results.
func (c *chunker) next(header *pb.MessageHeader, results *pb.TaskResults) any {
	c.ready, c.described = c.ready[:0], c.described[:0]
	// Descriptions have their own limit, because many small tensors fill a message with
	// them.
	for room, beside := c.chunk, chunkRoom(c.chunk); !c.done() && beside > 0; {
		i, from := c.order[c.count], c.from
		if c.plain != nil && c.plain[c.count] {
			from = from.Plain
		}
		data := from.View(i)[c.sent:]
		if len(data) > 0 && room == 0 {
			break
		}
		n := min(len(data), room)
		p := piece{tensor: i, rows: from.Rows(i), offset: c.sent, data: data[:n]}
		if c.from.Coding != nil {
			c.describe(&p, from)
		}
		c.ready = append(c.ready, p)
		room -= n
		beside -= c.sizeOf(p) - n
		if c.sent += n; n == len(data) {
			c.count, c.sent = c.count+1, 0
		}
	}
	if c.cfg.generated {
		return c.generate(header, results)
	}
	return c.encode(header, results)
}
