// Package trainer is a session of client-trainer processes: it starts workers,
// drives rounds through a transport, and stops everything in order.
//
//   - A [Session] is one session: a server, its lanes, and the worker processes that
//     host them. [Session.Round] runs one round.
//   - A [Launcher] brings worker processes into being: [NewProcesses] re-executes the
//     program, [NewCommand] executes another one, [NewGoroutines] stays inside it.
//     Nothing else knows the difference.
//   - A [Func] is a worker function, known by name, since another process cannot be
//     sent one. [Host] holds what a worker process must know.
//   - [Values] makes a worker function of one on Go values with tensors in them.
//     examples/fedavg is a whole training on that.
//
// A worker process lives like this. It is marked by an environment variable. Its
// control socket is file descriptor 3; type message lists the messages. The server
// says what the process hosts (assign), and the process says when it is connected
// (ready). Then both are silent while rounds are timed; marks around timed rounds come
// between rounds. If nothing has come from a process for a quarter of
// [Config.RoundLimit], the server asks what it is doing. At the end the process reports
// its samples. When the control socket closes, it ends, so there are no orphans. A
// message that nobody asked for, or that is too long, fails the session.
//
// Package trainer computes no statistics and prints nothing; only
// [Host.MaybeWorker], which owns its process, ends it.
package trainer
