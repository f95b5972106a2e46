package usage

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Processors returns the processors that a thread may use, in ascending order. Thread 0
// is the calling thread, and a process id is the process's main thread.
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

// Affinity returns the processors that this process's main thread may use, in ascending
// order.
func Affinity() ([]int, error) { return Processors(os.Getpid()) }

// maxProcessors is more than the limit of any kernel.
const maxProcessors = 1 << 20

// processors calls get with larger and larger sets. The kernel rejects a set smaller
// than its own, and does not report that size.
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

// restrict restricts a thread, and the threads and processes that it starts later, to
// cpus. Thread 0 is the calling thread.
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

// Restricted calls start, which starts a process, with the calling thread restricted to
// cpus, unless cpus is empty. The process inherits the restriction before it has other
// threads. The caller must have locked the goroutine to its thread.
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

// Pin restricts this process to cpus: all its threads, and the ones they start later. It
// fails if the kernel then allows other processors.
func Pin(cpus []int) error {
	if len(cpus) == 0 {
		return errors.New("usage: pin to no processor")
	}
	pinned := map[int]bool{}
	// A new thread inherits the affinity of the thread that started it, which may not be
	// pinned yet. So repeat until there is no new thread.
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
			if err := restrict(id, cpus); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: the thread has ended
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
