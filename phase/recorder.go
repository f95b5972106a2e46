package phase

import (
	"math"
	"sync"
	"sync/atomic"
)

// A Recorder collects the samples and counters of one process. Any goroutine may record;
// an atomic add reserves the slot, and nothing is allocated. If the recorder is full,
// further samples are dropped and counted. A nil Recorder records nothing at almost no
// cost.
type Recorder struct {
	samples []Sample
	next    atomic.Int64 // reserved slots; may exceed len(samples)

	from, until atomic.Int64 // samples of rounds from ≤ round < until are kept; at first all

	profiling *profiling // nil unless goroutines are labelled; set before recording starts

	mu       sync.Mutex // guards counters; transports look them up during set-up only
	counters map[string]*Counter
}

// NewRecorder returns a recorder with room for n samples. It touches their memory.
func NewRecorder(n int) *Recorder {
	r := &Recorder{samples: make([]Sample, n), counters: map[string]*Counter{}}
	r.From(0)
	for i := range r.samples {
		r.samples[i].Phase = None // touches the page now instead of in a round
	}
	return r
}

// A Span is a measurement in progress. It is a value, so starting one allocates nothing.
type Span struct {
	r     *Recorder
	id    ID
	start int64
	phase Phase
	mark  bool   // only labels the goroutine, records nothing
	outer labels // the goroutine's labels before the span, if goroutines are labelled
}

// Begin starts a span of phase p that belongs to id.
func (r *Recorder) Begin(p Phase, id ID) Span {
	if r == nil {
		return Span{}
	}
	s := Span{r: r, id: id, phase: p, start: Now()}
	if r.profiling != nil {
		s.outer = goroutineLabels()
		setGoroutineLabels(r.profiling[p])
	}
	return s
}

// End records the span, and restores the goroutine's labels. It may only be called once,
// by the goroutine that called Begin.
func (s Span) End() {
	if s.r == nil {
		return
	}
	if s.r.profiling != nil {
		setGoroutineLabels(s.outer)
		if s.mark {
			return
		}
	}
	s.r.Add(s.phase, s.id, s.start, Now())
}

// EndAs records the span as part of id, for work whose ID is only known at its end.
func (s Span) EndAs(id ID) {
	s.id = id
	s.End()
}

// Add records a span with the given times, which are readings of [Now].
func (r *Recorder) Add(p Phase, id ID, start, end int64) { r.add(Timed(p, id, start, end)) }

// AddSum records sum nanoseconds of phase p as one sample. They were spent in several
// spans since start, with other phases in between. See [Sample.Summed].
func (r *Recorder) AddSum(p Phase, id ID, start, sum int64) {
	s := Timed(p, id, start, start+sum)
	s.Summed = true
	r.add(s)
}

func (r *Recorder) add(s Sample) {
	if r == nil || !r.keeps(int64(s.Round)) {
		return
	}
	if i := r.next.Add(1) - 1; i < int64(len(r.samples)) {
		r.samples[i] = s
	}
}

func (r *Recorder) keeps(round int64) bool {
	until := r.until.Load()
	if round < 0 {
		return until == math.MaxInt64
	}
	return round < until && round >= r.from.Load()
}

// Drain returns a copy of all samples and the number of dropped ones, and empties r.
// Nothing may be recorded meanwhile.
func (r *Recorder) Drain() (samples []Sample, lost int) {
	if r == nil {
		return nil, 0
	}
	n := min(r.next.Load(), int64(len(r.samples)))
	lost = int(r.next.Load() - n)
	samples = append(samples, r.samples[:n]...)
	r.next.Store(0)
	return samples, lost
}

// From keeps samples of the given and later rounds, and samples that belong to no round.
func (r *Recorder) From(round int) {
	if r != nil {
		r.from.Store(int64(round))
		r.until.Store(math.MaxInt64)
	}
}

// Until drops samples of the given and later rounds, and samples that belong to no
// round, so that they use no room. Samples of earlier rounds are kept, even if they are
// recorded later.
func (r *Recorder) Until(round int) {
	if r != nil {
		r.until.Store(int64(round))
	}
}

// Full reports whether more than the given share of the room is used. share is between 0
// and 1.
func (r *Recorder) Full(share float64) bool {
	return r != nil && float64(r.Len()) > share*float64(len(r.samples))
}

// Len returns the number of samples; 0 for a nil Recorder.
func (r *Recorder) Len() int {
	if r == nil {
		return 0
	}
	return int(min(r.next.Load(), int64(len(r.samples))))
}

// A Counter counts calls, bytes or events of one kind in one process. A nil Counter, as
// a nil Recorder returns it, counts nothing.
type Counter struct{ n atomic.Int64 }

// Add adds n, which may be negative.
func (c *Counter) Add(n int) {
	if c != nil {
		c.n.Add(int64(n))
	}
}

// Counter returns the counter with the given name, and makes it if needed. Transports
// should call it in Listen and Dial, not in a round. Names are constants of this
// package.
func (r *Recorder) Counter(name string) *Counter {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counters[name]
	if c == nil {
		c = &Counter{}
		r.counters[name] = c
	}
	return c
}

// Counts returns the values of all counters by name.
func (r *Recorder) Counts() map[string]int64 {
	counts := map[string]int64{}
	if r == nil {
		return counts
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, c := range r.counters {
		counts[name] = c.n.Load()
	}
	return counts
}

// Names of counters with the same meaning in every transport. Names that end in a dot
// are prefixes.
const (
	WireSent      = "wire.sent"      // bytes written to a socket or file
	WireReceived  = "wire.received"  // bytes read from a socket or file
	Calls         = "calls."         // + method: requests made, counted by the client
	Served        = "served."        // + method: requests answered, counted by the server
	HandleTensors = "handle.tensors" // tensors passed as a handle to memory that the receiver maps
	HandleBytes   = "handle.bytes"   // bytes of these tensors
	BodyTensors   = "body.tensors"   // tensors whose bytes were moved
	BodyBytes     = "body.bytes"     // bytes of these tensors
	Fallback      = "fallback."      // + reason: tensors sent as bodies although the transport uses shared memory
	Copied        = "copied"         // bytes of tensors that ipcbench itself declares to have copied in user space
	CacheHits     = "cache.hits"     // tensors that a worker found in its cache
	CacheBytes    = "cache.bytes"    // bytes in workers' caches now: goes up and down

	Dialled  = "connections.dialled"  // connections that workers opened
	Accepted = "connections.accepted" // connections that the server accepted
	DialTime = "connections.ns"       // nanoseconds that workers waited for connections used by a single call
	Refused  = "connections.refused"  // connections that the server rejected
	Retries  = "retries"              // failed attempts at calls; Calls counts a call once, when it succeeds

	InService = "service." // + number: requests by the number in progress when each began, itself included
	Queued    = "queued"   // requests that waited because the server limits requests in progress

	Handshakes    = "tls.handshakes" // TLS handshakes that workers made
	HandshakeTime = "tls.ns"         // nanoseconds spent in these handshakes

	// Counters of codecs, counted by the server. Names with Wire count everything sent,
	// including lengths of tensors.
	CodecDownPayload = "codec.down.payload" // bytes of models before encoding
	CodecDownWire    = "codec.down.wire"    // bytes of the same models after encoding
	CodecUpPayload   = "codec.up.payload"   // bytes of updates before encoding
	CodecUpWire      = "codec.up.wire"      // bytes of the same updates after encoding
	CodecFull        = "codec.full."        // + reason (first or missed): full versions of models, for lanes without the base
	CodecFullBytes   = CodecFull + "bytes"  // bytes of these models
	CodecSame        = "codec.same"         // jobs without a model, for lanes that have it already
	CodecPlain       = "codec.plain"        // tensors sent without encoding, in either direction
	CodecUnchanged   = "codec.unchanged"    // unchanged tensors, of which nothing was sent, in either direction
)

// Fetches reports whether a call of method fetches tensors of the model. method is the
// part of a counter's name after [Calls].
func Fetches(method string) bool {
	switch method {
	case "GetAggregatedTensor", "GetAggregatedTensors", "StreamAggregatedTensors", "batch":
		return true
	}
	return false
}
