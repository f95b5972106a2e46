package floors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// The socket is used by blocking system calls, not through Go's poller: a floor
// is what the kernel can do. A blocked call holds a thread, as a socket has no
// better way to be waited for.

// socketBuffer is that of the transports (driver.SocketBuffer).
const socketBuffer = 1 << 20

// errGone says that the other process has closed its end.
var errGone = errors.New("the other process has closed the link")

func (p *peer) write(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(p.link, b)
		switch {
		case err == unix.EINTR:
		case err == unix.EPIPE || err == unix.ECONNRESET:
			return errGone
		case err != nil:
			return fmt.Errorf("link: write: %w", err)
		default:
			b = b[n:]
		}
	}
	return nil
}

func (p *peer) read(b []byte) error {
	for len(b) > 0 {
		n, _, err := unix.Recvfrom(p.link, b, unix.MSG_WAITALL)
		switch {
		case err == unix.EINTR:
		case err == unix.ECONNRESET || err == nil && n == 0:
			return errGone
		case err != nil:
			return fmt.Errorf("link: read: %w", err)
		default:
			b = b[n:]
		}
	}
	return nil
}

// writeSizes are how much unix-stream hands to one write.
func writeSizes() []int {
	return []int{64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20}
}

const streamPasses = 2 // samples a write size

// A streamRequest asks for modelBytes in writes of the given size. Their first eight
// bytes are the number.
type streamRequest struct{ Size, Number uint64 }

const streamRequestBytes = 16

// receiveStream times from asking for the bytes until the last one is there.
func receiveStream(p *peer) ([]Series, error) {
	dst, err := mapped(modelBytes)
	if err != nil {
		return nil, err
	}
	scramble(dst)
	number := uint64(0)
	transfer := func(size int) (time.Duration, error) {
		number++
		request, err := binary.Append(nil, binary.LittleEndian, streamRequest{Size: uint64(size), Number: number})
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if err := p.write(request); err != nil {
			return 0, err
		}
		if err := p.read(dst); err != nil {
			return 0, err
		}
		elapsed := time.Since(start)
		if got := binary.LittleEndian.Uint64(dst); got != number {
			return 0, fmt.Errorf("asked for transfer %d, got %d", number, got)
		}
		return elapsed, nil
	}
	if _, err := transfer(1 << 20); err != nil { // the first one waits for the sender's start
		return nil, err
	}
	sizes := writeSizes()
	series := make([]Series, len(sizes))
	for range streamPasses {
		for i, size := range sizes {
			elapsed, err := transfer(size)
			if err != nil {
				return nil, err
			}
			series[i].Variant = fmt.Sprintf("write=%d", size)
			series[i].Samples = append(series[i].Samples, modelBytes/elapsed.Seconds())
		}
	}
	return series, nil
}

func sendStream(p *peer) ([]Series, error) {
	src, err := mapped(modelBytes)
	if err != nil {
		return nil, err
	}
	scramble(src)
	request := make([]byte, streamRequestBytes)
	for {
		if err := p.read(request); err != nil {
			return nil, err
		}
		var r streamRequest
		if _, err := binary.Decode(request, binary.LittleEndian, &r); err != nil {
			return nil, err
		}
		if r.Size == 0 || r.Size > modelBytes {
			return nil, fmt.Errorf("asked for writes of %d bytes", r.Size)
		}
		binary.LittleEndian.PutUint64(src, r.Number)
		for rest := src; len(rest) > 0; {
			n := min(int(r.Size), len(rest))
			if err := p.write(rest[:n]); err != nil {
				return nil, err
			}
			rest = rest[n:]
		}
	}
}

// ping times exchanges of a byte; pong answers.
func ping(p *peer) ([]Series, error) {
	b := make([]byte, 1)
	return p.exchanges(func(i int) error {
		b[0] = byte(i)
		if err := p.write(b); err != nil {
			return err
		}
		if err := p.read(b); err != nil {
			return err
		}
		if b[0] != byte(i) {
			return fmt.Errorf("sent %d, got %d", byte(i), b[0])
		}
		return nil
	})
}

func pong(p *peer) ([]Series, error) {
	b := make([]byte, 1)
	for {
		if err := p.read(b); err != nil {
			return nil, err
		}
		if err := p.write(b); err != nil {
			return nil, err
		}
	}
}
