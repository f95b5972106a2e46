package place

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/phase/usage"
)

// A placement assigns processors to the processes of a session.
type placement struct {
	server  []int
	workers [][]int // by process
}

// distribute distributes cpus: each worker process gets equally many adjacent ones, and the
// server gets the rest. With fewer processors than processes, each process gets one, in
// turn.
func distribute(cpus []int, processes int) placement {
	share := max(1, len(cpus)/(processes+1))
	mine := max(1, len(cpus)-share*processes)
	p := placement{server: cpus[:mine]}
	for i := range processes {
		at := (mine + i*share) % len(cpus)
		p.workers = append(p.workers, cpus[at:at+share])
	}
	return p
}

// place returns the placement of a session with that many worker processes; the zero one means
// that nothing is pinned.
func (h *Here) place(processes int) placement {
	switch n := h.plan.ServerCPUs; {
	case n > 0:
		return placement{server: h.cpus[:n], workers: [][]int{h.cpus[n:]}}
	case h.plan.Pin:
		return distribute(h.cpus, processes)
	}
	return placement{}
}

// pinned calls f while this process is pinned to the server's processors, then restores
// its affinity.
func (p placement) pinned(f func() error) (err error) {
	before, err := usage.Affinity()
	if err != nil {
		return err
	}
	threads := runtime.GOMAXPROCS(len(p.server)) // more threads would only take turns
	defer func() {
		runtime.GOMAXPROCS(threads)
		err = errors.Join(err, usage.Pin(before))
	}()
	if err := usage.Pin(p.server); err != nil {
		return err
	}
	return f()
}

// verify returns an error if a process of the block reports other processors than it was
// pinned to.
func (p placement) verify(b *result.Block) error {
	check := func(who string, got, want []int) error {
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s was pinned to processors %v, but could use %v", who, want, got)
		}
		return nil
	}
	if err := check("the server", b.Server.CPUs, p.server); err != nil {
		return err
	}
	for i, w := range b.Processes {
		if err := check(fmt.Sprintf("process %d", i), w.CPUs, p.workers[i%len(p.workers)]); err != nil {
			return err
		}
	}
	return nil
}
