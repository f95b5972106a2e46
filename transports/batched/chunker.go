package batched

import (
	"google.golang.org/protobuf/encoding/protowire"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// A piece is bytes of a tensor, from offset on: all of them, or some.
type piece struct {
	tensor, rows, offset int
	data                 []byte

	*coded // nil without a codec
}

// sizeOf returns the encoded size of the NamedTensor that p is.
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

// A sequence is tensors of a catalog, in the order in which they travel.
type sequence struct {
	*catalog
	order []int // nil: all of the layout
	count int   // of them, that have travelled
}

// tensors returns how many there are.
func (s *sequence) tensors() int {
	if s.order == nil {
		return s.layout.Len()
	}
	return len(s.order)
}

// at returns the k-th of them.
func (s *sequence) at(k int) int {
	if s.order == nil {
		return k
	}
	return s.order[k]
}

// done reports whether all have travelled.
func (s *sequence) done() bool { return s.count == s.tensors() }

// A chunker cuts the tensors of a package into the messages of a stream: chunk
// bytes of tensors in each but the last. n bytes make ⌈n/chunk⌉ messages, and one
// if n is 0. An assembly undoes that.
type chunker struct {
	sequence
	cfg   *config
	pool  *framePool
	from  *tensor.Package
	plain []bool // of the tensors in order: which go decoded; nil: none
	round int64
	chunk int
	sent  int     // bytes of the next tensor
	ready []piece // what the next message holds
	cuts  []int   // where in its small things the data of each piece goes; see encode
	said  []byte  // memory of what is said of pieces
}

// next returns the next message, for gRPC to send. The first one of a stream
// carries header, and on the way up results.
func (c *chunker) next(header *pb.MessageHeader, results *pb.TaskResults) any {
	c.ready, c.said = c.ready[:0], c.said[:0]
	// Names and shapes count apart: many small tensors fill a message with those.
	for room, beside := c.chunk, chunkRoom(c.chunk); !c.done() && beside > 0; {
		i, from := c.at(c.count), c.from
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
			c.say(&p, from)
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
