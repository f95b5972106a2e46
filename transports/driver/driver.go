// Package driver is the contract between ipcbench and the ways in which model
// tensors travel between a server (the aggregator) and its workers (the client
// trainers). A family of transports implements it; package transports, which stands
// between a driver and its users, keeps the rules that are the same for all.
//
// A [Transport] makes a [Server] in one process and a [Worker] for each lane in
// others. A round through it:
//
//	server                                   worker of lane w
//	Publish the model, Reserve the next one
//	Dispatch(w, model, job)  ------------>   Receive
//	                                         Reserve, write the update
//	Collect(w)               <------------   Submit
//	read the update, Release
//
// Rules that hold for every driver:
//
//   - Calls only go down: a driver never calls its user back. Every wait is inside a
//     call that has a context.
//   - Memory is lent. Both sides write in place, into memory that the driver
//     reserved; one that cannot share memory lends heap memory that it reuses.
//   - There are two models. Each stays published, and what it is, until it is reserved
//     again; so both may be published at once, and a job names its own.
//   - A driver whose protocol others speak, too, may serve them what an encoded model
//     decodes to, as long as the model is published: see [tensor.Package].
//   - A tensor whose length varies has a place for all of its rows and travels with
//     those in use. How many they are goes beside it ([tensor.Package.AppendRows]),
//     and is checked before use.
//   - Each delivered tensor is counted: Receive and Collect say how it came. What a
//     driver counts besides, and the spans that it records inside a call, are its own.
//   - In a steady round nothing is allocated that grows with the model, except where
//     the driver's package comment says so.
//   - Errors are bare causes. The transport, the lane, the act and the job are named
//     by whoever called.
//
// What a driver may assume: the lane exists and has one goroutine at each end; at most
// one job is out on a lane; its model is published, and reserved again only when every
// job with it was collected; the package that is published or submitted is the one that
// was reserved last; one goroutine at a time reserves and publishes models, which may
// be while jobs with the other model are out and calls for their lanes are going on.
// After a call that has failed, or whose context has ended, a worker hears nothing but
// Close; a server nothing for that lane, and if it was for all lanes, nothing but
// Shutdown. Shutdown and Close come once, while no other call is running.
//
// Package drivertest proves that a driver keeps the contract.
package driver

import (
	"context"

	"ipcbench/phase"
	"ipcbench/tensor"
)

// Options are the same in every process of a session, but for the last three.
type Options struct {
	Down, Up *tensor.Layout  // of the global model and of an update
	Lanes    int             // at least 1
	Clients  int             // a round, at least 0
	Depth    int             // updates of one lane that may be collected and not yet released, or in the making; at least 1
	Settings Settings        // of this transport: complete and checked
	Rec      *phase.Recorder // of the process; nil records nothing
	Out      *tensor.Ledger  // in which the server lends the updates that Collect returns
	Folders  Folders         // in which the process may open what a setting names
}

// A Job is one client's turn in one round.
type Job struct {
	Round, Client int
	Weight        float64 // of the client's update in the average
	Device        string  // a label for the worker function: "cpu", "cuda:1"
	Config        []byte  // the client's own configuration; lent to the driver until Collect returns, and to the worker until Submit
	Timed         bool    // whether the round's samples count
}

// ID says whose work is timed that is done for j on lane.
func (j Job) ID(lane int) phase.ID { return phase.ID{Lane: lane, Round: j.Round, Client: j.Client} }

// Traits are what a transport is, whatever it is asked to carry.
type Traits struct {
	Reach  Reach
	Folder string // in which both ends must see the same files, unless they are on one host; empty is none
	Spins  bool   // its workers burn a processor while they wait
	Calls  bool   // it makes calls, so that Ping has a meaning
}

// A Reach is how far from its server a worker may be.
type Reach uint8

// The reaches, each of which includes those before it.
const (
	Process Reach = iota // in the server's process
	Host                 // in any process of the server's machine
	Network              // wherever the server can be dialled from
)

// A Transport is one way in which models and updates travel. It holds no
// sessions: several may be live at once.
type Transport interface {
	// Name returns the name on the command line, such as "shm-slab".
	Name() string

	// Settings returns what can be set. Flags, help, validation and results all
	// come from this list.
	Settings() []Setting

	// Traits returns what the transport is with these settings.
	Traits(Settings) Traits

	// Check reports what o asks for and this transport cannot carry on this
	// machine, naming both, before any process starts.
	Check(o Options) error

	// Footprint returns the bytes of memory that a session with o needs at its
	// peak, in all processes together, shared memory counted once.
	Footprint(o Options) int64

	// Listen starts the server's side, at e if its workers come through a socket. It
	// must be ready for Dial on return. ctx bounds the call, not the session. An
	// error leaves nothing behind.
	Listen(ctx context.Context, e *Endpoint, o Options) (Server, error)

	// Dial connects lane to the server at e. ctx bounds the call, not the session.
	// An error leaves nothing behind.
	Dial(ctx context.Context, e *Endpoint, lane int, o Options) (Worker, error)
}

// A Server is the aggregator's side of a session.
type Server interface {
	// Reserve returns a package of the Down layout where the next global model
	// is to be written. It never waits. There is a pair of models, which it returns in
	// turn: the one that was published longest ago is not published any more.
	Reserve() (*tensor.Package, error)

	// Publish makes p, with its receipt, a model that jobs may name. It takes p, which
	// stays readable until Reserve returns it again, but not the receipt's memory.
	Publish(ctx context.Context, p *tensor.Package) error

	// Dispatch gives a client's job with a published model to a lane which has fewer
	// than Depth updates out. If model is nil the job comes without one: the worker has
	// kept what it needs. It never waits for the worker to finish.
	Dispatch(ctx context.Context, lane int, model *tensor.Package, j Job) error

	// Collect waits for the update of lane's job and returns it, lent in Options.Out
	// until the caller releases it, which may be after Shutdown.
	Collect(ctx context.Context, lane int) (*tensor.Package, Delivered, error)

	// Settle waits until every lane's worker has asked for its next job, in a
	// transport whose workers ask: then everything of the jobs before is over, and at
	// both ends counted. No job is out. In other transports it does nothing.
	Settle(ctx context.Context) error

	// Shutdown ends the session in band: a Receive that has no job returns io.EOF.
	// It waits for the workers until ctx ends, and releases everything either way but
	// the memory of updates that are out.
	Shutdown(ctx context.Context) error
}

// A Worker is one lane's end of a session.
type Worker interface {
	// Receive waits for the next job and its model. The model is lent, read-only,
	// until Submit; it is nil, and nothing delivered, if the job comes without one.
	// io.EOF means that the server has shut down.
	Receive(ctx context.Context) (Job, *tensor.Package, Delivered, error)

	// Reserve returns a package of the Up layout where the update of the job last
	// received is to be written, every byte of it: what it holds is undefined.
	Reserve() (*tensor.Package, error)

	// Submit sends the update. It takes p and the model, also when it fails.
	Submit(ctx context.Context, p *tensor.Package) error

	// Ping exchanges an empty request and an empty answer with the server over the
	// connection of the lane: the least that a call costs, and the floor of
	// transports that make calls. It is called before the first Receive, and only if
	// Traits say that the transport makes calls.
	Ping(ctx context.Context) error

	// Close gives up the lane, and takes back the model and the update of a job that
	// is in hand: nobody looks at them any more. cause is the reason, which goes to the
	// server if it can be reached, or nil if the session is over.
	Close(cause error) error
}

// Delivered says how the tensors of a package came to their receiver. Each of them
// came in one of these ways.
type Delivered struct {
	Body   Amount // its bytes were moved
	Handle Amount // as a handle to memory that the receiver maps
	Cached Amount // it was there already, from a delivery before
}

// An Amount is a number of tensors, and the bytes that they hold.
type Amount struct{ Tensors, Bytes int }

// All returns what the whole of p amounts to.
func All(p *tensor.Package) Amount { return Amount{p.Len(), p.Payload()} }
