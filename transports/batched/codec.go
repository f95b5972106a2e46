package batched

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/encoding"
	stock "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "ipcbench/transports/batched/federationpb"
)

// codec is gRPC's codec "proto" with a short cut for messages that hold tensors:
// it sends their data by reference and leaves received data where it arrived,
// for one copy into its final place. On the wire there is no difference. All
// other messages go through the stock codec, if they are not too large: the
// generated code makes an object of two bytes.
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
		m.refused = m.decode(data)
		return nil // gRPC would make a mere text of the error: see verdict
	}
	if n := data.Len(); c.most > 0 && n > c.most {
		return fmt.Errorf("a request of %d bytes without tensors: at most %d", n, c.most)
	}
	return c.stock.Unmarshal(data, v)
}

// A form is one of the three messages that hold tensors. They have the same
// fields under the same numbers, but for what the flags say.
type form uint8

const (
	single form = iota // GetAggregatedTensorResponse: one tensor
	many               // GetAggregatedTensorsResponse: several
	chunk              // TensorChunk: several, and results
)

// Field numbers of those messages, of MessageHeader and of NamedTensor.
const (
	fieldHeader  = 1
	fieldResults = 2
	fieldTensors = 3

	fieldSender     = 1
	fieldReceiver   = 2
	fieldFederation = 3

	fieldName     = 1
	fieldDType    = 2
	fieldShape    = 3
	fieldRound    = 4
	fieldReport   = 5
	fieldTags     = 6
	fieldLossless = 7
	fieldCodec    = 8
	fieldOffset   = 9
	fieldData     = 10
)

// An incoming is a received message that holds tensors. It keeps the buffers in
// which the message arrived until release, and may be used again after that.
type incoming struct {
	form    form
	most    int   // entries that all lists of a message may have together
	left    int   // of these, while one is decoded
	refused error // why the message was not decoded
	bufs    mem.BufferSlice
	header  header
	results *pb.TaskResults // nil if there are none
	tensors []named
}

// A header is a MessageHeader.
type header struct {
	set                          bool
	sender, receiver, federation []byte
}

// A named is a NamedTensor whose data lies where it arrived.
type named struct {
	name     []byte
	dtype    int32
	shape    []int64
	round    int64
	report   bool
	tags     [][]byte
	lossless bool
	codec    []*pb.CodecMetadata
	offset   uint64
	data     view
}

// release gives the buffers back to gRPC.
func (m *incoming) release() {
	m.bufs.Free()
	m.bufs = nil
}

// decode reads a message from data and keeps a reference to it, unless it fails.
func (m *incoming) decode(data mem.BufferSlice) error {
	m.release()
	m.header = header{sender: m.header.sender[:0], receiver: m.header.receiver[:0], federation: m.header.federation[:0]}
	m.results = nil
	m.tensors = m.tensors[:0]
	m.left = m.most
	if err := viewOf(data).eachBytes(m.field); err != nil {
		return err
	}
	data.Ref()
	m.bufs = data
	return nil
}

// errEntries is the verdict on a message whose lists are longer than those of any
// that is wanted. An entry takes up to a hundred times the bytes that it came in.
var errEntries = errors.New("too many tensors, dimensions, tags and codecs")

// spend takes n entries off what the message in hand may have.
func (m *incoming) spend(n int) error {
	if m.left -= n; m.left < 0 {
		return errEntries
	}
	return nil
}

// verdict returns err, with which the message was received, or else a refusal if
// it could not be decoded.
func (m *incoming) verdict(err error) error {
	if err == nil && m.refused != nil {
		return refuse(malformed, "%v", m.refused)
	}
	return err
}

func (m *incoming) field(num protowire.Number, v view) error {
	switch {
	case num == fieldHeader:
		return m.header.merge(v)
	case num == fieldResults && m.form == chunk:
		return m.mergeResults(v)
	case num == fieldTensors:
		t, err := m.tensor()
		if err != nil {
			return err
		}
		return m.merge(t, v)
	}
	return nil
}

// tensor returns the tensor that the next field is about: a new one, or in a
// message that has a single one always that, as protobuf merges.
func (m *incoming) tensor() (*named, error) {
	if m.form == single && len(m.tensors) == 1 {
		return &m.tensors[0], nil
	}
	if err := m.spend(1); err != nil {
		return nil, err
	}
	n := len(m.tensors)
	m.tensors = slices.Grow(m.tensors, 1)[:n+1]
	t := &m.tensors[n]
	*t = named{name: t.name[:0], shape: t.shape[:0], tags: t.tags[:0]}
	return t, nil
}

func (m *incoming) mergeResults(v view) error {
	if m.results == nil {
		m.results = &pb.TaskResults{}
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(v.appendTo(nil), m.results)
}

func (h *header) merge(v view) error {
	h.set = true
	return v.eachBytes(h.text)
}

func (h *header) text(num protowire.Number, v view) (err error) {
	switch num {
	case fieldSender:
		h.sender, err = v.text(h.sender)
	case fieldReceiver:
		h.receiver, err = v.text(h.receiver)
	case fieldFederation:
		h.federation, err = v.text(h.federation)
	}
	return err
}

// merge adds what v says to t.
func (m *incoming) merge(t *named, v view) error {
	for v.n > 0 {
		num, typ, err := v.field()
		if err != nil {
			return err
		}
		switch typ {
		case protowire.VarintType:
			var x uint64
			if x, err = v.varint(); err == nil {
				err = m.number(t, num, x)
			}
		case protowire.BytesType:
			var in view
			if in, err = v.bytes(); err == nil {
				err = m.bytes(t, num, in)
			}
		default:
			err = v.skipField(num, typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// number sets the field of t to x, if it is a number.
func (m *incoming) number(t *named, num protowire.Number, x uint64) error {
	switch num {
	case fieldDType:
		t.dtype = int32(x)
	case fieldShape: // one entry, not packed
		return m.dimension(t, x)
	case fieldRound:
		t.round = int64(x)
	case fieldReport:
		t.report = x != 0
	case fieldLossless:
		t.lossless = x != 0
	case fieldOffset:
		t.offset = x
	}
	return nil
}

func (m *incoming) dimension(t *named, x uint64) error {
	if err := m.spend(1); err != nil {
		return err
	}
	t.shape = append(t.shape, int64(x))
	return nil
}

// bytes sets the field of t to what v holds, if it is of that kind.
func (m *incoming) bytes(t *named, num protowire.Number, v view) (err error) {
	switch num {
	case fieldName:
		t.name, err = v.text(t.name)
	case fieldShape: // packed
		for v.n > 0 && err == nil {
			var x uint64
			if x, err = v.varint(); err == nil {
				err = m.dimension(t, x)
			}
		}
	case fieldTags:
		if err := m.spend(1); err != nil {
			return err
		}
		n := len(t.tags)
		t.tags = slices.Grow(t.tags, 1)[:n+1]
		t.tags[n], err = v.text(t.tags[n])
	case fieldCodec:
		if err := m.spend(1 + v.n); err != nil { // it has lists of its own
			return err
		}
		c := &pb.CodecMetadata{}
		err = proto.Unmarshal(v.appendTo(nil), c)
		t.codec = append(t.codec, c)
	case fieldData:
		t.data = v
	}
	return err
}
