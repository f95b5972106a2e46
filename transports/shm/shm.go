// Package shm hands packages over in shared memory, between a server and worker
// processes of one machine.
//
//   - [Slab] keeps all tensors in slabs that are made and touched before the first
//     round: one for the models, two rounds deep, and one for each lane's
//     updates. They are sealed memfds without a name, passed by descriptor. No
//     tensor is copied in either direction, nothing is mapped or allocated in a
//     round. The model is mapped read-only by workers, an update by the server.
//   - [PerTensor] keeps each tensor in a segment of its own, a file in a private
//     directory under /dev/shm, made anew for every round, as systems that share
//     tensors one by one do. It shows what names, mappings and first touches
//     cost. No tensor is copied either, but each round makes a few small
//     allocations a tensor.
//
// Jobs and receipts travel in a mailbox in shared memory, one for each lane and
// direction, with a futex for a bell: one system call to wake the peer and one to
// sleep. Its bytes count as sent and received, as those of a socket would. A Unix
// socket a lane carries descriptors, and its end tells each side at once that the
// other one is gone.
//
// What arrives from another process is checked before it is used, and copied
// before it is checked where the peer could change it meanwhile.
//
// A job's device and configuration, the model's receipt and the update's receipt
// must fit into the mailbox: 256 KiB and 64 bytes a tensor.
//
// docs/protocol.md says what a worker in Python speaks with [Slab].
package shm

import "ipcbench/transports/driver"

// spins reports whether waiting burns a processor.
func spins(s driver.Settings) bool { return s["wait"] == "spin" }

// controlBytes is the size of all control areas of a session.
func controlBytes(o driver.Options) int64 {
	return int64(o.Lanes) * int64(controlSize(o.Down.Len())+controlSize(o.Up.Len()))
}
