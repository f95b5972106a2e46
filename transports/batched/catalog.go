package batched

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// Each tensor has one of these tags, as in OpenFL.
const (
	modelTag  = "model"
	updateTag = "trained"
)

// A catalog holds the constant parts of the encoded NamedTensors of a layout.
type catalog struct {
	layout *tensor.Layout
	tag    string
	index  map[string]int // by name
	all    []int          // indices of all tensors
	head   [][]byte       // per tensor: name, dtype, and shape unless its length varies
	inner  [][]byte       // per tensor whose length varies: all dimensions except the first
	tail   []byte         // of all tensors: tags, lossless
	room   int            // bytes that a codec may add to a description; 0 without a codec

	// Bounds on a peer's descriptions in bytes: of one tensor, and of all in one message.
	// The objects of generated code for a description can be a hundred times as large.
	describeOne, describeAll int
}

// entryCost is the number of bytes that each tensor adds to its description in
// describeAll.
const entryCost = 32

// newCatalog returns the catalog of l. All its tensors have the same tag.
func newCatalog(l *tensor.Layout, tag string) *catalog {
	c := &catalog{
		layout: l, tag: tag, index: make(map[string]int, l.Len()),
		head: make([][]byte, l.Len()), inner: make([][]byte, l.Len()),
	}
	if encodable(l) {
		c.room = codingRoom
	}
	c.tail = marshal(&pb.NamedTensor{Tags: []string{tag}, Lossless: true})
	// Leave room for less compact encodings and small pieces, and for slightly wrong
	// messages, so that a refusal names the actual error.
	c.describeOne, c.describeAll = 1<<10, 64<<10
	for i := range l.Len() {
		s := l.Spec(i)
		c.index[s.Name], c.all = i, append(c.all, i)
		head := &pb.NamedTensor{Name: s.Name, Dtype: pb.DType(s.DType)}
		if s.Var {
			for _, d := range s.Shape[1:] {
				c.inner[i] = protowire.AppendVarint(c.inner[i], uint64(d))
			}
		} else {
			head.Shape = shapeOf(s, 0)
		}
		c.head[i] = marshal(head)
		one := 2*c.size(i, math.MaxInt64, math.MaxInt64, math.MaxInt64, 0) + c.room
		c.describeOne = max(c.describeOne, one)
		c.describeAll += one + entryCost
	}
	return c
}

// appendMarshalled appends the encoding of m. It cannot fail, because checkNames has
// refused names that are not UTF-8.
func appendMarshalled(b []byte, m proto.Message) []byte {
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err != nil {
		panic("batched: " + err.Error())
	}
	return b
}

func marshal(m proto.Message) []byte { return appendMarshalled(nil, m) }

// shapeOf returns the shape of a tensor. rows replaces dimension 0 if its length varies.
func shapeOf(s tensor.Spec, rows int) []int64 {
	shape := make([]int64, len(s.Shape))
	for i, d := range s.Shape {
		shape[i] = int64(d)
	}
	if s.Var {
		shape[0] = int64(rows)
	}
	return shape
}

// appendDescription appends the NamedTensor, without data, of a piece of tensor i from
// offset on. rows is used only if the tensor's length varies. The bytes equal the output
// of generated code: fields in the order of their numbers, zero values omitted.
func (c *catalog) appendDescription(b []byte, i, rows int, round int64, offset int) []byte {
	b = append(b, c.head[i]...)
	if c.layout.Spec(i).Var {
		b = appendLength(b, fieldShape, protowire.SizeVarint(uint64(rows))+len(c.inner[i]))
		b = append(protowire.AppendVarint(b, uint64(rows)), c.inner[i]...)
	}
	b = appendNumber(b, fieldRound, uint64(round))
	b = append(b, c.tail...)
	return appendNumber(b, fieldOffset, uint64(offset))
}

// appendLength appends the start of a field with n bytes.
func appendLength(b []byte, num protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.BytesType), uint64(n))
}

func appendNumber(b []byte, num protowire.Number, x uint64) []byte {
	if x == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), x)
}

// size returns the size of such a NamedTensor with data bytes of data.
func (c *catalog) size(i, rows int, round int64, offset, data int) int {
	n := len(c.head[i]) + len(c.tail) + sizeNumber(uint64(round)) + sizeNumber(uint64(offset))
	if c.layout.Spec(i).Var {
		n += 1 + protowire.SizeBytes(protowire.SizeVarint(uint64(rows))+len(c.inner[i]))
	}
	if data != 0 {
		n += 1 + protowire.SizeBytes(data)
	}
	return n
}

func sizeNumber(x uint64) int {
	if x == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(x)
}

// field bounds the encoded size of the whole tensor i as a field of a message.
func (c *catalog) field(i int) int {
	return 1 + protowire.SizeBytes(c.size(i, math.MaxInt64, -1, 0, c.layout.Bytes(i))+c.room)
}

const (
	// maxMessage is the largest protobuf message.
	maxMessage = math.MaxInt32

	// maxReceipt bounds the receipt in a message, in bytes.
	maxReceipt = 64 << 20

	// headerRoom bounds the rest of a message, without tensors and receipt.
	headerRoom = 4 << 10

	// requestRoom bounds a request without the names of tensors, such as the error text
	// of a Leave request.
	requestRoom = 64 << 10
)

// requestLimit returns the maximum size of a request for tensors: twice this package's
// own, because other clients may encode less compactly.
func (c *catalog) requestLimit() int {
	n := requestRoom
	for i := range c.layout.Len() {
		n += 2 * (len(c.layout.Spec(i).Name) + 32) // round, tag, flags and lengths
	}
	return min(n, maxMessage)
}

// checkNames returns an error if names, which identify tensors in requests, are not unique
// or not UTF-8.
func checkNames(l *tensor.Layout) error {
	seen := make(map[string]bool, l.Len())
	for i := range l.Len() {
		name := l.Spec(i).Name
		switch {
		case seen[name]:
			return fmt.Errorf("two tensors have the name %q, but requests identify tensors by name", name)
		case !utf8.ValidString(name):
			return fmt.Errorf("tensor %q: a name in a protobuf message must be valid UTF-8", name)
		}
		seen[name] = true
	}
	return nil
}

// checkLimit returns an error if a chunk, a tensor or a batch of o's model would exceed
// the setting limit.
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

// overBatch returns the error text for a batch over the limit, with the remedy.
func overBatch(tensors, bytes, limit int) string {
	return fmt.Sprintf("a batch of %d tensors needs a message of %d bytes, the limit is %d: use grpc-stream, or split=on",
		tensors, bytes, limit)
}

// chunkRoom returns the bytes that names and shapes may add to chunk bytes of tensors.
func chunkRoom(chunk int) int { return max(chunk/4, frameSize) }

// split divides want into runs that fit into a message of limit bytes. A tensor that does
// not fit even alone gets a run of its own.
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
