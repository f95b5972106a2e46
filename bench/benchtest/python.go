package benchtest

import (
	"strings"
	"time"

	"ipcbench/bench/result"
)

// trained sets the times of c: train ms for each training, plus transfer ms for each round trip.
func trained(c result.Cell, train, transfer float64) result.Cell {
	for i := range c.Blocks {
		b := &c.Blocks[i]
		vary := float64(b.Round[0]) / float64(c.Blocks[2].Round[0]) * float64(MS)
		b.Phases["train"] = 0
		for k := range b.Train {
			b.Train[k] = int64(train * vary)
			b.RTT[k] = int64((train + transfer) * vary)
			b.Down[k], b.Up[k] = int64(0.6*transfer*vary), int64((train+0.4*transfer)*vary)
			b.Phases["train"] += b.Train[k]
		}
	}
	return c
}

// Python returns a result with workers in Go and in Python, and with peers. Peer mine is unproved and has the shortest
// rounds for histology. For model histology, some peers train longer than the control; for cnn, all train equally long.
func Python() *result.Result {
	r := Result()
	for _, of := range []struct {
		model        string
		train, share float64 // ms of training, and a factor for the transfers
	}{{"cnn", 0.12, 0.004}, {"histology", 30, 1}} {
		for _, row := range []struct {
			name, counter   string
			train, transfer float64 // a factor for histology's training, and ms of transfer
		}{
			{"inproc", "handle.tensors", 1, 0.02}, {"shm-slab", "handle.tensors", 1, 0.2}, {"http", "body.tensors", 1, 20}, {"grpc-stream", "body.tensors", 1, 40},
			{"python shm-slab", "handle.tensors", 1.02, 0.35}, {"python grpc-stream", "body.tensors", 1.03, 70}, {"python http", "body.tensors", 1.01, 30}, {"python http-shm", "handle.tensors", 1.02, 1},
			{"py-torch-queue", "handle.tensors", 1.6, 90}, {"py-grpc", "body.tensors", 1.05, 400}, {"py-http-json", "body.tensors", 1.3, 1900},
			{"mine", "body.tensors", 0.2, 0.1},
		} {
			train := of.train * row.train
			if of.model == "cnn" {
				train = of.train
			}
			name, python := strings.CutPrefix(row.name, "python ")
			c := Cell(name, Models[of.model], 1, 1, Six(1.6*of.train+train+row.transfer*of.share)...)
			c = Count(trained(c, train, row.transfer*of.share), row.counter, 80)
			switch {
			case python:
				c.Language, c.Launcher = "python", "python"
				c.Software = map[string]string{"python": "3.11.2", "numpy": "1.24.2", "kernel": "C", "threads": "1"}
				for i := range c.Blocks {
					c.Blocks[i].Processes[0].Import = 110 * time.Millisecond
				}
			case strings.HasPrefix(name, "py-"):
				Peer(r, &c, "python/peers/"+strings.ReplaceAll(name, "-", "_")+".py", map[string]string{"python": "3.11.2", "numpy": "1.24.2", "kernel": "C"})
			case name == "mine":
				Peer(r, &c, "./mine --fast", nil)
				c.Unproved = "its answer has no hash of round 3"
			}
			r.Cells = append(r.Cells, c)
		}
	}
	return r
}
