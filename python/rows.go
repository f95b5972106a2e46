package python

import (
	"errors"
	"fmt"
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

// ForWorkers returns the modules that workers need for these transports. The error names a
// transport that Python workers do not support, and the reason. All workers need xxhash,
// for the digests of layouts and the hashes in proofs.
func ForWorkers(transports ...string) (all []Module, err error) {
	for _, name := range transports {
		modules := []Module{Numpy(), Xxhash()}
		switch name {
		case "shm-slab", "http", "http-shm":
		case "grpc-tensor", "grpc-batch", "grpc-stream":
			modules = append(modules, Grpc(), Protobuf())
		case "pickle", "storage":
			err = errors.New("it uses Go's gob; for Python's pickle choose py-pickle5")
		default:
			err = errors.New("workers in Python do not support it: choose shm-slab, grpc-tensor, grpc-batch, grpc-stream, http or http-shm")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, m := range modules {
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// A Row is a reference row: a peer that exchanges models as a Python project does.
type Row struct {
	Name    string // such as py-pickle
	File    string // in the folder peers
	Help    string
	Modules []Module
}

// Rows returns the reference rows. The ones that are modelled on known projects are first.
func Rows() []Row {
	row := func(name, help string, modules ...Module) Row {
		return Row{name, strings.ReplaceAll(name, "-", "_") + ".py", help, append([]Module{Numpy(), Xxhash()}, modules...)}
	}
	return []Row{
		row("py-pickle", "multiprocessing.Pipe, pickles of the default protocol"),
		row("py-pickle5", "pickle protocol 5, buffers out of band over the pipe"),
		row("py-torch-queue", "torch.multiprocessing's queues, which pass descriptors: BlazeFL", Torch()),
		row("py-shm", "multiprocessing.shared_memory and numpy"),
		row("py-grpc", "gRPC, generated stubs, one call each way: OpenFL, Flower", Grpc(), Protobuf()),
		row("py-http-json", "base64 in JSON, a connection per request: AReaL", Requests()),
		row("py-grpc-tensor", "gRPC, a call for each tensor of the model: OpenFL", Grpc(), Protobuf()),
		row("py-http", "bytes over HTTP on one connection", Requests()),
		row("py-npz", "numpy.savez through files"),
	}
}
