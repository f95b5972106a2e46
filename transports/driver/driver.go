// Package driver is the contract between ipcbench and the ways in which
// model tensors travel between a server (the aggregator) and its workers (the
// client trainers).
//
// A [Transport] makes a [Server] in one process and a [Worker] for each lane in
// others. A round through it:
//
//	server                                   worker of lane w
//	Publish the model, Reserve the next one
//	Dispatch(w, job)       -------------->   Receive
//	                                         Reserve, write the update
//	Collect(w)             <--------------   Submit
//	read the update, Release
//
// Rules that hold for every implementation:
//
//   - Calls only go down: a transport never calls its user back. Every wait is
//     inside a call that has a context.
//   - Memory is lent. Both sides write in place, into memory that the transport
//     reserved; one that cannot share memory lends heap memory that it reuses.
//   - A lane has one goroutine at each end. Calls for different lanes may be
//     concurrent; calls for one lane are not.
//   - A call that failed, or whose context ended, leaves its lane dead: half a
//     message may be on the wire. Only Shutdown or Close follows.
//   - In a steady round nothing is allocated that grows with the model, except
//     where the transport's package comment says so.
//
// The package also holds the settings of transports and the variants that users
// name on the command line. Package drivertest proves that an implementation
// keeps the contract.
package driver

import (
	"context"

	"ipcbench/phase"
	"ipcbench/tensor"
)

// Options are the same in every process of a session, but for Rec.
type Options struct {
	Down, Up *tensor.Layout  // of the global model and of an update
	Lanes    int             // workers, at least 1
	Clients  int             // clients a round, at least 0
	Depth    int             // updates of one lane that may be collected and not yet released, or in the making; at least 1
	Dir      string          // the session's private directory, which the caller makes and removes; the transport may create names in it
	Settings Settings        // of this transport: complete and checked
	Rec      *phase.Recorder // of the process; nil records nothing
}

// A Job is one client's turn in one round.
type Job struct {
	Round, Client int
	Weight        float64 // of the client's update in the average
	Device        string  // a label for the worker function: "cpu", "cuda:1"
	Config        []byte  // the client's own configuration; lent to the transport until Collect returns
	Timed         bool    // whether the round's samples count
}

// A Transport is one way in which models and updates travel. It holds no
// sessions: several may be live at once.
type Transport interface {
	// Name returns the name on the command line, such as "shm-slab".
	Name() string

	// Settings returns what can be set. Flags, help, validation and results all
	// come from this list.
	Settings() []Setting

	// Check reports what o asks for and this transport cannot carry on this
	// machine, naming both, before any process starts.
	Check(o Options) error

	// Footprint returns the bytes of memory that a session with o needs at its
	// peak, in all processes together, shared memory counted once.
	Footprint(o Options) int64

	// Listen starts the server's side. It must be ready for Dial on return. ctx
	// bounds the call, not the session. An error leaves nothing behind.
	Listen(ctx context.Context, o Options) (Server, error)

	// Dial connects lane to the server at addr, which is what its Addr returned.
	// ctx bounds the call, not the session. An error leaves nothing behind.
	Dial(ctx context.Context, addr string, lane int, o Options) (Worker, error)
}

// A Server is the aggregator's side of a session.
type Server interface {
	// Addr returns what a worker passes to Dial.
	Addr() string

	// Reserve returns a package of the Down layout where the next global model
	// is to be written. It never waits. Two models exist: the one that was
	// published last and the one that was reserved last. So a round publishes the
	// current model, which frees the one before, and then reserves the next.
	Reserve() (*tensor.Package, error)

	// Publish makes p the model of the jobs that follow. It takes p: the caller
	// must not write to it again, and may read it until the next Publish
	// returns. Every job of the model before has been collected. After an error
	// the session is dead.
	Publish(ctx context.Context, p *tensor.Package) error

	// Dispatch gives a client's job to a lane whose last job was collected and
	// which has fewer than Depth updates out. It never waits for the worker to
	// finish.
	Dispatch(ctx context.Context, lane int, j Job) error

	// Collect waits for the update of the job that was last dispatched to lane
	// and returns it, lent until the caller releases it. Collect without
	// Dispatch is an error.
	Collect(ctx context.Context, lane int) (*tensor.Package, error)

	// Shutdown ends the session in band: a Receive that has no job returns
	// io.EOF. It waits for the workers until ctx ends, and releases everything
	// either way. Its error says how many packages are still out; the memory of
	// those lives until they are released. A second call does nothing.
	Shutdown(ctx context.Context) error
}

// A Worker is one lane's end of a session.
type Worker interface {
	// Receive waits for the next job and its model. The model is lent, read-only,
	// until Submit. io.EOF means that the server has shut down.
	Receive(ctx context.Context) (Job, *tensor.Package, error)

	// Reserve returns a package of the Up layout where the update of the job last
	// received is to be written, every byte of it: what it holds is undefined.
	Reserve() (*tensor.Package, error)

	// Submit sends the update. It takes p and the model, also when it fails.
	Submit(ctx context.Context, p *tensor.Package) error

	// Close gives up the lane. A second call does nothing.
	Close() error
}

// InProcess is implemented by a transport that may be unable to leave the
// server's process. A driver gives such a one goroutines for workers.
type InProcess interface{ InProcess() bool }

// StaysInside reports whether t cannot leave the server's process.
func StaysInside(t Transport) bool {
	i, ok := t.(InProcess)
	return ok && i.InProcess()
}

// A Spinner is a transport whose workers may burn a processor while they wait.
type Spinner interface{ Spins(Settings) bool }

// Spins reports whether the workers of t burn a processor while they wait.
func Spins(t Transport, s Settings) bool {
	spinner, ok := t.(Spinner)
	return ok && spinner.Spins(s)
}

// A Settler is a Server whose workers ask for their jobs. Settle waits until every
// lane's worker has: then everything of the jobs before is over, and at both ends
// counted. It is called while no job is out.
type Settler interface {
	Settle(ctx context.Context) error
}

// A Pinger is a Worker that can exchange an empty request and an empty answer
// with its server over the connection that it has: the least that a call costs,
// and the floor of transports that make calls. It may be called whenever Receive
// or Submit may.
type Pinger interface {
	Ping(ctx context.Context) error
}
