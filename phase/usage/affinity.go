package usage

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Processors returns the processors that a thread may use, in order; 0 is the
// calling thread, and a process id its main thread.
func Processors(thread int) ([]int, error) {
	set, err := processors(thread, unix.SchedGetaffinityDynamic)
	if err != nil {
		return nil, err
	}
	var cpus []int
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
			left--
		}
	}
	return cpus, nil
}

// Affinity returns the processors that this process may use, in order: those of
// its main thread, with which it was started.
func Affinity() ([]int, error) { return Processors(os.Getpid()) }

// maxProcessors is more than any kernel can be built for.
const maxProcessors = 1 << 20

// processors asks get with larger and larger sets: the kernel refuses one that is
// smaller than its own, whose size it does not tell.
func processors(thread int, get func(int, unix.CPUSetDynamic) error) (unix.CPUSetDynamic, error) {
	for n := 1024; ; n *= 2 {
		set := unix.NewCPUSet(n)
		err := get(thread, set)
		if err == nil {
			return set, nil
		}
		if !errors.Is(err, unix.EINVAL) || n >= maxProcessors {
			return nil, fmt.Errorf("usage: read affinity: %w", err)
		}
	}
}

// restrict restricts a thread to cpus, and the threads and processes that it
// starts from then on; 0 is the calling thread.
func restrict(thread int, cpus []int) error {
	most := 0
	for _, cpu := range cpus {
		if cpu < 0 {
			return fmt.Errorf("usage: restrict to processors %v: %w", cpus, unix.EINVAL)
		}
		most = max(most, cpu)
	}
	set := unix.NewCPUSet(most + 1)
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinityDynamic(thread, set); err != nil {
		return fmt.Errorf("usage: restrict to processors %v: %w", cpus, err)
	}
	return nil
}

// Restricted calls start, which starts a process, with the calling thread
// restricted to cpus, unless there are none: the process inherits that, before it
// has any other thread. The caller has locked the thread.
func Restricted(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	before, err := Processors(0)
	if err != nil {
		return err
	}
	if err := restrict(0, cpus); err != nil {
		return err
	}
	return errors.Join(start(), restrict(0, before))
}

// Pin restricts this process, all its threads and those to come, to cpus.
func Pin(cpus []int) error {
	if len(cpus) == 0 {
		return errors.New("usage: pin to no processor")
	}
	pinned := map[int]bool{}
	// A thread that starts now has the affinity of the one that started it, which
	// may not have been reached yet: so until there is no new one.
	for fresh := true; fresh; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("usage: pin: %w", err)
		}
		fresh = false
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil || pinned[id] {
				continue
			}
			fresh, pinned[id] = true, true
			if err := restrict(id, cpus); err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended
				return err
			}
		}
	}
	got, err := Affinity()
	if err == nil && !slices.Equal(got, slices.Sorted(slices.Values(cpus))) {
		err = fmt.Errorf("usage: pin to processors %v: the kernel allows %v", cpus, got)
	}
	return err
}
