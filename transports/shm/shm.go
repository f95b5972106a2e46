// Package shm hands packages over in shared memory, between a server and worker
// processes on one machine.
//
//   - [Slab] keeps all tensors in slabs that are made and touched before the first
//     round: one for the two models, and one for each lane's updates. Slabs are sealed
//     memfds without a name, passed by descriptor. No tensor is copied in either
//     direction, and rounds map and allocate nothing. Workers map the models
//     read-only, and the server maps the updates read-only.
//   - [PerTensor] keeps each tensor in a segment of its own, a file in a private
//     directory under /dev/shm. By default, segments are made anew for every round, as
//     in systems that share tensors one by one. It measures the cost of names, mappings
//     and first touches. No tensor is copied either, but each round makes a few small
//     allocations per tensor. With pass=pickle, only models are in segments, and updates
//     are serialized with gob.
//
// Jobs and receipts are sent through mailboxes in shared memory, one per lane and
// direction. A futex signals a message, with one system call to wake the peer and one to
// sleep. A mailbox's bytes count as sent and received, as a socket's would. Each lane
// also has a Unix socket, which carries descriptors. Its end tells each side at once that
// the other is gone.
//
// Data from another process is checked before use. If the peer could change the data
// between check and use, it is copied first.
//
// A job's device and configuration and the model's receipt must together fit into a
// mailbox of 256 KiB plus 64 bytes per tensor, and so must the update's receipt.
//
// docs/reference/protocol.md describes the protocol between Python workers and [Slab].
package shm

import "ipcbench/transports/driver"

// spins reports whether waiting keeps a processor busy (wait=spin).
func spins(s driver.Settings) bool { return s["wait"] == "spin" }

// controlBytes returns the size of all control areas of a session.
func controlBytes(o driver.Options) int64 {
	return int64(o.Lanes) * int64(controlSize(o.Down.Len())+controlSize(o.Up.Len()))
}
