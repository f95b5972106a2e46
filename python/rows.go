package python

import (
	"slices"
	"strings"
)

// Modules that workers and reference rows import.
func Numpy() Module    { return Module{"numpy", "python3-numpy"} }
func Xxhash() Module   { return Module{"xxhash", "python3-xxhash"} }
func Grpc() Module     { return Module{"grpc", "python3-grpcio"} }
func Protobuf() Module { return Module{"google.protobuf", "python3-protobuf"} }
func Requests() Module { return Module{"requests", "python3-requests"} }
func Torch() Module    { return Module{"torch", "python3-torch"} }

// Transports returns the transports that workers in Python support: LANES of __main__.py.
func Transports() []string {
	return []string{"shm-slab", "http", "http-shm", "grpc-tensor", "grpc-batch", "grpc-stream"}
}

// ForWorkers returns the modules that workers need for these transports. All workers need xxhash,
// for the digests of layouts and the hashes in proofs.
func ForWorkers(transports ...string) []Module {
	all := []Module{Numpy(), Xxhash()}
	if slices.ContainsFunc(transports, func(name string) bool { return strings.HasPrefix(name, "grpc-") }) {
		all = append(all, Grpc(), Protobuf())
	}
	return all
}

// A Row is a reference row: a peer that exchanges models as a Python project does.
type Row struct {
	Name    string // such as py-pickle
	File    string // in the folder peers
	Help    string
	Modules []Module
	Knobs   []Knob
	Shared  bool // its tensors are files in /dev/shm, for a short time: the model, and each client's update of two rounds
}

// A Knob is a setting of a row that its project has, too. Values are the allowed texts or, if nil,
// numbers from 1 to Most.
type Knob struct {
	Name, Default string
	Values        []string
	Most          int
	Bytes         bool // numbers are sizes, such as 5MiB
	Help          string
}

// Rows returns the reference rows. The ones that are modelled on known projects are first.
func Rows() []Row {
	row := func(name, help string, modules ...Module) Row {
		return Row{name, strings.ReplaceAll(name, "-", "_") + ".py", help, append([]Module{Numpy(), Xxhash()}, modules...), nil, false}
	}
	with := func(r Row, knobs ...Knob) Row {
		r.Knobs = knobs
		return r
	}
	shared := func(r Row) Row {
		r.Shared = true
		return r
	}
	return []Row{
		row("py-pickle", "multiprocessing.Pipe, pickles of the default protocol"),
		row("py-pickle5", "pickle protocol 5, buffers out of band over the pipe"),
		with(shared(row("py-blazefl", "BlazeFL 3: a new process pool per round, shared buffers", Torch())),
			Knob{Name: "pool", Default: "new", Values: []string{"new", "kept"}, Help: "start the pool of processes in each round, or once"}),
		row("py-shm", "memory that all processes map, and numpy"),
		with(row("py-flower", "Flower 1.43: hashed objects of 5 MiB over HTTP, via a third process", Protobuf()),
			Knob{Name: "chunk", Default: "5MiB", Most: 1 << 30, Bytes: true, Help: "largest object"},
			Knob{Name: "pulls", Default: "2", Most: 64, Help: "objects at a time"},
			Knob{Name: "hops", Default: "2", Values: []string{"2", "3"}, Help: "3 has a SuperNode between SuperLink and worker"},
			Knob{Name: "process", Default: "kept", Values: []string{"kept", "new"}, Help: "start the worker's process once, or for each message"}),
		with(row("py-openfl", "OpenFL 1.6: gRPC, a call and a channel per tensor", Grpc(), Protobuf()),
			Knob{Name: "calls", Default: "each", Values: []string{"each", "batched"}, Help: "fetch each tensor, or all in one call, as OpenFL 1.8"}),
		with(row("py-areal", "AReaL 2: base64 in JSON, 32 tensors per POST, a connection each"),
			Knob{Name: "shards", Default: "32", Most: 1 << 20, Help: "tensors per POST"}),
		row("py-http", "bytes over HTTP on one connection", Requests()),
		row("py-npz", "numpy.savez through files"),
	}
}
