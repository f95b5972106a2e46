package batched

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// byReference is the size from which a tensor's data is sent by reference.
// Handing a smaller piece around costs more than copying it.
const byReference = 1 << 10

// An outgoing is a message that holds tensors, encoded: buffers of small things
// and, by reference, the tensors' data between them.
type outgoing struct{ bufs mem.BufferSlice }

// An encoder makes one outgoing message after another. The bytes are those that
// the generated code makes: fields in the order of their numbers, zero values
// left out.
type encoder struct {
	pool  *framePool
	small *[]byte // everything but data that goes by reference
	cuts  []cut
	size  int
}

// A cut is where data goes in between the small things.
type cut struct {
	at   int
	data []byte
}

// start begins a message whose small things need about n bytes.
func (e *encoder) start(n int) {
	e.small = e.pool.Get(max(n, frameSize))
	*e.small = (*e.small)[:0]
	e.cuts, e.size = e.cuts[:0], 0
}

// message appends a field that is a small message.
func (e *encoder) message(num protowire.Number, m proto.Message) error {
	b := protowire.AppendTag(*e.small, num, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(proto.Size(m)))
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	*e.small = b
	return err
}

// tensor appends bytes [offset, offset+len(data)) of tensor i of the catalog.
func (e *encoder) tensor(c *catalog, i int, round int64, offset int, data []byte) {
	b := protowire.AppendTag(*e.small, fieldTensors, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(c.size(i, round, offset, len(data))))
	b = append(b, c.head[i]...)
	if round != 0 {
		b = protowire.AppendTag(b, fieldRound, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(round))
	}
	b = append(b, c.tail...)
	if offset != 0 {
		b = protowire.AppendTag(b, fieldOffset, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(offset))
	}
	if len(data) > 0 {
		b = protowire.AppendTag(b, fieldData, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(len(data)))
	}
	if len(data) >= byReference {
		e.cuts = append(e.cuts, cut{len(b), data})
		e.size += len(data)
	} else {
		b = append(b, data...)
	}
	*e.small = b
}

// len returns the bytes of the message so far.
func (e *encoder) len() int { return e.size + len(*e.small) }

// finish returns the message.
func (e *encoder) finish() *outgoing {
	small := mem.NewBuffer(e.small, e.pool)
	bufs := make(mem.BufferSlice, 0, 2*len(e.cuts)+1)
	at := 0
	for _, c := range e.cuts {
		bufs = append(bufs, small.Slice(at, c.at), mem.SliceBuffer(c.data))
		at = c.at
	}
	if n := len(*e.small); at < n {
		bufs = append(bufs, small.Slice(at, n))
	}
	small.Free()
	clear(e.cuts)
	e.small = nil
	return &outgoing{bufs}
}

// A catalog is what is always the same about the NamedTensors of a layout.
type catalog struct {
	layout *tensor.Layout
	tag    string
	index  map[string]int
	head   [][]byte // of each tensor: name, dtype, shape
	tail   []byte   // of all: tags, lossless
}

// Tags of tensors, one each, as in OpenFL.
const (
	modelTag  = "model"
	updateTag = "trained"
)

// newCatalog returns the catalog of a layout whose tensors all have one tag.
func newCatalog(l *tensor.Layout, tag string) *catalog {
	c := &catalog{layout: l, tag: tag, index: make(map[string]int, l.Len()), head: make([][]byte, l.Len())}
	for i := range l.Len() {
		s := l.Spec(i)
		c.index[s.Name] = i
		c.head[i] = marshal(&pb.NamedTensor{Name: s.Name, Dtype: pb.DType(s.DType), Shape: shapeOf(s)})
	}
	c.tail = marshal(&pb.NamedTensor{Tags: []string{tag}, Lossless: true})
	return c
}

// spareEntries is how many entries a message may have beyond those of all tensors,
// so that what is nearly right is refused for what is wrong with it, and a client
// may cut a tensor into pieces that are smaller than a message.
const spareEntries = 1 << 10

// entries returns how many entries the lists of a message may have: see incoming.
func (c *catalog) entries() int {
	n := spareEntries
	for i := range c.layout.Len() {
		n += 1 + len(c.layout.Spec(i).Shape) + 1 // the tensor, its shape, its tag
	}
	return n
}

// marshal encodes a message of ours, which cannot fail: names were checked.
func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("batched: " + err.Error())
	}
	return b
}

func shapeOf(s tensor.Spec) []int64 {
	shape := make([]int64, len(s.Shape))
	for i, d := range s.Shape {
		shape[i] = int64(d)
	}
	return shape
}

// size returns the encoded size of a NamedTensor.
func (c *catalog) size(i int, round int64, offset, data int) int {
	n := len(c.head[i]) + len(c.tail)
	if round != 0 {
		n += 1 + protowire.SizeVarint(uint64(round))
	}
	if offset != 0 {
		n += 1 + protowire.SizeVarint(uint64(offset))
	}
	if data != 0 {
		n += 1 + protowire.SizeBytes(data)
	}
	return n
}

// field returns the encoded size of a whole tensor as a field of a message, at
// most.
func (c *catalog) field(i int) int {
	return 1 + protowire.SizeBytes(c.size(i, -1, 0, c.layout.Bytes(i)))
}
