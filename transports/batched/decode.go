package batched

import (
	"bytes"
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "ipcbench/transports/batched/federationpb"
)

var (
	// errDescribed is the verdict on a message that says more of itself or of tensors
	// than anybody needs to say: see catalog.
	errDescribed = errors.New("too long a header, or description of tensors")

	// errTwice is the verdict on a message with two headers or two results, which
	// protobuf would merge. No encoder makes one.
	errTwice = errors.New("header or results twice")
)

// An incoming is a received message that holds tensors. It keeps the buffers in
// which the message arrived until release, and may be used again after that.
type incoming struct {
	*catalog
	cfg     *config
	refused error // why the message was not decoded
	header  *pb.MessageHeader
	results *pb.TaskResults
	count   int               // tensors, or pieces of them
	bufs    mem.BufferSlice   // the message
	tensors []*pb.NamedTensor // with marshal=generated, instead of bufs

	mirror  *pb.MessageHeader // the header that is expected, and need not be made
	encoded []byte            // mirror, encoded
	scratch []byte
	next    []byte // what comes next, described; an assembly's
}

// release gives the buffers back to gRPC.
func (m *incoming) release() {
	m.bufs.Free()
	m.bufs, m.tensors = nil, nil
}

// verdict returns err, with which the message was received, or else a refusal if
// it could not be decoded.
func (m *incoming) verdict(err error) error {
	if err == nil && m.refused != nil {
		return refuse(malformed, "%v", m.refused)
	}
	return err
}

// decode reads a message and keeps a reference to data, unless it fails. It leaves
// the tensors to an assembly.
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

// describe returns a NamedTensor without its data, valid until the next call, and
// its data.
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
