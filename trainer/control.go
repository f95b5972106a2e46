package trainer

import (
	"bytes"
	"context"
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

// errProtocol is a message that its sender may not send.
var errProtocol = frame.ErrProtocol

// How large a message may be.
const (
	shortMessage = 512 << 10 // any except an assignment and a report
	longMessage  = 1 << 30
)

// control is one end of a control socket. Any goroutine may send, one receives.
type control struct {
	conn    net.Conn
	timeout time.Duration // of a send
	limit   int           // of what is received, except a report
	report  atomic.Int64  // limit of a report; zero until one is asked for
	met     bool          // the peer's hello has come

	mu sync.Mutex // one frame is written at a time
}

// sendTimeout bounds one message: the peer reads all the time.
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

func (c *control) receiveAny() (m message, err error) {
	text, err := frame.Read(c.conn, func() int { return max(c.limit, int(c.report.Load())) })
	if err == nil {
		m, err = parse(text)
	}
	if err == nil && m.Report == nil && len(text) > c.limit {
		err = fmt.Errorf("%w: %s of %d bytes: want at most %d", errProtocol, m.kind, len(text), c.limit)
	}
	return m, err
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
