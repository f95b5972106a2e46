// Package phase says what ipcbench times and how: the phases of a round, the
// samples, one clock for all processes of a machine, and the recorder into
// which any goroutine writes without a lock.
//
// Package phase imports nothing of ours. It knows no transport and computes no
// statistics.
package phase

import "fmt"

// A Phase is a part of a round. The phases of the server's and the worker's
// calls enclose those that a transport records inside them.
type Phase uint8

// The phases, in the order in which a tensor meets them.
const (
	None          Phase = iota
	Spawn               // server: starting the workers, where every round has its own
	Reserve             // server: reserving the memory of the next model
	Publish             // server: handing the current model to the transport
	Dispatch            // server: giving a client's job to a lane
	Receive             // worker: waiting for, receiving and decoding job and model
	ReserveUpdate       // worker: reserving the memory of the update
	Attach              // worker: putting Go values together, of the model and of the update's memory; inside of train
	Train               // worker: the worker function
	Detach              // taking a Go value apart, into a receipt and tensors: the server before publish, the worker inside of train
	Submit              // worker: encoding and sending the update
	Collect             // server: waiting for, receiving and decoding the update
	Reconstruct         // server: putting the Go value of an update together
	Fold                // server: adding the update to the next model
	Release             // server: giving the update's memory back
	Stop                // server: ending the workers, where every round has its own
	Encode              // transport: making bytes of tensors
	Send                // transport: moving bytes out
	Wait                // transport: waiting for the peer
	Queue               // transport: a request that waits for a free handler
	Read                // transport: moving bytes in
	Decode              // transport: making tensors of bytes
	Copy                // transport: copying between heap and shared memory
	Compress            // transport: a codec that makes less of tensors
	Expand              // transport: a codec that makes tensors again
	lastPhase     = Expand
)

var names = [lastPhase + 1]string{
	"none", "spawn", "reserve", "publish", "dispatch", "receive", "reserve-update", "attach", "train", "detach", "submit", "collect",
	"reconstruct", "fold", "release", "stop",
	"encode", "send", "wait", "queue", "read", "decode", "copy", "compress", "expand",
}

// Phases returns all phases but None, in order.
func Phases() []Phase {
	all := make([]Phase, 0, lastPhase)
	for p := None + 1; p <= lastPhase; p++ {
		all = append(all, p)
	}
	return all
}

// String returns the phase's name as it stands in results and profiles.
func (p Phase) String() string {
	if p > lastPhase {
		return fmt.Sprintf("phase(%d)", uint8(p))
	}
	return names[p]
}

// Inside reports whether the phase is a part of a transport's work, recorded
// inside the phase of a call.
func (p Phase) Inside() bool { return p >= Encode }

// Worker reports whether a worker records the phase: a part of a lane's work.
func (p Phase) Worker() bool { return p >= Receive && p <= Submit }

// An ID says whose work is timed. Lane, Round or Client is -1 where the work
// belongs to no single one.
type ID struct{ Lane, Round, Client int }

// Whole is the ID of work that belongs to a round as a whole.
func Whole(round int) ID { return ID{Lane: -1, Round: round, Client: -1} }

// A Sample is one timed span. Start and End are readings of [Now]. Round, Client
// and Lane are -1 as those of [ID] are.
type Sample struct {
	Start, End int64
	Round      int32
	Client     int32
	Lane       int16
	Phase      Phase
	// Summed: the span is the sum of laps between which other phases had their own.
	// End-Start is how long they took together. Start and End are no interval: the
	// sample counts in sums, and is never drawn.
	Summed bool
}

// Timed returns the sample of a span of phase p.
func Timed(p Phase, id ID, start, end int64) Sample {
	return Sample{Start: start, End: end, Round: int32(id.Round), Client: int32(id.Client), Lane: int16(id.Lane), Phase: p}
}

// A Piece is the profile of one kind that a process took, from one start of it to the
// next stop.
type Piece struct {
	Kind string `json:"kind"`
	Data []byte `json:"data,omitempty"`
	// Before is the same profile at Start, for kinds that count from the start of
	// the process; nil for others.
	Before []byte `json:"before,omitempty"`
}
