package report

// A Word is an entry of the glossary. It has one meaning in code, flags, errors, files and
// docs.
type Word struct {
	Word, Means string
	Not         string // words that are not used for it, or that it must not be used for
}

// Words returns the glossary, which HTML pages and ARCHITECTURE.md show.
func Words() []Word {
	return []Word{
		{"round", "one turn of training: the model goes to all clients, their updates come back and are averaged", "epoch"},
		{"client", "a participant with its own data; a round trains one or more", ""},
		{"worker", "trains clients, one at a time", ""},
		{"lane", "one worker's slot in a session, as counted by --workers", "worker 3 for lane 3"},
		{"process", "an operating-system process that hosts lanes", "worker"},
		{"role", "a function of this program that runs in a process of its own, such as a floor", ""},
		{"host", "a machine, or a network namespace that acts as one", ""},
		{"agent", "a process that starts worker processes on another host for a run", ""},
		{"fleet", "the agents of a run and the server's host", "cluster"},
		{"place", "where a block's processes run: on which hosts and processors", ""},
		{"rank", "the number of a process among those that mpirun, srun or Kubernetes started together", ""},
		{"world", "all ranks that were started together", "fleet"},
		{"session", "a server and its workers, from start to end", "pool"},
		{"block", "the measurement of one session", "session"},
		{"cycle", "one turn of a run: a block of each cell that needs one, and the floors that are due", "round"},
		{"cell", "one combination of transport, settings, model, update, workers and clients", "configuration, case"},
		{"sweep", "cells that differ in one quantity only, such as the size", ""},
		{"crossing", "the point of a sweep where two transports swap ranks", ""},
		{"control", "the inproc cell that does the same round inside one process", ""},
		{"program", "runs blocks: this one, another build or a layout of it, a peer, or a reference row", ""},
		{"peer", "a user's own program that runs whole blocks itself", "build, which is another ipcbench"},
		{"reference row", "one of our peers, which exchanges models as a Python project does", ""},
		{"floor", "the speed of the machine without a transport", ""},
		{"proof", "the check of every byte of a round's updates", ""},
		{"reference chain", "the hash of each round's model, computed by the same arithmetic without a transport", ""},
		{"canary", "a copy of a cell, one identical and one slowed down, that tests the gate", ""},
		{"job", "one client's turn in one round", "call, turn, task"},
		{"model", "the tensors that the server publishes", ""},
		{"update", "the tensors that a client sends back", "for anything else"},
		{"payload", "the bytes of the user's tensors", ""},
		{"wire bytes", "the bytes sent after encoding", ""},
		{"codec", "compresses tensors before they travel and restores them after; stages are joined by +", "encoding, which every transport does"},
		{"base", "the earlier version of a model against which a codec encodes", ""},
		{"full version", "a model sent without a base", ""},
		{"density", "the share of elements that differ from the base", ""},
		{"layout", "of tensors: names, types and shapes; of a build: one linking of its functions", "link"},
		{"link", "an emulated network with a rate", ""},
		{"break-even", "the rate of a link at which a round takes as long with a codec as without", ""},
		{"hand over", "pass memory on without moving the bytes in it", ""},
		{"driver", "the implementation of one transport", "transport"},
		{"phase", "a named step of a round, such as encode or wait", ""},
		{"span", "one timed stay in a phase; a summed span adds up many", ""},
		{"stranger", "a connection that has not shown the session's secret", ""},
	}
}
