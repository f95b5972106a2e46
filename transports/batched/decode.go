package batched

import (
	"bytes"
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

var (
	// errDescribed reports a message whose header or tensor descriptions are longer
	// than any valid one: see catalog.
	errDescribed = errors.New("header or description of tensors is too long")

	// errTwice reports a message with two headers or two results. Protobuf would merge
	// them, but no encoder produces such a message.
	errTwice = errors.New("message has two headers or two results")
)

// An incoming is a received message that holds tensors. It keeps the buffers in
// which the message arrived until release, and can then be reused.
type incoming struct {
	*catalog
	cfg     *config
	refused error // why the message was not decoded; nil if it was
	header  *pb.MessageHeader
	results *pb.TaskResults
	count   int               // number of tensors, or pieces of tensors, in the message
	bufs    mem.BufferSlice   // the message
	tensors []*pb.NamedTensor // with marshal=generated, instead of bufs

	mirror  *pb.MessageHeader // expected header
	encoded []byte            // encoded mirror
	scratch []byte
	next    []byte // expected description; used by an assembly
}

// release returns the buffers to gRPC.
func (m *incoming) release() {
	m.bufs.Free()
	m.bufs, m.tensors = nil, nil
}

// receive receives the next message of stream.
func (m *incoming) receive(stream interface{ RecvMsg(any) error }, t *stopwatch) error {
	defer t.begin(phase.Read).end()
	return m.verdict(stream.RecvMsg(m))
}

// verdict returns err, the error of receiving the message, or a refusal if the message
// was not decoded. gRPC would reduce an error of the codec to its text, so the codec
// stores it in m.refused instead.
func (m *incoming) verdict(err error) error {
	if err == nil && m.refused != nil {
		return refuse(malformed, "%v", m.refused)
	}
	return err
}

// decode parses a message and keeps a reference to data, unless it fails. It only
// counts the tensors: an assembly reads them.
func (m *incoming) decode(data mem.BufferSlice) error {
	m.release()
	m.header, m.results, m.count = nil, nil, 0
	if err := viewOf(data).eachField(m.field); err != nil {
		return err
	}
	data.Ref()
	m.bufs = data
	return nil
}

func (m *incoming) field(f field) error {
	switch f.num {
	case fieldHeader:
		return m.takeHeader(f.value)
	case fieldResults:
		if m.results != nil {
			return errTwice
		}
		m.results = &pb.TaskResults{}
		if m.cfg.generated {
			return nil // see unmarshal
		}
		return proto.Unmarshal(f.value.appendTo(nil), m.results)
	case fieldTensors:
		m.count++
	}
	return nil
}

func (m *incoming) takeHeader(v view) error {
	if m.header != nil {
		return errTwice
	}
	if m.mirror != nil && v.n == len(m.encoded) {
		m.scratch = v.appendTo(m.scratch[:0])
		if bytes.Equal(m.scratch, m.encoded) {
			m.header = m.mirror
			return nil
		}
	}
	if v.n > headerRoom {
		return errDescribed
	}
	m.header = &pb.MessageHeader{}
	return proto.Unmarshal(v.appendTo(nil), m.header)
}

// describe splits a NamedTensor into its description, valid until the next call, and its
// data. It fails if the description exceeds describeOne.
func (m *incoming) describe(entry view) (description []byte, data view, err error) {
	m.scratch = m.scratch[:0]
	err = entry.eachField(func(f field) error {
		if f.num == fieldData {
			data = f.value
			return nil
		}
		if len(m.scratch)+f.whole.n > m.describeOne {
			return errDescribed
		}
		m.scratch = f.whole.appendTo(m.scratch)
		return nil
	})
	return m.scratch, data, err
}
