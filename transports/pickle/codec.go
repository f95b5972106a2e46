package pickle

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

// pieceSize is the most bytes of a tensor in one gob value: a whole number of
// elements of any type. gob copies a value into a buffer at either end; buffers of
// this size are used again while they are in the processor's cache. And it grows
// the buffer of a value of more than 10 MiB step by step, from nothing, each time.
const pieceSize = 1024 << 10

// maxValue bounds what is read for one gob value: a header holds a receipt and a
// client's configuration, and a piece is smaller. gob itself would take 8 GiB.
const maxValue = 128 << 20

var errValue = fmt.Errorf("a value of more than %d bytes", maxValue)

// bufferSize is that of both coders. A piece of a tensor that is larger goes past the
// buffer.
const bufferSize = 64 << 10

// A header starts every message. The tensors of a package follow it, if the
// message carries any, each as gob values of pieceSize bytes and one for the rest.
type header struct {
	Job     driver.Job
	Receipt []byte
	Rows    []byte // in use, of the tensors whose length varies
	Path    string // of a file, where tensors travel in files
	Tensors int    // that follow
	Bare    bool   // this is a job without a model: no tensors follow
	End     bool   // the server has shut down
}

// An encoder writes messages to a lane's connection or to a file. It lives as long as
// that does: gob sends the description of a type once.
type encoder struct {
	to    io.Writer
	buf   *bufio.Writer
	gob   *gob.Encoder
	rec   *phase.Recorder
	elems bool
	bytes []byte // that gob encodes: a pointer to it allocates nothing

	first, writing int64 // when the first write of the message began, and how long all of them took
}

func newEncoder(to io.Writer, o driver.Options) *encoder {
	e := &encoder{to: to, rec: o.Rec, elems: o.Settings.On("elems")}
	e.buf = bufio.NewWriterSize(timedWriter{e}, bufferSize)
	e.gob = gob.NewEncoder(e.buf)
	return e
}

// encode writes h and the tensors of p, if there is one. Its Send span is the sum
// of its writes, most of them within the Encode span.
func (e *encoder) encode(id phase.ID, h header, p *tensor.Package) error {
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

func (e *encoder) values(h header, p *tensor.Package) error {
	if p != nil {
		h.Tensors, h.Rows = p.Len(), p.AppendRows(nil)
	}
	if err := e.gob.Encode(h); err != nil {
		return err
	}
	for i := range h.Tensors {
		for piece := range slices.Chunk(p.View(i), pieceSize) {
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

// A decoder reads what an encoder has written.
type decoder struct {
	from  io.Reader
	gob   *gob.Decoder
	rec   *phase.Recorder
	elems bool
	bytes []byte        // that gob fills
	slice reflect.Value // with elems, a pointer to that

	id          phase.ID // of the message in hand
	waiting     int64    // when the wait for it began; 0 if it has ended, or there is none
	first, last int64    // moments of the reads since the last value was complete
	room        int      // bytes that may still be read for the value
}

func newDecoder(from io.Reader, o driver.Options) *decoder {
	d := &decoder{from: from, rec: o.Rec, elems: o.Settings.On("elems")}
	d.gob = gob.NewDecoder(bufio.NewReaderSize(timedReader{d}, bufferSize)) // an io.ByteReader: gob adds no buffer of its own
	return d
}

// decode reads h, and the tensors into their places in p, if there is one and they
// follow. The Decode span encloses the Read spans of what comes in on the way.
func (d *decoder) decode(id phase.ID, h *header, p *tensor.Package) error {
	d.id, d.first = id, 0
	if err := d.next(h); err != nil || p == nil || h.Bare || h.End {
		return err
	}
	if id.Round < 0 { // a worker learns only here whose message it is
		d.id = h.Job.ID(id.Lane)
	}
	span := d.rec.Begin(phase.Decode, d.id)
	defer span.End()
	return d.values(h, p)
}

func (d *decoder) values(h *header, p *tensor.Package) error {
	if h.Tensors != p.Len() {
		return fmt.Errorf("message holds %d tensors, the layout has %d", h.Tensors, p.Len())
	}
	if err := p.TakeRows(h.Rows); err != nil {
		return err
	}
	p.Receipt = append(p.Receipt[:0], h.Receipt...)
	for i := range p.Len() {
		spec := p.Layout().Spec(i)
		for piece := range slices.Chunk(p.View(i), pieceSize) {
			if err := d.piece(spec.DType, piece); err != nil {
				return fmt.Errorf("tensor %d (%q): %w", i, spec.Name, err)
			}
		}
	}
	return nil
}

// piece reads one gob value into view. gob reuses a slice's memory if the value fits;
// the length of what arrived is checked, since a larger value has landed elsewhere.
func (d *decoder) piece(t tensor.DType, view []byte) error {
	if d.elems {
		return d.numbers(reflect.ValueOf(elements(t, view)))
	}
	d.bytes = view[:0]
	if err := d.next(&d.bytes); err != nil {
		return err
	}
	if len(d.bytes) != len(view) {
		return fmt.Errorf("a piece of %d bytes arrived, the layout says %d", len(d.bytes), len(view))
	}
	return nil
}

// numbers is piece for a slice of a tensor's elements.
func (d *decoder) numbers(view reflect.Value) error {
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
		return fmt.Errorf("a piece of %d elements arrived, the layout says %d", got.Len(), view.Len())
	}
	return nil
}

// next decodes one value into v. gob reads a value completely before it decodes
// it, so all reads up to here are one Read span. One that lay in the buffer has a
// span too, of no length: how much a read brings differs from round to round.
func (d *decoder) next(v any) error {
	d.room = maxValue
	err := d.gob.Decode(v)
	if d.first == 0 {
		d.first = d.last
	}
	d.rec.Add(phase.Read, d.id, d.first, d.last)
	d.first = 0
	return err
}

// timedWriter and timedReader are what the coders' buffers stand before.
type timedWriter struct{ *encoder }

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

type timedReader struct{ *decoder }

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

// elements returns b as a slice of numbers, which gob encodes one at a time, floats and
// integers in a variable number of bytes. Bytes it copies; bool and u8 are bytes either
// way.
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
