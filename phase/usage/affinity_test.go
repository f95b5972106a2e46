package usage

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"ipcbench/internal/test/check"

	"golang.org/x/sys/unix"
)

// TestProcessors: a restricted thread has only the given processors, and all its former ones afterwards.
func TestProcessors(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := check.Value(Processors(0))(t)
	one := before[len(before)-1:]
	check.Must(t, Restricted(one, func() error {
		got, err := Processors(0)
		check.Equal(t, got, one, "restricted to one, it has")
		return err
	}))
	got, err := Processors(0)
	check.That(t, err == nil && slices.Equal(got, before), "afterwards: got %v, %v, want %v", got, err, before)
	err = Restricted([]int{maxProcessors}, func() error { return nil })
	check.That(t, errors.Is(err, unix.EINVAL), "a processor that does not exist: got %v", err)
}

// TestManyProcessors: if the kernel has more processors than fit the usual set, the call is repeated with a larger set.
// The kernel fails as sched_getaffinity(2) says.
func TestManyProcessors(t *testing.T) {
	const kernel = 8192
	get := func(_ int, set unix.CPUSetDynamic) error {
		if len(set)*64 < kernel {
			return unix.EINVAL
		}
		set.Set(kernel - 1)
		return nil
	}
	set, err := processors(0, get)
	check.That(t, err == nil && set.Count() == 1 && set.IsSet(kernel-1), "got %d processors, %v", set.Count(), err)
	never := func(int, unix.CPUSetDynamic) error { return unix.EINVAL }
	_, err = processors(0, never)
	check.That(t, errors.Is(err, unix.EINVAL), "got %v, want EINVAL in the end", err)
}
