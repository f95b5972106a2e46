package bench

import (
	"math"

	"ipcbench/bench/result"
	"ipcbench/internal/doctor"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
)

// What any session takes, by measurement: /proc/PID/fd and /proc/PID/task of servers
// and workers of all transports, with 1 to 32 workers. Most descriptors had servers of
// shm-slab: 22, 25, 67 and 234 with 1, 2, 8 and 32 lanes; those of sockets 3 a lane.
const (
	filesOfProcess = 24
	filesOfLane    = 7

	threadsOfServer = 16
	threadsOfLane   = 2 // of the server, one of which waits for the lane's process
	threadsOfWorker = 12
)

// What package result cannot import: the buffer that transports ask for, and how much a
// process can tell of what it runs on.
var (
	_ = [1]struct{}{}[result.SocketBuffer-driver.SocketBuffer]
	_ = [1]struct{}{}[result.MaxSoftware-trainer.MaxSoftware]
)

// Needs returns what a run of these cells takes of its machine, by the same numbers as
// Spec.Check. Of a cell that no machine could carry it has nothing.
func Needs(cells []Spec) doctor.Needs {
	n := doctor.Needs{Files: map[string]doctor.Need{}, Links: Links(cells)}
	for _, s := range cells {
		own, err := s.Variant.Needs(s.options())
		if err != nil || s.Variant.Footprint(s.options()) == math.MaxInt64 {
			continue
		}
		cell := s.String()
		n.Memory.Raise(s.memory(), cell)
		if own.Dir != "" {
			most := n.Files[own.Dir]
			most.Raise(own.Bytes, cell)
			n.Files[own.Dir] = most
		}
		n.Mappings.Raise(own.Mappings, cell)
		n.Workers.Raise(int64(s.Workers), cell)
		n.Spins = n.Spins || s.Variant.Traits().Spins
		if s.inside() {
			continue
		}
		lanes, processes := int64(s.Workers), int64(s.processes())
		n.Descriptors.Raise(max(own.Descriptors, filesOfProcess+filesOfLane*lanes), cell)
		n.Threads.Raise(threadsOfServer+threadsOfLane*lanes+threadsOfWorker*processes, cell)
		if own.Dir == "" && s.Variant.Settings["network"] != "" { // its bytes go through its sockets
			n.Socket = driver.SocketBuffer
		}
	}
	return n
}
