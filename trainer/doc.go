// Package trainer starts worker processes, runs rounds with them, and stops them in order.
//
//   - A [Session] is a server, its lanes, and the worker processes that host them.
//     [Session.Round] runs one round.
//   - A [Launcher] starts worker processes: [NewProcesses] runs this program again,
//     [NewCommand] runs another one, and [NewGoroutines] starts goroutines instead.
//     All other code is the same for the three.
//   - A [Func] makes worker functions. Sessions refer to it by name, because a function
//     cannot be sent to another process. [Host] maps names to functions.
//   - [Values] makes a Func from a function on Go values that contain tensors.
//     examples/fedavg is a complete training program built on it.
//
// A worker process has a role of package reexec. Its control socket is file descriptor
// 3; type message lists the messages. The server assigns lanes to the process (assign),
// and the process answers when they are connected (ready). While rounds are timed, the
// socket is silent; marks are sent between rounds. If a process sends nothing for a
// quarter of [Config.RoundLimit], the server asks for its state. At the end the process
// reports its samples. It ends when the control socket closes, so there are no orphans.
// An unrequested or too long message fails the session.
//
// Package trainer computes no statistics and prints nothing. It never ends the calling
// process, except in [Host.MaybeWorker].
package trainer
