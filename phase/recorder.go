package phase

import (
	"math"
	"sync"
	"sync/atomic"
)

// A Recorder collects the samples and counters of one process. Any goroutine
// may record; a slot is claimed by one atomic add, and nothing is allocated.
// When the recorder is full, further samples are dropped and counted. A nil
// Recorder records nothing and costs next to nothing.
type Recorder struct {
	samples []Sample
	next    atomic.Int64 // slots claimed, may exceed len(samples)

	from, until atomic.Int64 // the rounds whose samples are kept, until excluded; all of them at first

	profiling *profiling // nil unless goroutines are labelled; set before anybody records

	mu       sync.Mutex // guards counters, which are looked up while setting up
	counters map[string]*Counter
}

// NewRecorder returns a recorder with room for n samples, its memory touched.
func NewRecorder(n int) *Recorder {
	r := &Recorder{samples: make([]Sample, n), counters: map[string]*Counter{}}
	r.From(0)
	for i := range r.samples {
		r.samples[i].Phase = None // the first touch of a page belongs to set-up
	}
	return r
}

// A Span is a running measurement. It is a value: starting one allocates
// nothing.
type Span struct {
	r     *Recorder
	id    ID
	start int64
	phase Phase
	mark  bool   // labels only: nothing is recorded
	outer labels // of the goroutine before the span, where goroutines are labelled
}

// Begin starts a span of phase p.
func (r *Recorder) Begin(p Phase, id ID) Span {
	if r == nil {
		return Span{}
	}
	s := Span{r: r, id: id, phase: p, start: Now()}
	if r.profiling != nil {
		s.outer = goroutineLabels()
		setGoroutineLabels(r.profiling.phases[p])
	}
	return s
}

// End records the span. A span may be ended once, by the goroutine that began
// it, which then is in the phase again in which it was before.
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

// EndAs is End for work that turned out to be id's only after it had begun.
func (s Span) EndAs(id ID) {
	s.id = id
	s.End()
}

// Add records a span that was timed by other means.
func (r *Recorder) Add(p Phase, id ID, start, end int64) { r.add(Timed(p, id, start, end)) }

// AddSum records the sum of the laps that work of phase p took between start and
// now, with other phases between them. See [Sample.Summed].
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

// Drain returns a copy of all samples and how many were lost, and empties r.
// The caller makes sure that nobody is recording.
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

// From keeps the samples of the rounds from round on, and those of no round.
func (r *Recorder) From(round int) {
	if r != nil {
		r.from.Store(int64(round))
		r.until.Store(math.MaxInt64)
	}
}

// Until drops the samples of the rounds from round on, and those of no round, as
// they come: what is not of interest takes no room. A sample of an earlier round
// is kept, however late it comes.
func (r *Recorder) Until(round int) {
	if r != nil {
		r.until.Store(int64(round))
	}
}

// Full reports whether more than the given share of the room is taken.
func (r *Recorder) Full(share float64) bool {
	return r != nil && float64(r.Len()) > share*float64(len(r.samples))
}

// Len returns how many samples are held, none in a nil Recorder.
func (r *Recorder) Len() int {
	if r == nil {
		return 0
	}
	return int(min(r.next.Load(), int64(len(r.samples))))
}

// A Counter counts calls, bytes or events of one kind in one process. A nil
// Counter, which is what a nil Recorder gives, counts nothing.
type Counter struct{ n atomic.Int64 }

// Add adds n.
func (c *Counter) Add(n int) {
	if c != nil {
		c.n.Add(int64(n))
	}
}

// Counter returns the counter called name, made on first use. Transports look
// their counters up in Listen and Dial, not in a round. The names in use are
// constants of this package.
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

// Counts returns the value of every counter.
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

// Names of counters that mean the same in every transport. Names that end in a
// dot are prefixes.
const (
	WireSent      = "wire.sent"      // bytes handed to a socket or file
	WireReceived  = "wire.received"  // bytes taken from a socket or file
	Calls         = "calls."         // + method: requests made, counted by the client
	Served        = "served."        // + method: requests answered, counted by the server
	HandleTensors = "handle.tensors" // tensors that travelled as a handle to memory that the receiver maps
	HandleBytes   = "handle.bytes"   // their bytes
	BodyTensors   = "body.tensors"   // tensors whose bytes were moved
	BodyBytes     = "body.bytes"     // their bytes
	Fallback      = "fallback."      // + reason: tensors that did not go the way the transport is named for
	Copied        = "copied"         // tensor bytes copied in user space by our own code
	CacheHits     = "cache.hits"     // tensors that a worker had fetched before and kept
	CacheBytes    = "cache.bytes"    // bytes that workers keep now: goes up and down

	Dialled  = "connections.dialled"  // connections that workers opened
	Accepted = "connections.accepted" // connections that the server accepted
	DialTime = "connections.ns"       // nanoseconds that workers waited for connections of single calls
	Refused  = "connections.refused"  // connections that the server refused
	Retries  = "retries"              // calls that workers made again, and that are no calls until they succeed

	InService = "service." // + number: requests by how many the server worked on when it began with them, themselves included
	Queued    = "queued"   // requests that waited for a thread of a server that bounds them

	Handshakes    = "tls.handshakes" // TLS handshakes that workers made
	HandshakeTime = "tls.ns"         // nanoseconds that they took

	// What codecs do, counted by the server. Wire holds what travels besides tensors,
	// such as their lengths.
	CodecDownPayload = "codec.down.payload" // bytes of models that went encoded, before that
	CodecDownWire    = "codec.down.wire"    // and after it
	CodecUpPayload   = "codec.up.payload"   // bytes of updates, before encoding
	CodecUpWire      = "codec.up.wire"      // and after it
	CodecFull        = "codec.full."        // + reason, first or missed: models that went whole, to lanes without the version to go from
	CodecFullBytes   = CodecFull + "bytes"  // their bytes
	CodecSame        = "codec.same"         // jobs without a model, to lanes that have it
	CodecPlain       = "codec.plain"        // tensors that went as they are, both ways
	CodecUnchanged   = "codec.unchanged"    // tensors of which nothing went, both ways
)

// Fetches reports whether calls of a method, as it stands after [Calls], bring tensors
// of the model to a worker.
func Fetches(method string) bool {
	switch method {
	case "GetAggregatedTensor", "GetAggregatedTensors", "StreamAggregatedTensors", "batch":
		return true
	}
	return false
}
