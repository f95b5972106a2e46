// Package gobs sends messages of tensors through a connection or a file, serialized with gob.
//
// A gob decoder is not safe with untrusted input, so a peer must show the session's secret
// before anything is decoded. Decoded data is still checked against the layout.
package gobs

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"io"
	"reflect"
	"slices"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// PieceSize is the maximum number of tensor bytes in one gob value. It is a multiple of
// every element size. gob copies a value into a buffer at each end; buffers of this size
// stay in the processor's cache. For a value above 10 MiB, gob would also grow a new
// buffer step by step.
const PieceSize = 1024 << 10

// maxValue bounds the bytes read for one gob value. The largest value is a header, with a
// receipt and a client's configuration. gob's own limit is 8 GiB.
const maxValue = 128 << 20

var errValue = fmt.Errorf("a gob value has more than %d bytes", maxValue)

// bufferSize is the buffer size of encoder and decoder. Larger pieces bypass the buffer.
const bufferSize = 64 << 10

// A Header starts every message. The tensors of a package follow it, if the message has
// any. Each tensor is a sequence of gob values of PieceSize bytes, the last one shorter.
type Header struct {
	Job     driver.Job
	Receipt []byte
	Rows    []byte // see tensor.Package.AppendRows
	Path    string // file of the message or the model, in storage
	Tensors int    // number of tensors that follow
	Bare    bool   // the job comes without a model: no tensors follow
	End     bool   // the server has shut down
}

// An Encoder writes messages to a connection or a file. Each needs a single encoder,
// because gob sends the description of a type once.
type Encoder struct {
	to    io.Writer
	buf   *bufio.Writer
	gob   *gob.Encoder
	rec   *phase.Recorder
	elems bool
	bytes []byte // for gob: a pointer to it allocates nothing

	first, writing int64 // start of the message's first write; duration of all its writes
}

// NewEncoder returns an encoder that records in rec. With elems, tensors are slices of
// numbers, and otherwise bytes.
func NewEncoder(to io.Writer, rec *phase.Recorder, elems bool) *Encoder {
	e := &Encoder{to: to, rec: rec, elems: elems}
	e.buf = bufio.NewWriterSize(timedWriter{e}, bufferSize)
	e.gob = gob.NewEncoder(e.buf)
	return e
}

// Encode writes h and the tensors of p, which may be nil. The Send sample is the sum of
// all writes, most of which happen within the Encode span.
func (e *Encoder) Encode(id phase.ID, h Header, p *tensor.Package) error {
	e.first, e.writing = 0, 0
	span := e.rec.Begin(phase.Encode, id)
	err := e.values(h, p)
	span.End()
	if err == nil {
		err = e.buf.Flush()
	}
	e.rec.AddSum(phase.Send, id, e.first, e.writing)
	return err
}

func (e *Encoder) values(h Header, p *tensor.Package) error {
	if p != nil {
		h.Tensors, h.Rows = p.Len(), p.AppendRows(nil)
	}
	if err := e.gob.Encode(h); err != nil {
		return err
	}
	for i := range h.Tensors {
		for piece := range slices.Chunk(p.View(i), PieceSize) {
			var v any = &e.bytes
			if e.bytes = piece; e.elems {
				v = elements(p.Layout().Spec(i).DType, piece)
			}
			if err := e.gob.Encode(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// A Decoder reads the messages of an [Encoder].
type Decoder struct {
	from  io.Reader
	gob   *gob.Decoder
	rec   *phase.Recorder
	elems bool
	bytes []byte        // slice that gob fills
	slice reflect.Value // pointer to the slice that gob fills with elems=on

	id          phase.ID // ID of the current message
	waiting     int64    // start of the wait for the message; 0 if not waiting
	first, last int64    // start of the first and end of the last read of the current value
	room        int      // bytes that may still be read for the current value
}

// NewDecoder returns a decoder of what such an encoder writes.
func NewDecoder(from io.Reader, rec *phase.Recorder, elems bool) *Decoder {
	d := &Decoder{from: from, rec: rec, elems: elems}
	d.gob = gob.NewDecoder(bufio.NewReaderSize(timedReader{d}, bufferSize)) // gob adds no buffer of its own to an io.ByteReader
	return d
}

// Await makes the time until the next message begins a wait for the peer.
func (d *Decoder) Await() { d.waiting = phase.Now() }

// Decode reads h, and the tensors into p if p is not nil and tensors follow. The Decode
// span encloses the Read spans of the tensors.
func (d *Decoder) Decode(id phase.ID, h *Header, p *tensor.Package) error {
	d.id, d.first = id, 0
	if err := d.next(h); err != nil || p == nil || h.Bare || h.End {
		return err
	}
	if id.Round < 0 { // a worker learns the job's round and client only from the header
		d.id = h.Job.ID(id.Lane)
	}
	span := d.rec.Begin(phase.Decode, d.id)
	defer span.End()
	return d.values(h, p)
}

func (d *Decoder) values(h *Header, p *tensor.Package) error {
	if h.Tensors != p.Len() {
		return fmt.Errorf("message must hold %[2]d tensors, not %[1]d", h.Tensors, p.Len())
	}
	if err := p.TakeRows(h.Rows); err != nil {
		return err
	}
	p.Receipt = append(p.Receipt[:0], h.Receipt...)
	for i := range p.Len() {
		spec := p.Layout().Spec(i)
		for piece := range slices.Chunk(p.View(i), PieceSize) {
			if err := d.piece(spec.DType, piece); err != nil {
				return fmt.Errorf("tensor %d (%q): %w", i, spec.Name, err)
			}
		}
	}
	return nil
}

// piece reads one gob value into view. gob decodes into a slice's memory only if the
// value fits, and otherwise allocates, so a value of another length is an error.
func (d *Decoder) piece(t tensor.DType, view []byte) error {
	if d.elems {
		return d.numbers(reflect.ValueOf(elements(t, view)))
	}
	d.bytes = view[:0]
	if err := d.next(&d.bytes); err != nil {
		return err
	}
	if len(d.bytes) != len(view) {
		return fmt.Errorf("received a piece of %d bytes, must be %d", len(d.bytes), len(view))
	}
	return nil
}

// numbers reads one gob value into view, a slice of elements, as piece does for bytes.
func (d *Decoder) numbers(view reflect.Value) error {
	if !d.slice.IsValid() || d.slice.Type().Elem() != view.Type() {
		d.slice = reflect.New(view.Type())
	}
	got := d.slice.Elem()
	got.Set(view)
	got.SetLen(0)
	if err := d.next(d.slice.Interface()); err != nil {
		return err
	}
	if got.Len() != view.Len() {
		return fmt.Errorf("received a piece of %d elements, must be %d", got.Len(), view.Len())
	}
	return nil
}

// next decodes one value into v and records its Read span. gob reads a value completely
// before it decodes it, so its reads form a single span. A value that was already in the
// buffer gets an empty span, because reads end at different values in each round.
func (d *Decoder) next(v any) error {
	d.room = maxValue
	err := d.gob.Decode(v)
	if d.first == 0 {
		d.first = d.last
	}
	d.rec.Add(phase.Read, d.id, d.first, d.last)
	d.first = 0
	return err
}

// timedWriter and timedReader time the writes and reads below the buffers.
type timedWriter struct{ *Encoder }

func (w timedWriter) Write(b []byte) (int, error) {
	start, mark := phase.Now(), w.rec.Mark(phase.Send)
	n, err := w.to.Write(b)
	mark.End()
	if w.first == 0 {
		w.first = start
	}
	w.writing += phase.Now() - start
	return n, err
}

type timedReader struct{ *Decoder }

func (r timedReader) Read(b []byte) (int, error) {
	if r.room <= 0 {
		return 0, errValue
	}
	start, mark := phase.Now(), r.rec.Mark(phase.Read)
	n, err := r.from.Read(b)
	r.room -= n
	mark.End()
	r.last = phase.Now()
	switch {
	case r.waiting != 0: // the first read of a message waits for the peer
		r.rec.Add(phase.Wait, r.id, r.waiting, r.last)
		r.waiting, r.first = 0, r.last
	case r.first == 0:
		r.first = start
	}
	return n, err
}

// elements returns b as a slice of elements of type d. gob encodes these one by one, as
// a variable number of bytes. bool and u8 stay a slice of bytes, which gob copies.
func elements(d tensor.DType, b []byte) any {
	switch d {
	case tensor.I8:
		return tensor.Slice[int8](b)
	case tensor.I16:
		return tensor.Slice[int16](b)
	case tensor.I32:
		return tensor.Slice[int32](b)
	case tensor.I64:
		return tensor.Slice[int64](b)
	case tensor.F16, tensor.BF16:
		return tensor.Slice[uint16](b)
	case tensor.F32:
		return tensor.Slice[float32](b)
	case tensor.F64:
		return tensor.Slice[float64](b)
	}
	return b
}
