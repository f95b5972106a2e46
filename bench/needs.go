package bench

import (
	"math"

	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/doctor"
	"ipcbench/trainer"
	"ipcbench/transports/endpoint"
)

// Needs of any session, measured in /proc/PID/fd and /proc/PID/task of servers and
// workers of all transports, with 1 to 32 workers. Servers of shm-slab had most
// descriptors: 22, 25, 67 and 234 with 1, 2, 8 and 32 lanes. Servers with sockets had 3
// per lane.
const (
	filesOfProcess = 24
	filesOfLane    = 7

	threadsOfServer = 16
	threadsOfLane   = 2 // in the server; one of them waits for the lane's process
	threadsOfWorker = 12
)

// Package result cannot import these constants, so they are compared here, at compile
// time: the socket buffer that transports request, and the number of software entries.
var (
	_ = [1]struct{}{}[result.SocketBuffer-endpoint.SocketBuffer]
	_ = [1]struct{}{}[result.MaxSoftware-trainer.MaxSoftware]
)

// Needs returns what a run of these cells needs of its machine, by the same numbers as
// [session.Spec.Check]. Cells that cannot run on any machine are ignored.
func Needs(cells []session.Spec) doctor.Needs {
	n := doctor.Needs{Files: map[string]doctor.Need{}, Links: session.Links(cells)}
	for _, s := range cells {
		needs, err := s.Variant.Needs(s.Options())
		if err != nil || s.Variant.Footprint(s.Options()) == math.MaxInt64 {
			continue
		}
		cell := s.String()
		n.Memory.Raise(s.Memory(), cell)
		if needs.Dir != "" {
			most := n.Files[needs.Dir]
			most.Raise(needs.Bytes, cell)
			n.Files[needs.Dir] = most
		}
		n.Mappings.Raise(needs.Mappings, cell)
		n.Workers.Raise(int64(s.Workers), cell)
		n.Spins = n.Spins || s.Variant.Traits().Spins
		if s.Inside() {
			continue
		}
		lanes, processes := int64(s.Workers), int64(s.Processes())
		n.Descriptors.Raise(max(needs.Descriptors, filesOfProcess+filesOfLane*lanes), cell)
		n.Threads.Raise(threadsOfServer+threadsOfLane*lanes+threadsOfWorker*processes, cell)
		if needs.Dir == "" && s.Variant.Settings["network"] != "" { // its tensors travel through its sockets
			n.Socket = endpoint.SocketBuffer
		}
	}
	return n
}
