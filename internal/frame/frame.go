// Package frame sends and receives JSON messages on a stream. A frame is the length of the
// text in four bytes, big-endian, followed by the text.
package frame

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrProtocol is the error of a message that violates the protocol.
var ErrProtocol = errors.New("not a message of this protocol")

// Write sends v as one frame. It fails, without sending, if the text has more than most
// bytes.
func Write(w io.Writer, v any, most int) error {
	b := bytes.NewBuffer(make([]byte, 4))
	if err := json.NewEncoder(b).Encode(v); err != nil {
		return err
	}
	size := b.Len() - 4
	if size > most {
		return fmt.Errorf("a message has %d bytes: it must have at most %d", size, most)
	}
	binary.BigEndian.PutUint32(b.Bytes(), uint32(size))
	_, err := w.Write(b.Bytes())
	return err
}

// Read returns the text of the next frame and reads no byte beyond it. It fails if the text
// is longer than most(), which is called when the frame begins, because the limit may
// change while Read waits.
func Read(r io.Reader, most func() int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if limit := int64(most()); size > limit {
		return nil, fmt.Errorf("%w: it has %d bytes, and must have at most %d", ErrProtocol, size, limit)
	}
	var text bytes.Buffer // grows with the bytes that arrive, because the length is only a claim
	if _, err := io.CopyN(&text, r, size); err != nil {
		return nil, fmt.Errorf("in the middle of a message: %w", err)
	}
	return text.Bytes(), nil
}
