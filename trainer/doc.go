// Package trainer is a session of client-trainer processes: it starts workers,
// drives rounds through a transport, and stops everything in order.
//
//   - A [Session] is one session: a server, its lanes, and the worker processes that
//     host them. [Session.Round] runs one round.
//   - A [Launcher] brings worker processes into being: [Processes] re-executes the
//     program, [Goroutines] stays inside it. Nothing else knows the difference.
//   - A [Func] is a worker function, known by name, since a re-executed process
//     cannot be sent one. [Host] holds what a worker process must know.
//   - A [ClientTrainer] is the interface for training code: any Go value as
//     payload, any Go value back, with results cached in client order.
//
// A worker process lives like this. It is the same executable, marked by an
// environment variable. Its control socket is file descriptor 3; type message
// lists what is said there. It is told what it is (assign), says that it is
// connected (ready), and then both sides are silent while rounds are timed; marks
// around timed rounds are the exception, and they come between rounds. Only a
// process from which nothing has come for a quarter of [Config.RoundLimit] is asked
// what it does. At the end it reports its samples. When the control socket closes,
// it ends: there are no orphans. What it says out of turn, or at too great a
// length, fails the session.
//
// Package trainer computes no statistics and prints nothing; only
// [Host.MaybeWorker], which owns its process, ends it.
package trainer
