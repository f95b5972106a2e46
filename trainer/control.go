package trainer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/internal/frame"
)

// errProtocol marks a message that its sender may not send.
var errProtocol = frame.ErrProtocol

// Size limits of messages, in bytes.
const (
	shortMessage = 512 << 10 // every message except assignments and reports
	longMessage  = 1 << 30
)

// control is one end of a control socket. Any goroutine may send; one goroutine receives.
type control struct {
	conn    net.Conn
	timeout time.Duration // for sending one message
	limit   int           // size limit of received messages, except a report
	report  atomic.Int64  // size limit of a report; zero until one is requested
	met     bool          // the peer's hello has been received

	mu sync.Mutex // held while a frame is written
}

// sendTimeout bounds the sending of one message: the peer always reads.
const sendTimeout = 10 * time.Second

func (c *control) send(m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.conn.SetWriteDeadline(time.Now().Add(c.timeout))
	if err == nil {
		err = frame.Write(c.conn, m, longMessage)
	}
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}

// receive returns the next message. Before the first one it reads the peer's hello,
// which must equal this process's own.
func (c *control) receive() (message, error) {
	m, err := c.receiveAny()
	if err == nil && !c.met {
		if own := newHello(); m.Hello == nil || *m.Hello != *own {
			err = fmt.Errorf("%w: the peer runs %v, this process %v", errProtocol, m.Hello, own)
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

func (c *control) receiveAny() (m message, err error) {
	text, err := frame.Read(c.conn, func() int { return max(c.limit, int(c.report.Load())) })
	if err == nil {
		m, err = parse(text)
	}
	if err == nil && m.Report == nil && len(text) > c.limit {
		err = fmt.Errorf("%w: %s of %d bytes: must be at most %d", errProtocol, m.kind, len(text), c.limit)
	}
	return m, err
}

// parse decodes one message from b.
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
		return message{}, fmt.Errorf("%w: must be one object with one key, the type", errProtocol)
	}
	return m, nil
}

// awaitClosed waits until done is closed or d has passed. It reports whether done is closed.
func awaitClosed(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
