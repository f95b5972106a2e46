// Package agent starts worker processes on other hosts.
//
// An agent is a process of this program on another host. mpirun, srun, Kubernetes or a
// person starts it. It joins a run (see [Join]) and then starts fresh worker processes
// for each block, as the server does on its own host. [Fleet] holds a run's agents.
//
// Each agent dials one connection to the server. A multiplexer (hashicorp/yamux) splits
// it into streams: one per worker process for its control connection, and one for each
// other request (listed in serve.go). Tensors never use it, because workers dial the
// server directly. While a round is timed, its only traffic is a small heartbeat every
// two seconds.
//
// # Joining
//
// The connection is TLS 1.3, with a server certificate that the run has made. An agent
// must know the run's token. Both ends prove on this connection that they know it, the
// server first. A proof is the HMAC-SHA-256 of the connection's exported keying material
// (RFC 8446, 7.5), with the token as key and a separate label for each end. So a proof
// is valid only on its connection and only for its end. An agent with a complete join
// line also checks the server's authority against the hash in the line.
//
// Names must be unique, and agents are refused once all have joined. Both ends must have
// the same build.
//
//	server                                agent
//	                <- TLS ->
//	opening: version, proof     ------->
//	                            <-------  greeting: version, proof, name, host
//	verdict: welcome or reason  ------->
//	                <- yamux ->
//	request, on a stream        ------->  one of a fixed list
//	                            <-------  answer, then data of that request
//
// # Requests that an agent accepts
//
// An agent only starts this program as a worker, with built-in functions. Paths that the
// server names must be below folders that the agent's user has allowed. The agent ends
// with its run, and its worker processes end with it in all cases.
package agent
