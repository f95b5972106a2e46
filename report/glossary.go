package report

// A Word has one meaning, in code, flags, errors, files and docs.
type Word struct {
	Word, Means string
	Not         string // what is not called so, or what it is not called
}

// Words are the glossary: pages of HTML end with it, and ARCHITECTURE.md shows it.
func Words() []Word {
	return []Word{
		{"round", "one turn of training: the model goes to all clients, their updates come back and are averaged", "epoch"},
		{"client", "whose data is trained on; a round has one or more", ""},
		{"worker", "what trains one client at a time", ""},
		{"lane", "one worker's place in a session; what --workers counts", "worker 3 for lane 3"},
		{"process", "an operating-system process that hosts lanes", "worker"},
		{"host", "a machine, or what has its own network", ""},
		{"agent", "what starts worker processes on one host for a run whose server is on another one", ""},
		{"fleet", "the agents of a run, with the server's host", "cluster"},
		{"join line", "what an agent has to know to join a run", ""},
		{"engine", "what starts processes on hosts: mpirun, srun, Kubernetes", "launcher, which starts workers"},
		{"rank", "the number of a process among those that an engine has started", ""},
		{"world", "all ranks that an engine has started together", "fleet"},
		{"session", "server and workers, from start to end", "pool"},
		{"block", "the measurement that one session gives", "session"},
		{"cell", "a transport with its settings, a model, an update, and numbers of workers and clients", "configuration, case"},
		{"sweep", "cells that differ in one quantity alone, such as the size", ""},
		{"crossing", "where two transports of a sweep change places", ""},
		{"control", "the cell with inproc that does the same work inside one process", ""},
		{"peer", "a program of somebody's own that runs whole blocks beside ours", "build, which is another ipcbench"},
		{"reference row", "a peer of ours, which exchanges models as a project in Python does", ""},
		{"floor", "what the machine can do without a transport", ""},
		{"job", "one client's turn in one round", "call, turn, task"},
		{"model", "what the server publishes", ""},
		{"update", "what a client sends back", "for anything else"},
		{"wire", "what travels, after encoding", ""},
		{"payload", "what the user's tensors hold", ""},
		{"codec", "what makes tensors smaller before they travel, and the same again after it; several are joined by +", "encoding, which every transport does"},
		{"base", "the version of a model that a codec goes from: what equals it need not travel", ""},
		{"full version", "a model that travels whole, since the worker has no base", ""},
		{"ratio", "wire ÷ payload, without full versions", ""},
		{"density", "the share of words that differ from the base", ""},
		{"layout", "of a build: an executable, whose functions stand where one run of the linker has put them; of tensors: their names, types and shapes", "link"},
		{"link", "a network with a rate, in a namespace of its own", ""},
		{"break-even", "the rate of a link at which a round takes as long with a codec as without", ""},
		{"language", "what workers are written in: go, or python", ""},
		{"software", "versions of what workers in Python, or a peer, run on, as they say", ""},
		{"hand over", "pass memory on, without moving the bytes in it", ""},
		{"driver", "how one transport is implemented", "transport"},
		{"pair", "the two models that a server keeps", ""},
		{"phase", "a named step of a round, such as encode or wait", ""},
		{"span", "one timed stay in a phase; a summed one stands for many stays", ""},
		{"handshake", "how a TLS connection begins: both ends agree on keys, and show certificates", ""},
		{"stranger", "who is connected and has not shown the session's secret", ""},
	}
}
