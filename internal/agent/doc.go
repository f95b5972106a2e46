// Package agent starts worker processes on other hosts.
//
// An agent is a process of this program on such a host, which somebody else has
// started: mpirun, srun, Kubernetes or a person. It joins a run (see [Join]), and then
// starts fresh worker processes for each block, as the server does on its own host. The
// agents of a run with the server's host are its [Fleet].
//
// Each agent has one connection to the server, which it has dialled. That carries the
// control connection of each of its worker processes, and few other requests (serve.go
// lists them), as streams of a multiplexer (hashicorp/yamux), but no tensor: workers
// dial the server themselves. What is small and seldom goes there while a round is
// timed: a heartbeat, every two seconds.
//
// # Joining
//
// The connection is TLS 1.3, and the server's certificate is one that the run has made.
// Whoever knows the run's token may join, and nobody else: over this very connection,
// both ends prove that they know it, the server first. A proof is the HMAC-SHA-256 of
// the connection's exported keying material (RFC 8446, 7.5) under a label for each end,
// with the token as key. So a proof is worth nothing on another connection, nor for the
// other end. The agent also knows the authority's hash, if it has a whole join line.
//
// A name joins once, and nobody joins once all are there. Both ends are of one build.
//
//	server                                agent
//	                <- TLS ->
//	opening: version, proof     ------->
//	                            <-------  greeting: version, proof, name, host
//	verdict: welcome, or why not ------>
//	                <- yamux ->
//	request, on a stream        ------->  one of a fixed list
//	                            <-------  answer, and what follows
//
// # What an agent does for a server
//
// It runs this program as a worker, with built-in functions, and nothing else. Paths
// that the server names lie below folders that the agent's user has allowed. It ends
// with its run, and its worker processes with it, however it ends.
package agent
