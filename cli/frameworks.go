package cli

import "ipcbench/python"

// frameworks returns a table that says which rows measure what a framework does. A row has the
// framework, its release, how it moves tensors, the nearest transport, with its settings, and
// the rows in Python, which imitate it or run its own code. It has the frameworks as they are at
// these releases, and what programs do without one. TestFrameworks -update writes the same table to README.md.
func frameworks() [][]string {
	of := python.Releases()
	flower, openfl := of["Flower"].String(), of["OpenFL"].String()
	return [][]string{
		{"BlazeFL, processes", of["BlazeFL"].String(), "new pool per round, memory made before it", "shm-tensor:buffers=client --respawn", "py-blazefl, blazefl"},
		{"the same, the pool kept", "", "memory made before each round", "shm-tensor:buffers=client", "py-blazefl:pool=kept"},
		{"BlazeFL, threads (as it recommends on free-threaded Python)", of["BlazeFL"].String(), "one process, nothing moves", "none; the nearest is the control, inproc", ""},
		{"Flower, deployment", flower, "5 MiB objects over HTTP, three hops, a new process per message", "http moves them in one piece", "py-flower, flower"},
		{"Flower, simulation", "", "objects in shared memory of Ray, per client", "none", "ray; py-store stands in for it"},
		{"NVFlare", of["NVFlare"].String(), "whole tensors over a WebSocket, pulled", "none; http moves them in one piece", "py-nvflare"},
		{"OpenFL (ended in October 2025)", openfl, "gRPC, call and channel per tensor", "grpc-tensor:marshal=generated:conn=per-call", "py-openfl, openfl"},
		{"OpenFL from 1.8", "", "gRPC, one message for all", "grpc-batch:marshal=generated", "py-openfl:calls=batched"},
		{"AReaL, batches", of["AReaL"].String(), "base64 JSON, 32 tensors per POST", "http:body=json:conn=per-request", "py-areal, areal"},
		{"AReaL, deferred proposal for one machine", "", "slab of shared memory, handles by HTTP", "http-shm", ""},
		{"verl, devices without CUDA IPC", of["verl"].String(), "a bucket in shared memory at a time, names and offsets over ZeroMQ", "shm-slab", "py-verl"},
		{"APPFL", of["APPFL"].String(), "gRPC, MPI or Globus", "grpc-batch:marshal=generated", ""},
		{"FedML", of["FedML"].String(), "gRPC or MPI", "grpc-batch:marshal=generated", ""},
		{"marin, weights", "", "Arrow Flight, which is gRPC", "grpc-stream", ""},
		{"PySyft and, on top of it, syft-flwr " + of["syft-flwr"].Version, of["PySyft"].String(), "files in synchronized folders", "storage", "py-npz"},
		{"process pool", "", "pickles through a pipe", "pickle", "py-pickle, py-pickle5"},
		{"memory that you share by hand", "", "one block, made beforehand", "shm-slab", "py-shm"},
		{"ZeroMQ by hand", "", "a frame per tensor", "http", "py-zmq"},
		{"torch.distributed by hand", "", "gloo's send and recv, over TCP", "http:network=tcp", "py-gloo"},
		{"script", "", "files whose paths are passed on", "storage", "py-npz"},
	}
}
