package python

import (
	"slices"
	"strings"
)

// Modules that workers and reference rows import.
func Numpy() Module    { return Module{Name: "numpy", Debian: "python3-numpy"} }
func Xxhash() Module   { return Module{Name: "xxhash", Debian: "python3-xxhash"} }
func Grpc() Module     { return Module{Name: "grpc", Debian: "python3-grpcio"} }
func Protobuf() Module { return Module{Name: "google.protobuf", Debian: "python3-protobuf"} }
func Requests() Module { return Module{Name: "requests", Debian: "python3-requests"} }
func Torch() Module    { return Module{Name: "torch", Debian: "python3-torch"} }
func Flwr() Module     { return Module{Name: "flwr", Least: 10} }
func Openfl() Module   { return Module{Name: "openfl"} }
func Zmq() Module      { return Module{Name: "zmq", Debian: "python3-zmq"} }
func Aiohttp() Module  { return Module{Name: "aiohttp", Debian: "python3-aiohttp"} }

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
	Of      string // the project that it imitates or runs: one of Releases. Empty if none
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

// About describes the row: its project's release, if any, and how tensors travel.
func (r Row) About() string {
	if r.Of == "" {
		return r.Help
	}
	return r.Of + " " + Releases()[r.Of].Version + ": " + r.Help
}

// Rows returns the reference rows: an entry here, a file in the folder peers and a line in README's table
// (frameworks in package cli) are all that a row needs. Files of rows that run a project's own code are named own_NAME.py, since
// NAME.py would take the place of the project's package.
func Rows() []Row {
	row := func(name, of, help string, modules ...Module) Row {
		file := strings.Replace(strings.ReplaceAll("own-"+name, "-", "_"), "own_py_", "py_", 1) + ".py"
		return Row{name, file, of, help, append([]Module{Numpy(), Xxhash()}, modules...), nil, false}
	}
	with := func(r Row, knobs ...Knob) Row {
		r.Knobs = knobs
		return r
	}
	shared := func(r Row) Row {
		r.Shared = true
		return r
	}
	puts := Knob{Name: "puts", Default: "client", Values: []string{"client", "round"}, Help: "store the model for each client, or once per round"}
	return []Row{
		row("py-pickle", "", "a dict of numpy arrays, pickled through multiprocessing.Pipe"),
		row("py-pickle5", "", "pickle protocol 5, with the arrays' memory out of band"),
		with(shared(row("py-blazefl", "BlazeFL", "a new process pool per round, memory made before it", Torch())),
			Knob{Name: "pool", Default: "new", Values: []string{"new", "kept"}, Help: "start the pool of processes in each round, or once"},
			Knob{Name: "share", Default: "descriptors", Values: []string{"descriptors", "names"}, Help: "pass descriptors of memory, or names in /dev/shm"}),
		shared(row("blazefl", "BlazeFL", "its own code, a new process pool per round, memory made before it", Torch(), Module{Name: "blazefl", Least: 14})),
		row("py-shm", "", "memory that all processes map, and numpy"),
		with(row("py-flower", "Flower", "hashed objects of 5 MiB over HTTP, via a third process", Protobuf()),
			Knob{Name: "chunk", Default: "5MiB", Most: 1 << 30, Bytes: true, Help: "largest object"},
			Knob{Name: "pulls", Default: "2", Most: 64, Help: "objects at a time"},
			Knob{Name: "hops", Default: "2", Values: []string{"2", "3"}, Help: "3 has a SuperNode between SuperLink and worker"},
			Knob{Name: "process", Default: "kept", Values: []string{"kept", "new"}, Help: "start the worker's process once, or for each message"}),
		row("flower", "", "Flower's own code of 1.30: objects over gRPC, three hops, a process per message", Flwr()),
		with(row("py-openfl", "OpenFL", "gRPC with generated code, a call and a channel per tensor", Grpc(), Protobuf()),
			Knob{Name: "calls", Default: "each", Values: []string{"each", "batched"}, Help: "fetch each tensor, or all in one call, as OpenFL 1.8"}),
		row("openfl", "OpenFL", "its own code, gRPC, a call and a channel per tensor", Openfl()),
		with(row("py-areal", "AReaL", "base64 in JSON, 32 tensors per POST, a connection each, bf16 as f32"),
			Knob{Name: "shards", Default: "32", Most: 1 << 20, Help: "tensors per POST"}),
		row("areal", "AReaL", "its own code, base64 in JSON, 32 tensors per POST",
			Torch(), Module{Name: "areal"}, Aiohttp(), Module{Name: "orjson", Debian: "python3-orjson"},
			Module{Name: "pydantic", Debian: "python3-pydantic"}, Module{Name: "flask", Debian: "python3-flask"}),
		with(row("py-verl", "verl", "buckets in a new segment of shared memory, announced over ZeroMQ", Zmq()),
			Knob{Name: "bucket", Default: "2GiB", Most: 1 << 40, Bytes: true, Help: "bytes of tensors at a time"},
			Knob{Name: "keep", Default: "off", Values: []string{"off", "on"}, Help: "make the segment once"},
			Knob{Name: "overlap", Default: "off", Values: []string{"off", "on"}, Help: "fill one bucket while another is read"}),
		with(row("py-zmq", "", "a ZeroMQ frame per tensor, without copies", Zmq()),
			Knob{Name: "copy", Default: "no", Values: []string{"no", "yes"}, Help: "copy tensors into ZeroMQ's memory, and out of it"},
			Knob{Name: "network", Default: "unix", Values: []string{"unix", "tcp"}, Help: "Unix socket, or TCP on the loopback interface"}),
		with(row("py-gloo", "", "torch.distributed's send and recv over gloo", Torch()),
			Knob{Name: "tensors", Default: "each", Values: []string{"each", "flat"}, Help: "send tensors one by one, or copied into one"}),
		with(row("py-nvflare", "NVFlare", "whole tensors that the reader pulls, over a WebSocket", Aiohttp()),
			Knob{Name: "pull", Default: "2MiB", Most: 1 << 30, Bytes: true, Help: "tensors per reply, but at least one"}),
		with(row("py-store", "", "a stand-in for Ray: pickles in memory of a third process"), puts),
		with(row("ray", "", "Ray's object store itself; untested", Module{Name: "ray", Least: 10}), puts),
		row("py-http", "", "bytes over HTTP on one connection", Requests()),
		row("py-npz", "", "numpy.savez through files, whose names are passed on"),
	}
}
