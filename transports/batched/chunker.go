package batched

import (
	"google.golang.org/protobuf/proto"

	"ipcbench/tensor"
)

// A chunker cuts the tensors of a package into the messages of a stream: size
// bytes of tensors in each but the last. n bytes make ⌈n/size⌉ messages, and one
// if n is 0.
type chunker struct {
	*catalog
	e     encoder
	order []int // the tensors to send; nil: all of the layout
	from  *tensor.Package
	round int64
	size  int
	count int // tensors in order that were sent
	sent  int // bytes of the next one
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

// next returns the next message. The first one of a stream carries header, and
// on the way up results.
func (c *chunker) next(header, results proto.Message) (*outgoing, error) {
	c.e.start(0)
	if header != nil {
		if err := c.e.message(fieldHeader, header); err != nil {
			return nil, err
		}
	}
	if results != nil {
		if err := c.e.message(fieldResults, results); err != nil {
			return nil, err
		}
	}
	beside := c.e.len() // what the header and the results take does not count
	room := c.size
	for !c.done() && c.e.len()-beside-(c.size-room) < chunkRoom(c.size) {
		i := c.count
		if c.order != nil {
			i = c.order[c.count]
		}
		data := c.from.View(i)[c.sent:]
		if len(data) > 0 && room == 0 {
			break
		}
		n := min(len(data), room)
		c.e.tensor(c.catalog, i, c.round, c.sent, data[:n])
		room -= n
		if c.sent += n; n == len(data) {
			c.count, c.sent = c.count+1, 0
		}
	}
	return c.e.finish(), nil
}
