// Package driver defines the interface that a transport implements. A transport moves model tensors
// between a server (the aggregator) and its workers (the client trainers); its implementation is
// called a driver.
//
// A driver gets calls from package transports, which enforces the rules that all drivers share, and
// an endpoint to connect through. It returns packages of tensors, which it lends, counts of how the
// tensors arrived, and errors.
//
// A [Transport] makes a [Server] in one process and a [Worker] for each lane, usually
// in other processes. One round:
//
//	server                                   worker of lane w
//	Publish the model, Reserve the next one
//	Dispatch(w, model, job)  ------------>   Receive
//	                                         Reserve, write the update
//	Collect(w)               <------------   Submit
//	read the update, Release
//
// [Transport] has the rules. [Pair] and [Bank] keep them for the memory that a driver lends, and
// package drivertest tests them.
package driver

import (
	"context"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
	"ipcbench/transports/endpoint"
)

// Options describe a session. They are identical in every process of it except Rec,
// Out and Folders.
type Options struct {
	Down, Up *tensor.Layout  // layouts of the global model and of an update
	Lanes    int             // at least 1
	Clients  int             // per round, at least 0
	Depth    int             // most updates of a lane that are being written or not yet released; at least 1
	Settings Settings        // of this transport; complete, checked and in canonical spelling
	Pages    pages.Size      // of all memory that tensors are in
	Rec      *phase.Recorder // the process's recorder; nil records nothing
	Out      *tensor.Ledger  // where the server counts the updates that Collect has lent
	Folders  Folders         // folders in which this process may open paths from settings; nil allows all
}

// Session returns what an endpoint must know of the session.
func (o Options) Session() endpoint.Session {
	return endpoint.Session{Down: o.Down, Up: o.Up, Lanes: o.Lanes, TLS: o.Settings["tls"], Rec: o.Rec}
}

// Alloc returns a package on the heap that a driver can lend, with all pages present.
func (o Options) Alloc(l *tensor.Layout) *tensor.Package { return tensor.AllocTouched(l, o.Pages) }

// A Job is one client's turn in one round.
type Job struct {
	Round, Client int
	Weight        float64 // weight of the client's update in the average
	Device        string  // a label for the worker function: "cpu", "cuda:1"
	Config        []byte  // the client's configuration; lent until Collect returns, and to the worker until Submit
	Timed         bool    // the round's samples count
}

// ID returns the identity under which spans record work for j on lane.
func (j Job) ID(lane int) phase.ID { return phase.ID{Lane: lane, Round: j.Round, Client: j.Client} }

// Traits are properties of a transport that depend on its settings only.
type Traits struct {
	Reach  Reach
	Folder string // if not empty, processes on different hosts must see the same files in it
	Spins  bool   // its workers wait in a busy loop, which occupies a processor
	Calls  bool   // workers make calls to the server, so Ping is supported
}

// A Reach is the largest distance allowed between a server and its workers.
type Reach uint8

// Each reach includes the ones before it.
const (
	Process Reach = iota // in the server's process
	Host                 // in any process of the server's machine
	Network              // in any process that can dial the server
)

// A Subject can be measured: a [Transport], or a program that runs whole sessions in processes of
// its own and has no Servers and Workers here.
type Subject interface {
	// Name returns the transport's name on the command line, such as "shm-slab".
	Name() string

	// Settings returns the transport's settings. Flags, help, validation and results
	// all use this list.
	Settings() []Setting

	// Traits returns the transport's properties with these settings.
	Traits(Settings) Traits

	// Check returns an error if the transport cannot run a session with o on this
	// machine. The error states what o asks for and what prevents it. Check is called
	// before any process starts.
	Check(o Options) error

	// Footprint returns the bytes of memory that a session with o needs at its
	// peak: the sum over all processes, with shared memory counted once.
	Footprint(o Options) int64

	// Needs returns the resources other than memory that a session with o needs. Check
	// compares them with the machine's.
	Needs(o Options) (Needs, error)
}

// A Transport is one way to move models and updates. One value can serve several
// sessions at the same time; their state is in the Servers and Workers.
//
// Rules that hold for every driver:
//
//   - A driver never calls its user back. It waits only inside calls that have a
//     context.
//   - The driver owns all packages and lends them. Both sides write in place, into
//     memory that the driver reserved. A driver that cannot share memory lends heap
//     memory and reuses it.
//   - A server has two model packages. A published model stays published and unchanged
//     until Reserve returns it again. So both may be published at the same time, and
//     each job names its model.
//   - A driver whose protocol has other clients too may serve them the decoded form of
//     an encoded model while it is published: see Plain in [tensor.Package].
//   - A tensor of variable length has room for all of its rows, but only the rows in
//     use travel. Their number travels separately ([tensor.Package.AppendRows]); the
//     receiver must check it before use.
//   - Receive and Collect report how each tensor was delivered. A driver may also keep
//     counters of its own and record spans inside a call.
//   - In a steady round, allocations do not grow with the model, unless the driver's
//     package comment makes an exception.
//   - An error states the cause only. Package transports adds the transport, the lane,
//     the operation and the job.
//
// A driver may assume:
//
//   - The lane exists, and one goroutine at each end uses it.
//   - At most one job is out on a lane. Its model is published, and is reserved again
//     only after all jobs with that model were collected.
//   - The package published or submitted is the one reserved last.
//   - One goroutine at a time reserves and publishes models. It may do so while jobs
//     with the other model are out and calls for their lanes are running.
//   - After a worker's call has failed or its context has ended, only Close follows.
//     After a server's call for one lane, no other call for that lane follows; after a
//     call for all lanes, only Shutdown.
//   - Shutdown and Close are called once, while no other call is running.
type Transport interface {
	Subject

	// Listen starts the server. If workers connect through a socket, it listens at e.
	// When it returns, the server must be ready for Dial. ctx bounds this call, not
	// the session. If it fails, it leaves nothing behind.
	Listen(ctx context.Context, e *endpoint.Endpoint, o Options) (Server, error)

	// Dial connects a worker for lane to the server at e. ctx bounds this call, not
	// the session. If it fails, it leaves nothing behind.
	Dial(ctx context.Context, e *endpoint.Endpoint, lane int, o Options) (Worker, error)
}

// A Server is the aggregator's side of a session.
type Server interface {
	// Reserve returns the package, of the Down layout, to write the next global model
	// into. It never waits. A server has two model packages and alternates: Reserve
	// unpublishes the older one.
	Reserve() (*tensor.Package, error)

	// Publish makes p, with its receipt, a model that jobs may name. It takes
	// ownership of p: the caller may read p until Reserve returns it again, but not
	// write to it. The memory of the receipt stays the caller's, so the driver must
	// copy it.
	Publish(ctx context.Context, p *tensor.Package) error

	// Dispatch sends a client's job and a published model to a lane that has fewer
	// than Depth updates out. A nil model sends the job without one, because the
	// worker has kept what it needs. Dispatch never waits for the worker to finish.
	Dispatch(ctx context.Context, lane int, model *tensor.Package, j Job) error

	// Collect waits for the update of lane's job and returns it. The update is lent,
	// and counted in Options.Out, until the caller releases it. That may be after
	// Shutdown.
	Collect(ctx context.Context, lane int) (*tensor.Package, Delivered, error)

	// Settle waits until every lane's worker has asked for its next job. Then both
	// ends have completed, and counted, all work for earlier jobs. It is called while
	// no job is out. If workers do not ask for jobs, it does nothing.
	Settle(ctx context.Context) error

	// Shutdown ends the session: workers are notified, and a Receive without a job
	// returns io.EOF. It waits until the workers have left or ctx ends. In either case
	// it releases everything except the memory of updates that are still lent.
	Shutdown(ctx context.Context) error
}

// A Worker is the worker's side of one lane.
type Worker interface {
	// Receive waits for the next job and its model. The model is lent, read-only,
	// until Submit. If the job has no model, the package is nil and Delivered is zero.
	// io.EOF means that the server has shut down.
	Receive(ctx context.Context) (Job, *tensor.Package, Delivered, error)

	// Reserve returns the package, of the Up layout, to write the update of the
	// current job into. Its contents are undefined, so every byte must be written.
	Reserve() (*tensor.Package, error)

	// Submit sends the update. It takes ownership of p and the model, even if it
	// returns an error.
	Submit(ctx context.Context, p *tensor.Package) error

	// Ping exchanges an empty request and an empty answer with the server over the
	// lane's connection. That is the cheapest possible call, and so the floor of
	// transports that make calls. It is only called before the first Receive, and only
	// if Traits.Calls is set.
	Ping(ctx context.Context) error

	// Close gives up the lane. It takes back the model and the update of an unfinished
	// job; the caller must not use them any more. cause is the reason, which is sent to
	// the server if it can be reached, or nil if the session is over.
	Close(cause error) error
}

// Delivered counts the tensors of a package by the way in which they reached their
// receiver. Each tensor is counted once.
type Delivered struct {
	Body   Amount // tensors whose bytes were moved
	Handle Amount // tensors received as a handle to memory that the receiver maps
	Cached Amount // tensors that the receiver had kept from an earlier delivery
}

// An Amount is a number of tensors and the bytes that they hold.
type Amount struct{ Tensors, Bytes int }

// All returns the number of tensors in p and their bytes.
func All(p *tensor.Package) Amount { return Amount{p.Len(), p.Payload()} }
