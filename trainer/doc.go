// Package trainer starts worker processes, runs rounds with them, and stops them in order.
//
// A [Config] enters, and in every round a model with the clients to train it. Their updates leave or,
// with [Session.Fold], the next model; at the end a [Report] with the samples and costs of all processes.
//
//   - A [Session] is a server, its lanes, and the worker processes that host them.
//     [Session.Round] runs one round.
//   - A [Launcher] starts worker processes: [NewProcesses] runs this program again,
//     [NewCommand] runs another one, and [NewGoroutines] starts goroutines instead.
//     All other code is the same for the three.
//   - A [Func] makes worker functions. Sessions refer to it by name, because a function
//     cannot be sent to another process. [Host] maps names to functions.
//   - [Values] makes a Func from a function on Go values that contain tensors.
//     Package fedavg is a trainer of clients built on it.
//
// Package trainer computes no statistics and prints nothing. It never ends the calling
// process, except in [Host.MaybeWorker].
package trainer
