// Package futex lets processes wait for a change of a 32-bit word in shared memory.
//
//	// one process                        // one or more others
//	seq.Add(1)                            last := seq.Load()
//	err := seq.Wake(futex.All)            err := seq.Wait(ctx, last) // until seq != last
//
// No wake-up is lost. The kernel compares the word with the expected value and starts to
// sleep in one step, so a change before the comparison is seen and a wake-up after it
// arrives. A process must change the word before it calls Wake.
//
// A word only signals that something has changed. The packages that use it define the
// meaning and who may write. A word has no owner, so the death of a process wakes no
// waiter.
package futex

import (
	"context"
	"math"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// All makes [Word.Wake] wake all waiters.
const All = math.MaxInt32

// slice is the longest sleep in the kernel, and so the longest delay until Wait notices
// that a context is done. Waking ten times per second has no measurable cost.
const slice = 100 * time.Millisecond

// Wait sleeps until the value of w differs from old, and then returns nil. If ctx is done
// before, it returns the error of ctx, at most 100 ms late. While it sleeps, it occupies
// a thread but no processor.
func (w Word) Wait(ctx context.Context, old uint32) error { return w.waitIn(ctx, old, slice) }

func (w Word) waitIn(ctx context.Context, old uint32, slice time.Duration) error {
	for w.Load() == old {
		if err := ctx.Err(); err != nil {
			return err
		}
		sleep := slice
		if deadline, ok := ctx.Deadline(); ok {
			// Sleep at least 1 µs, because sleeps of zero would spin.
			sleep = max(time.Microsecond, min(sleep, time.Until(deadline)))
		}
		if err := w.wait(old, int64(sleep)); err != nil {
			return err
		}
	}
	return nil
}

const (
	// loads is the number of loads between two yields of the processor. They take about
	// as long as the word takes to arrive from another core.
	loads = 64
	// yields is the number of such yields between two yields to other goroutines. For
	// that, the runtime wakes a thread, which moves this goroutine to another processor,
	// possibly the one that the peer needs.
	yields = 64
)

// Spin is like Wait, but polls instead of sleeping, for a fast answer. It occupies a
// processor. It yields to other processes often, and to other goroutines sometimes,
// because the peer may have no other processor.
func (w Word) Spin(ctx context.Context, old uint32) error {
	for n := 1; ; n++ {
		for range loads {
			if w.Load() != old {
				return nil
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if n%yields == 0 {
			runtime.Gosched()
		}
		// It cannot fail. RawSyscall would block the scheduler if the kernel returns late.
		unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// Linger spins for up to 20 µs, and reports whether the value of w differs from old. Waking
// takes about 20 µs if the processor has become idle, as virtual processors do at once.
// Spinning that long before sleeping costs at most twice as much as the best choice
// (Karlin and others, "Empirical Studies of Competitive Spinning for a Shared-Memory
// Multiprocessor", 1991).
func (w Word) Linger(old uint32) bool {
	const moment = 20 * time.Microsecond
	for start := time.Now(); ; {
		for range loads {
			if w.Load() != old {
				return true
			}
		}
		if time.Since(start) > moment {
			return false
		}
		unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // the peer may have no other processor
	}
}

// Wake wakes up to n waiters that sleep in Wait for w, in any process, or all of them if n
// is [All]. It panics if n is not positive. Without sleepers it has no effect.
func (w Word) Wake(n int) error {
	if n <= 0 {
		panic("futex: Wake needs a positive number")
	}
	return w.wake(int32(min(n, All)))
}
