// Package phase defines the phases of a round, their samples, a shared clock and a recorder.
//
// Spans and counts enter a [Recorder]; [Sample]s and totals by name leave it. All processes of a
// machine share the clock. Any goroutine can write to the recorder without a lock. The package
// depends on no transport and computes no statistics.
package phase

import "fmt"

// A Phase is a named step of a round. The phases that a transport records are inside the
// phases of calls at the server or worker.
type Phase uint8

// The phases, in the order in which a tensor passes through them.
const (
	None          Phase = iota
	Spawn               // server: starting the workers, if every round starts its own
	Reserve             // server: reserving the memory of the next model
	Publish             // server: passing the current model to the transport
	Dispatch            // server: giving a client's job to a lane
	Receive             // worker: waiting for, receiving and decoding job and model
	ReserveUpdate       // worker: reserving the memory of the update
	Attach              // worker: building Go values of the model and of the update's memory; inside Train
	Train               // worker: the worker function
	Detach              // splitting a Go value into a receipt and tensors: at the server before Publish, at a worker inside Train
	Submit              // worker: encoding and sending the update
	Collect             // server: waiting for, receiving and decoding the update
	Reconstruct         // server: putting the Go value of an update together
	Fold                // server: rebuilding the Go value of an update
	Release             // server: giving the update's memory back
	Stop                // server: ending the workers, if every round starts its own
	Encode              // transport: encoding tensors as bytes
	Send                // transport: sending bytes
	Wait                // transport: waiting for the peer
	Queue               // transport: waiting of a request for a free handler
	Read                // transport: receiving bytes
	Decode              // transport: decoding bytes to tensors
	Copy                // transport: copying between heap and shared memory
	Compress            // transport: compressing tensors with a codec
	Expand              // transport: restoring tensors with a codec
	lastPhase     = Expand
)

var names = [lastPhase + 1]string{
	"none", "spawn", "reserve", "publish", "dispatch", "receive", "reserve-update", "attach", "train", "detach", "submit", "collect",
	"reconstruct", "fold", "release", "stop",
	"encode", "send", "wait", "queue", "read", "decode", "copy", "compress", "expand",
}

// Phases returns all phases except None, in order.
func Phases() []Phase {
	all := make([]Phase, 0, lastPhase)
	for p := None + 1; p <= lastPhase; p++ {
		all = append(all, p)
	}
	return all
}

// String returns the phase's name in results and profiles.
func (p Phase) String() string {
	if p > lastPhase {
		return fmt.Sprintf("phase(%d)", uint8(p))
	}
	return names[p]
}

// Inside reports whether transports record the phase, inside the phase of a call.
func (p Phase) Inside() bool { return p >= Encode }

// Worker reports whether workers record the phase of a call.
func (p Phase) Worker() bool { return p >= Receive && p <= Submit }

// An ID identifies the work that is timed. A field is -1 if the work belongs to no
// single lane, round or client.
type ID struct{ Lane, Round, Client int }

// OfRound returns the ID of work that belongs to a round, but to no lane or client.
func OfRound(round int) ID { return ID{Lane: -1, Round: round, Client: -1} }

// A Sample is one timed span. Start and End are readings of [Now], in nanoseconds.
// Round, Client and Lane are as in [ID].
type Sample struct {
	Start, End int64
	Round      int32
	Client     int32
	Lane       int16
	Phase      Phase
	// Summed marks a sample that sums several spans with other phases in between.
	// End-Start is that sum, so Start and End are not an interval: such samples count in
	// sums and are never drawn.
	Summed bool
}

// Timed returns the sample of a span of phase p that belongs to id.
func Timed(p Phase, id ID, start, end int64) Sample {
	return Sample{Start: start, End: end, Round: int32(id.Round), Client: int32(id.Client), Lane: int16(id.Lane), Phase: p}
}

// A Piece is one profile of a process, from one start of profiling to the next stop.
type Piece struct {
	Kind string `json:"kind"`
	Data []byte `json:"data,omitempty"`
	// Before is the same profile at the start, for kinds that count from the start of
	// the process; nil for other kinds.
	Before []byte `json:"before,omitempty"`
}
