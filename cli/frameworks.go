package cli

// frameworks returns a table that says which rows measure what a framework does. A row has the
// framework, its release, how it moves tensors, the nearest transport, with its settings, and
// the reference row in Python. It has the frameworks as they are at these releases, and what
// programs do without one. README.md has the same table.
func frameworks() [][]string {
	return [][]string{
		{"BlazeFL, processes", "3.0, May 2026", "new pool per round, memory made before it", "shm-tensor --respawn", "py-blazefl"},
		{"the same, the pool kept", "", "memory made before each round", "shm-tensor", "py-blazefl:pool=kept"},
		{"BlazeFL, threads (as it recommends on free-threaded Python)", "3.0, May 2026", "one process, nothing moves", "none; the nearest is the control, inproc", ""},
		{"Flower", "1.43, November 2026", "5 MiB objects over HTTP, third process", "http moves them in one piece", "py-flower"},
		{"OpenFL (no longer maintained)", "1.6, October 2024", "gRPC, call and channel per tensor", "grpc-tensor:marshal=generated:conn=per-call", "py-openfl"},
		{"OpenFL from 1.8", "", "gRPC, one message for all", "grpc-batch:marshal=generated", "py-openfl:calls=batched"},
		{"AReaL, batches", "2.0, August 2026", "base64 JSON, 32 tensors per POST", "http:body=json:conn=per-request", "py-areal"},
		{"AReaL, deferred proposal for one machine", "", "slab of shared memory, handles by HTTP", "http-shm", ""},
		{"NVFlare, large models", "", "stream of chunks", "grpc-stream:marshal=generated", ""},
		{"process pool", "", "pickles through a pipe", "pickle", "py-pickle, py-pickle5"},
		{"memory that you share by hand", "", "one block, made beforehand", "shm-slab", "py-shm"},
		{"script", "", "files whose paths are passed on", "storage", "py-npz"},
	}
}
