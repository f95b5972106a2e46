package bench

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"ipcbench/phase/usage"
)

// A placement says on which processors the processes of a session run.
type placement struct {
	server  []int
	workers [][]int // by process
}

// place shares cpus out: each process gets as many neighbouring ones, and the
// server what is left over. Where there are fewer processors than processes, each
// process gets one, round and round.
func place(cpus []int, processes int) placement {
	share := max(1, len(cpus)/(processes+1))
	mine := max(1, len(cpus)-share*processes)
	p := placement{server: cpus[:mine]}
	for i := range processes {
		at := (mine + i*share) % len(cpus)
		p.workers = append(p.workers, cpus[at:at+share])
	}
	return p
}

// processes returns how many worker processes the cell has.
func (s Spec) processes() int { return (s.Workers + s.PerProcess - 1) / s.PerProcess }

// pinned calls f with this process on the server's processors, and takes the
// restriction back.
func (p placement) pinned(f func() error) (err error) {
	before, err := usage.Affinity()
	if err != nil {
		return err
	}
	threads := runtime.GOMAXPROCS(len(p.server)) // more would only take turns
	defer func() {
		runtime.GOMAXPROCS(threads)
		err = errors.Join(err, usage.Pin(before))
	}()
	if err := usage.Pin(p.server); err != nil {
		return err
	}
	return f()
}

// verify compares where the processes of the block say that they could run with
// where they were put.
func (p placement) verify(b *Block) error {
	check := func(who string, got, want []int) error {
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s was pinned to processors %v and could use %v", who, want, got)
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
