package trainer

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"ipcbench/phase/usage"
)

// Affinity returns the processors that this process may use, in order: those of
// its main thread.
func Affinity() ([]int, error) {
	cpus, err := usage.Processors(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	return cpus, nil
}

// Pin restricts this process, all its threads and those to come, to cpus.
func Pin(cpus []int) error {
	if len(cpus) == 0 {
		return errors.New("trainer: pin to no processor")
	}
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
			if err := usage.Restrict(id, cpus); err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended
				return fmt.Errorf("trainer: pin: %w", err)
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
