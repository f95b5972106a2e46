package trainer

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Affinity returns the processors that this process may use, in order: those of
// its main thread.
func Affinity() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return nil, fmt.Errorf("trainer: read affinity: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

func cpuSet(cpus []int) *unix.CPUSet {
	set := new(unix.CPUSet)
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return set
}

// Pin restricts this process, all its threads and those to come, to cpus.
func Pin(cpus []int) error {
	if len(cpus) == 0 {
		return errors.New("trainer: pin to no processor")
	}
	set := cpuSet(cpus)
	pinned := map[int]bool{}
	// A thread that starts now has the affinity of the one that started it, which
	// may not have been reached yet: so until there is no new one.
	for {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("trainer: pin: %w", err)
		}
		fresh := false
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil || pinned[id] {
				continue
			}
			fresh, pinned[id] = true, true
			if err := unix.SchedSetaffinity(id, set); err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended
				return fmt.Errorf("trainer: pin to processors %v: %w", cpus, err)
			}
		}
		if !fresh {
			break
		}
	}
	got, err := Affinity()
	if err == nil && !slices.Equal(got, slices.Sorted(slices.Values(cpus))) {
		err = fmt.Errorf("trainer: pin to processors %v: the kernel allows %v", cpus, got)
	}
	return err
}

// pinned calls start, which starts a process, with the calling thread pinned to
// cpus: the process inherits that, before it has any other thread. The caller
// has locked the thread.
func pinned(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read affinity: %w", err)
	}
	if err := unix.SchedSetaffinity(0, cpuSet(cpus)); err != nil {
		return fmt.Errorf("pin to processors %v: %w", cpus, err)
	}
	err := start()
	if restore := unix.SchedSetaffinity(0, &before); restore != nil {
		err = errors.Join(err, fmt.Errorf("unpin: %w", restore))
	}
	return err
}
