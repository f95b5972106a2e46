package floors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/tensor/pages"
)

// A link is a connection that moves bytes to and from another process.
type link interface {
	write(b []byte) error // writes all of b
	read(b []byte) error  // fills b
}

// A socket is a descriptor used with blocking system calls instead of Go's poller,
// because a floor measures the kernel. A blocked call occupies a thread.
type socket int

// socketBuffer is endpoint.SocketBuffer, the transports' buffer size.
const socketBuffer = 1 << 20

// errGone is returned if the other process has closed its end.
var errGone = errors.New("the other process has closed the link")

func (s socket) write(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(int(s), b)
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

func (s socket) read(b []byte) error {
	for len(b) > 0 {
		n, err := s.receive(b, unix.MSG_WAITALL)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// receive reads at least one byte; with MSG_WAITALL it fills b, unless a signal arrives.
func (s socket) receive(b []byte, flags int) (int, error) {
	for {
		n, _, err := unix.Recvfrom(int(s), b, flags)
		switch {
		case err == unix.EINTR:
		case err == unix.ECONNRESET || err == nil && n == 0:
			return 0, errGone
		case err != nil:
			return 0, fmt.Errorf("link: read: %w", err)
		default:
			return n, nil
		}
	}
}

// writeSizes are the sizes of writes to try.
var writeSizes = [...]int{64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20}

const streamPasses = 2 // samples per write size

// A streamRequest asks for Bytes in writes of Size or, if Back is set, announces them. The
// first eight bytes of a transfer are Number, which also acknowledges a transfer back.
type streamRequest struct {
	Size, Bytes, Number uint64
	Back                bool
}

const (
	streamRequestBytes = 25
	numberBytes        = 8
)

// A stream is one end of a stream floor.
type stream struct {
	*peer
	memory []byte
	number uint64 // number of the latest transfer
}

func newStream(p *peer, bytes int64) (*stream, error) {
	memory, err := mapped(max(bytes, numberBytes), pages.System)
	if err != nil {
		return nil, err
	}
	scramble(memory)
	return &stream{peer: p, memory: memory}, nil
}

// send writes b, which begins with the number.
func (s *stream) send(b []byte, size int) error {
	binary.LittleEndian.PutUint64(b, s.number)
	for len(b) > 0 {
		n := min(size, len(b))
		if err := s.write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// receive reads b, which must begin with the number.
func (s *stream) receive(b []byte) error {
	if err := s.read(b); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(b); got != s.number {
		return fmt.Errorf("transfer %d: got %d", s.number, got)
	}
	return nil
}

// transfer returns the time from the request until the last byte has arrived or, if back is
// set, is acknowledged.
func (s *stream) transfer(size, bytes int, back bool) (time.Duration, error) {
	s.number++
	request, err := binary.Append(nil, binary.LittleEndian, streamRequest{uint64(size), uint64(bytes), s.number, back})
	start := time.Now()
	if err == nil {
		err = s.write(request)
	}
	if back {
		if err == nil {
			err = s.send(s.memory[:bytes], size)
		}
		bytes = numberBytes
	}
	if err == nil {
		err = s.receive(s.memory[:bytes])
	}
	return time.Since(start), err
}

func receiveStream(p *peer) ([]Series, error) {
	return p.stream(modelBytes, modelBytes, writeSizes[:], streamPasses, false)
}

// For links with a rate. They are slower than any writer, so one size of writes is enough, and
// few transfers if they are slow.
const (
	slowWrites = 256 << 10
	slowTime   = time.Second // total time of the transfers in each direction
	slowFirst  = 8           // divisor of Bytes for the first transfer in each direction
	mostPasses = 10

	slowFar = 100 * time.Millisecond // longer transfers to another host count as slow
)

func slowPasses(takes time.Duration) int { return max(1, min(mostPasses, int(slowTime/takes))) }

func receiveBothWays(p *peer) ([]Series, error) { return p.bothWays(writeSizes[:], streamPasses) }

// receiveEncrypted omits large writes, because the encrypted bytes of a write should fit in a
// cache. One pass is enough, because TLS is slow.
func receiveEncrypted(p *peer) ([]Series, error) { return p.bothWays(writeSizes[:3], 1) }

func (p *peer) bothWays(sizes []int, passes int) ([]Series, error) {
	switch {
	case p.far:
		return p.stream(p.Bytes, p.Bytes/slowFirst, sizes, passes, true)
	case p.Takes == 0: // more passes for few bytes, which are fast but vary more
		return p.stream(p.Bytes, p.Bytes, sizes, int(min(max(int64(passes), modelBytes/p.Bytes), mostPasses)), true)
	}
	return p.stream(p.Bytes, p.Bytes/slowFirst, []int{slowWrites}, slowPasses(p.Takes), true)
}

// stream measures transfers of so many bytes, one series per size of writes and rest. Before
// them, an untimed transfer moves first bytes. With bothWays, it also measures each transfer back.
func (p *peer) stream(bytes, first int64, sizes []int, passes int, bothWays bool) ([]Series, error) {
	s, err := newStream(p, bytes)
	if err != nil {
		return nil, err
	}
	ways := []bool{false}
	if bothWays {
		ways = append(ways, true)
	}
	for _, back := range ways { // the first transfer waits until the other process has started
		took, err := s.transfer(1<<20, int(max(first, numberBytes)), back)
		if err != nil {
			return nil, err
		}
		if takes := took * slowFirst; p.far && back && takes > slowFar { // the second transfer, so the sender has started
			sizes, passes = []int{slowWrites}, slowPasses(takes)
		}
	}
	rests := []time.Duration{0}
	if p.Rest > 0 { // after a rest, large transfers are faster and small ones slower
		rests = append(rests, p.Rest)
	}
	series := make([]Series, len(sizes)*len(rests))
	for range passes {
		for i := range series {
			size, rest := sizes[i%len(sizes)], rests[i/len(sizes)]
			series[i].Variant = fmt.Sprintf("write=%d", size)
			if rest > 0 {
				series[i].Variant += Rested
			}
			for _, back := range ways {
				time.Sleep(rest)
				elapsed, err := s.transfer(size, len(s.memory), back)
				if err != nil {
					return nil, err
				}
				series[i].Samples = append(series[i].Samples, float64(len(s.memory))/elapsed.Seconds())
			}
		}
	}
	return series, nil
}

// sendStream carries out streamRequests until the link closes.
func sendStream(p *peer) ([]Series, error) {
	s, err := newStream(p, modelBytes)
	if err != nil {
		return nil, err
	}
	request := make([]byte, streamRequestBytes)
	for {
		if err := p.read(request); err != nil {
			return nil, err
		}
		var r streamRequest
		if _, err := binary.Decode(request, binary.LittleEndian, &r); err != nil {
			return nil, err
		}
		if r.Size == 0 || r.Bytes < numberBytes || r.Bytes > modelBytes {
			return nil, fmt.Errorf("invalid request for %d bytes in writes of %d", r.Bytes, r.Size)
		}
		s.number = r.Number
		if r.Back {
			if err = s.receive(s.memory[:r.Bytes]); err == nil {
				err = s.send(s.memory[:numberBytes], numberBytes)
			}
		} else {
			err = s.send(s.memory[:r.Bytes], int(r.Size))
		}
		if err != nil {
			return nil, err
		}
	}
}

// ping measures exchanges of one byte with pong.
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
