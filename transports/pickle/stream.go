package pickle

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"

	"ipcbench/phase"
)

// bufferSize is that of both directions of a stream. A piece of a tensor that is larger
// goes past the buffer.
const bufferSize = 64 << 10

// A medium is what gob's bytes go through: a lane's socket, or a file.
type medium interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

// A stream is a medium with its gob coder. Encoder and decoder live as long as
// a connection does: gob sends the description of a type once.
type stream struct {
	conn           medium
	enc            *gob.Encoder
	dec            *gob.Decoder
	out            *bufio.Writer
	rec            *phase.Recorder
	sent, received *phase.Counter

	id phase.ID // of the message in hand

	// Of the message being sent: when its first write began, and how long all of
	// them took.
	sendFirst, sending int64

	// Of the message being received: when the wait for it began, and the first
	// and last moment of the reads since the last value was complete.
	waiting             int64
	readFirst, readLast int64
}

func newStream(conn medium, rec *phase.Recorder) *stream {
	s := &stream{
		conn: conn, rec: rec,
		sent: rec.Counter(phase.WireSent), received: rec.Counter(phase.WireReceived),
	}
	s.out = bufio.NewWriterSize(writer{s}, bufferSize)
	s.enc = gob.NewEncoder(s.out)
	s.dec = gob.NewDecoder(bufio.NewReaderSize(reader{s}, bufferSize)) // an io.ByteReader: gob adds no buffer of its own
	return s
}

// writer and reader are the stream's socket with its spans and byte counts.
type writer struct{ s *stream }

// Write counts the bytes before they go: the peer may have read them, and moved on
// to the next window, before the write returns.
func (w writer) Write(b []byte) (int, error) {
	s := w.s
	start, mark := phase.Now(), s.rec.Mark(phase.Send)
	s.sent.Add(len(b))
	n, err := s.conn.Write(b)
	s.sent.Add(n - len(b)) // none, unless it failed
	mark.End()
	if s.sendFirst == 0 {
		s.sendFirst = start
	}
	s.sending += phase.Now() - start
	return n, err
}

type reader struct{ s *stream }

func (r reader) Read(b []byte) (int, error) {
	s := r.s
	start := phase.Now()
	mark := s.rec.Mark(phase.Read)
	n, err := s.conn.Read(b)
	mark.End()
	s.received.Add(n)
	s.readLast = phase.Now()
	switch {
	case s.waiting != 0: // the first read of a message waits for the peer
		s.record(phase.Wait, s.waiting, s.readLast)
		s.waiting, s.readFirst = 0, s.readLast
	case s.readFirst == 0:
		s.readFirst = start
	}
	return n, err
}

// record adds a span of the message in hand.
func (s *stream) record(p phase.Phase, start, end int64) {
	s.rec.Add(p, s.id, start, end)
}

// next decodes one value into v. gob reads a value completely before it decodes
// it, so all reads up to here are one Read span. One that lay in the buffer has a
// span too, of no length: how much a read brings differs from round to round.
func (s *stream) next(v any) error {
	err := s.dec.Decode(v)
	if s.readFirst == 0 {
		s.readFirst = s.readLast
	}
	s.record(phase.Read, s.readFirst, s.readLast)
	s.readFirst = 0
	return err
}

// send encodes the values one after another and flushes them. Its Encode span
// encloses most of its Send span, which is as long as all its writes together.
func (s *stream) send(ctx context.Context, id phase.ID, encode func(*gob.Encoder) error) error {
	s.id, s.sendFirst, s.sending = id, 0, 0
	stop := s.obey(ctx)
	span := s.rec.Begin(phase.Encode, id)
	err := encode(s.enc)
	span.End()
	if err == nil {
		err = s.out.Flush()
	}
	s.record(phase.Send, s.sendFirst, s.sendFirst+s.sending)
	return s.explain(ctx, stop, err)
}

// sendHeader sends a message without tensors.
func (s *stream) sendHeader(ctx context.Context, id phase.ID, h header) error {
	return s.send(ctx, id, func(enc *gob.Encoder) error { return enc.Encode(h) })
}

// receive waits for a message and decodes it with next. Its Decode span encloses
// the Read spans of what comes in on the way.
func (s *stream) receive(ctx context.Context, id phase.ID, decode func() error) error {
	s.id, s.readFirst = id, 0
	s.waiting = phase.Now()
	stop := s.obey(ctx)
	err := decode()
	return s.explain(ctx, stop, err)
}

// obey makes the end of ctx end all I/O on the stream.
func (s *stream) obey(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) }) // files have no deadlines and need none
}

// explain names the end of ctx, or the peer's, if that was the cause of err.
func (s *stream) explain(ctx context.Context, stop func() bool, err error) error {
	ended := !stop()
	switch {
	case err == nil:
		return nil
	case ended:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("peer closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return err
}
