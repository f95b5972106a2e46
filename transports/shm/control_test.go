package shm

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// boxes returns both ends of a control area on the heap.
func boxes(t testing.TB, spin bool) (*outbox, *inbox) {
	t.Helper()
	mem := make([]byte, messageAt+256)
	o := check.Value(newOutbox(mem, !spin))(t)
	i := check.Value(newInbox(mem, spin))(t)
	return o, i
}

func TestMailbox(t *testing.T) {
	for _, spin := range []bool{false, true} {
		o, i := boxes(t, spin)
		o.sent, i.read = over-3, over-3 // so that the numbers wrap around
		o.sequence.Store(over - 3)
		for n := range 10 {
			want := bytes.Repeat([]byte{byte(n)}, n*25)
			posted := make(chan error, 1)
			go func() { posted <- o.post(copy(o.message, want)) }()
			got := check.Value(i.fetch(t.Context()))(t)
			check.Must(t, <-posted)
			check.That(t, bytes.Equal(got, want), "message %d: got %d bytes %v, want %d", n, len(got), got, len(want))
		}
		check.Must(t, o.end())
		for range 2 {
			_, err := i.fetch(t.Context())
			check.Is(t, err, errOver)
		}
	}
}

// TestMailboxWaitEnds: a wait ends with its context, and when the peer leaves.
func TestMailboxWaitEnds(t *testing.T) {
	for _, spin := range []bool{false, true} {
		_, i := boxes(t, spin)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting.Later(t, time.Millisecond, func() { cancel(cause) })
		_, err := i.fetch(ctx)
		check.Is(t, err, cause)
		waiting.Later(t, time.Millisecond, i.abandon)
		_, err = i.fetch(t.Context())
		isGone(t, "fetch", err)
	}
}

// TestMailboxDeliversBeforeTheEnd: a message that the peer posted before it left still
// arrives.
func TestMailboxDeliversBeforeTheEnd(t *testing.T) {
	o, i := boxes(t, false)
	check.Must(t, o.post(copy(o.message, "last words")))
	i.abandon()
	got := check.Value(i.fetch(t.Context()))(t)
	check.Equal(t, string(got), "last words")
	_, err := i.fetch(t.Context())
	isGone(t, "fetch", err)
}

func TestMailboxRefusesNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		sequence, length uint32
		want             error
	}{
		"skipped":    {2, 0, errSequence},
		"went back":  {over - 1, 0, errSequence},
		"too long":   {1, 257, errLength},
		"very long":  {1, 1<<32 - 1, errLength},
		"just right": {1, 256, nil},
	} {
		o, i := boxes(t, false)
		o.length.Store(c.length)
		o.sequence.Store(c.sequence)
		_, err := i.fetch(t.Context())
		check.Is(t, err, c.want, name)
	}
}

// FuzzMailbox: whatever a peer writes to its control area, it is read within bounds.
func FuzzMailbox(f *testing.F) {
	good := make([]byte, messageAt+64)
	good[sequenceAt], good[lengthAt] = 1, 64
	f.Add(good)
	f.Add(make([]byte, messageAt))
	long := bytes.Clone(good)
	long[lengthAt+3] = 0xff
	f.Add(long)
	f.Fuzz(func(t *testing.T, area []byte) {
		if len(area) > 1<<16 {
			return
		}
		i, err := newInbox(bytes.Clone(area), false)
		if err != nil {
			return
		}
		i.abandon() // no message will be posted
		b, err := i.fetch(t.Context())
		check.That(t, err != nil || len(b) <= len(area)-messageAt, "%d bytes out of %d", len(b), len(area))
	})
}

// A message is an order or a result.
type message interface {
	put([]byte) (int, error)
	parse([]byte) error
}

func TestMessages(t *testing.T) {
	o := &order{
		job:    driver.Job{Round: -1, Client: 1 << 40, Weight: 0.1, Device: "cuda:1", Config: []byte("config"), Timed: true},
		model:  slab.Handle{Offset: 64, Length: 128, Generation: 1 << 60, Index: 9},
		update: slab.Handle{Offset: 1 << 50, Length: 1, Generation: 3},
		rows:   []byte("rows"), receipt: []byte("receipt"),
	}
	r := &result{update: o.update, rows: []byte("rows"), receipt: []byte("receipt")}
	for _, c := range []struct {
		sent, got message
		receipt   *[]byte
	}{{o, &order{}, &o.receipt}, {r, &result{}, &r.receipt}} {
		b := make([]byte, 400)
		n := check.Value(c.sent.put(b))(t)
		check.Must(t, c.got.parse(b[:n]))
		check.Equal(t, c.got, c.sent)
		for cut := range n + 2 {
			if cut != n {
				err := c.got.parse(b[:cut])
				check.Is(t, err, errMessage, cut, "of", n, "bytes")
			}
		}
		*c.receipt = make([]byte, len(b)-n+len("receipt")+1)
		check.Fails(t, check.Err(c.sent.put(b)), "the limit is", "a byte too many")
	}
}

// fuzz checks that an accepted message encodes to the same bytes.
func fuzz(f *testing.F, seed message, fixed int, empty func() message) {
	b := make([]byte, 400)
	n := check.Value(seed.put(b))(f)
	f.Add(b[:n])
	f.Add(b[:fixed])
	odd := bytes.Clone(b[:n])
	odd[24] = 0xff // unknown flags of an order
	f.Add(odd)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, again := empty(), make([]byte, len(b))
		if m.parse(b) != nil {
			return
		}
		n := check.Value(m.put(again))(t)
		check.That(t, bytes.Equal(again[:n], b), "%x came back as %x", b, again[:n])
	})
}

func FuzzOrder(f *testing.F) {
	seed := &order{job: driver.Job{Device: "cpu", Config: []byte("c")}, rows: []byte{1, 2}, receipt: []byte("r")}
	fuzz(f, seed, orderFixed, func() message { return &order{} })
}

func FuzzResult(f *testing.F) {
	fuzz(f, &result{rows: []byte{1, 2}, receipt: []byte("r")}, resultFixed-1, func() message { return &result{} })
}
