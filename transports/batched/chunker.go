package batched

import (
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// A piece is bytes of a tensor, from offset on: all of them, or some.
type piece struct {
	tensor, rows, offset int
	data                 []byte
}

// A chunker cuts the tensors of a package into the messages of a stream: chunk
// bytes of tensors in each but the last. n bytes make ⌈n/chunk⌉ messages, and one
// if n is 0. An assembly undoes that.
type chunker struct {
	*catalog
	cfg   *config
	pool  *framePool
	from  *tensor.Package
	order []int // the tensors to send; nil: all of the layout
	round int64
	chunk int
	count int     // tensors in order that were sent
	sent  int     // bytes of the next one
	ready []piece // what the next message holds
	cuts  []int   // where in its small things the data of each piece goes; see encode
}

// tensors returns how many tensors there are to send.
func (c *chunker) tensors() int {
	if c.order == nil {
		return c.layout.Len()
	}
	return len(c.order)
}

// done reports whether everything was sent.
func (c *chunker) done() bool { return c.count == c.tensors() }

// next returns the next message, for gRPC to send. The first one of a stream
// carries header, and on the way up results.
func (c *chunker) next(header *pb.MessageHeader, results *pb.TaskResults) any {
	c.ready = c.ready[:0]
	// Names and shapes count apart: many small tensors fill a message with those.
	for room, beside := c.chunk, chunkRoom(c.chunk); !c.done() && beside > 0; {
		i := c.count
		if c.order != nil {
			i = c.order[c.count]
		}
		data := c.from.View(i)[c.sent:]
		if len(data) > 0 && room == 0 {
			break
		}
		n := min(len(data), room)
		p := piece{i, c.from.Rows(i), c.sent, data[:n]}
		c.ready = append(c.ready, p)
		room -= n
		beside -= c.size(i, p.rows, c.round, c.sent, n) - n
		if c.sent += n; n == len(data) {
			c.count, c.sent = c.count+1, 0
		}
	}
	if c.cfg.generated {
		return c.generate(header, results)
	}
	return c.encode(header, results)
}
