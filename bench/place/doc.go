// Package place decides where a block runs: on which hosts and processors, and by which launcher of
// workers.
//
// [Hosts] are the hosts of a run with agents, and a [Rule] distributes the worker processes of a cell
// over them. [Here] takes a session.Run, gives it a launcher, hosts and an address to listen at, pins
// its processes if the plan asks for it, and runs it with this process as its server. The
// session fills the result.Block that it was given.
package place
