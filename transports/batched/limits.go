package batched

import (
	"errors"
	"fmt"
	"math"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

const (
	// maxMessage is the largest protobuf message.
	maxMessage = math.MaxInt32

	// maxReceipt bounds what is not a tensor in a request.
	maxReceipt = 64 << 20

	// headerRoom is what a message may hold beside tensors and receipt.
	headerRoom = 4 << 10
)

// requestRoom is what a request may hold beside the names of tensors. The text of
// a worker's error, which it leaves with, is the longest such thing.
const requestRoom = 64 << 10

// requestLimit returns how long a request for tensors may be: twice what our own
// are, as others may encode more than they need to.
func (c *catalog) requestLimit() int {
	n := requestRoom
	for i := range c.layout.Len() {
		n += 2 * (len(c.layout.Spec(i).Name) + 32) // round, tag, flags and lengths
	}
	return min(n, maxMessage)
}

// checkLimit says, before anything starts, what would not fit into a message.
func (t *transport) checkLimit(cfg config, o driver.Options) error {
	if need := cfg.chunk + chunkRoom(cfg.chunk); need > cfg.limit {
		return fmt.Errorf("chunk=%s needs messages of %d bytes, the limit is %d: use a smaller chunk or a larger limit",
			tensor.FormatBytes(cfg.chunk), need, cfg.limit)
	}
	if t.stream {
		return nil
	}
	down := newCatalog(o.Down, modelTag)
	all := headerRoom
	for i := range o.Down.Len() {
		if n := headerRoom + down.field(i); n > cfg.limit {
			return fmt.Errorf("tensor %q needs a message of %d bytes, the limit is %d: use grpc-stream",
				o.Down.Spec(i).Name, n, cfg.limit)
		}
		all += down.field(i)
	}
	if t.batch && !cfg.split && all > cfg.limit {
		return errors.New(overBatch(o.Down.Len(), all, cfg.limit))
	}
	return nil
}

// overBatch says what is wrong with a batch and what to do.
func overBatch(tensors, bytes, limit int) string {
	return fmt.Sprintf("a batch of %d tensors needs a message of %d bytes, the limit is %d: use grpc-stream, or split=on",
		tensors, bytes, limit)
}

// chunkRoom is what names and shapes may add to the tensor bytes of a chunk.
func chunkRoom(chunk int) int { return max(chunk/4, frameSize) }

// split cuts want into runs whose tensors fit into a message of limit bytes. A
// tensor that does not fit alone is a run of its own.
func (c *catalog) split(want []int, limit int) [][]int {
	var runs [][]int
	start, size := 0, headerRoom
	for k, i := range want {
		if n := c.field(i); k > start && size+n > limit {
			runs = append(runs, want[start:k])
			start, size = k, headerRoom
		}
		size += c.field(i)
	}
	return append(runs, want[start:])
}
