package trainer

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// errProtocol is a message that its sender may not send.
var errProtocol = errors.New("no message of this protocol")

// How large a message may be.
const (
	shortMessage = 512 << 10 // any but an assignment
	longMessage  = 1 << 30
)

// control is one end of a control socket. Any goroutine may send, one receives.
type control struct {
	conn    net.Conn
	timeout time.Duration // of a send
	limit   int64         // of what is received
	got     int64         // bytes of the last message
	met     bool          // the peer's hello has come

	mu sync.Mutex // one frame is written at a time
}

// sendTimeout bounds one message: the peer reads all the time.
const sendTimeout = 10 * time.Second

func (c *control) send(m message) error {
	frame := bytes.NewBuffer(make([]byte, 4))
	err := json.NewEncoder(frame).Encode(m)
	if size := frame.Len() - 4; err == nil && size > longMessage {
		err = fmt.Errorf("a message of %d bytes: want at most %d", size, longMessage)
	}
	if err == nil {
		binary.BigEndian.PutUint32(frame.Bytes(), uint32(frame.Len()-4))
		c.mu.Lock()
		defer c.mu.Unlock()
		err = c.conn.SetWriteDeadline(time.Now().Add(c.timeout))
	}
	if err == nil {
		_, err = c.conn.Write(frame.Bytes())
	}
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}

// sendReport sends a report part by part.
func (c *control) sendReport(t Totals) error {
	for some := range slices.Chunk(t.Samples, frameSamples) {
		if err := c.send(message{Samples: newColumns(some)}); err != nil {
			return err
		}
	}
	for _, p := range t.Profiles {
		for kind := p.Kind; kind != "" || len(p.Data)+len(p.Before) > 0; kind = "" {
			data, before := min(len(p.Data), frameProfile), min(len(p.Before), frameProfile)
			if err := c.send(message{Profile: &piece{kind, p.Data[:data], p.Before[:before]}}); err != nil {
				return err
			}
			p.Data, p.Before = p.Data[data:], p.Before[before:]
		}
	}
	return c.send(message{Report: &t})
}

// receive returns the next message. The first one is preceded by the peer's
// hello, which must be the one that this process would send.
func (c *control) receive() (message, error) {
	m, err := c.receiveAny()
	if err == nil && !c.met {
		if own := newHello(); m.Hello == nil || *m.Hello != *own {
			err = fmt.Errorf("%w: the peer speaks %v, this process %v", errProtocol, m.Hello, own)
		} else {
			c.met = true
			m, err = c.receiveAny()
		}
	}
	if err != nil {
		return m, fmt.Errorf("control socket: %w", err)
	}
	return m, nil
}

func (c *control) receiveAny() (message, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return message{}, err
	}
	c.got = int64(binary.BigEndian.Uint32(head[:]))
	if c.got > c.limit {
		return message{}, fmt.Errorf("%w: one of %d bytes: want at most %d", errProtocol, c.got, c.limit)
	}
	var body bytes.Buffer // grows with what comes, and not with what was claimed
	if _, err := io.CopyN(&body, c.conn, c.got); err != nil {
		return message{}, fmt.Errorf("in the middle of a message: %w", err)
	}
	return parse(body.Bytes())
}

// parse returns the message that b is.
func parse(b []byte) (m message, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return message{}, fmt.Errorf("%w: %w", errProtocol, err)
	}
	set, fields := 0, reflect.ValueOf(m)
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			set++
			m.kind = strings.ToLower(fields.Type().Field(i).Name)
		}
	}
	if _, err := dec.Token(); set != 1 || !errors.Is(err, io.EOF) {
		return message{}, fmt.Errorf("%w: want one object with one key, which is the type", errProtocol)
	}
	return m, nil
}

// awaitClosed waits until done is closed, for d at most.
func awaitClosed(ctx context.Context, done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
