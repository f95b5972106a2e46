// Package futex waits for, and wakes those who wait for, a 32-bit word in
// memory that several processes share.
//
//	// one process                        // another one, or several
//	seq.Add(1)                            last := seq.Load()
//	err := seq.Wake(futex.All)            err := seq.Wait(ctx, last) // until seq != last
//
// No wake-up is lost: the kernel compares the word with the expected value and
// goes to sleep in one step, so a change before the comparison is seen and a
// wake-up after it arrives. The one who changes the word must change it before
// it wakes.
//
// A word says that something changed. What changed, and who may write where, is
// the business of the packages that build on this one; mailboxes and rings are
// not found here. A word has no owner either: the death of a peer wakes nobody.
package futex

import (
	"context"
	"math"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// All makes [Word.Wake] wake everybody who waits.
const All = math.MaxInt32

// slice bounds one sleep in the kernel, and so how late the end of a context is
// noticed. Waking ten times a second costs nothing that could be measured.
const slice = 100 * time.Millisecond

// Wait sleeps until w holds something else than old. It returns nil then, and
// only then; a word that never changes is waited for until ctx ends, which is
// noticed within 100 ms. While it sleeps, it holds a thread but no processor.
func (w Word) Wait(ctx context.Context, old uint32) error { return w.waitIn(ctx, old, slice) }

func (w Word) waitIn(ctx context.Context, old uint32, slice time.Duration) error {
	for w.Load() == old {
		if err := ctx.Err(); err != nil {
			return err
		}
		sleep := slice
		if deadline, ok := ctx.Deadline(); ok {
			// At least a microsecond: no sleep of zero, which would spin.
			sleep = max(time.Microsecond, min(sleep, time.Until(deadline)))
		}
		if err := w.wait(old, int64(sleep)); err != nil {
			return err
		}
	}
	return nil
}

// looks is how often Spin looks at the word before it yields: about as long as
// the word takes to come from another core. Each so many times it also yields to other
// goroutines: for that the runtime wakes a thread, which takes this goroutine to
// another processor, where the peer may be.
const (
	looks = 64
	often = 64
)

// Spin is Wait without sleeping: it burns a processor for the sake of a fast
// answer. It yields to other processes all the time, and to other goroutines now and
// then, since on a machine without a processor to spare the peer could not run
// otherwise.
func (w Word) Spin(ctx context.Context, old uint32) error {
	for n := 1; ; n++ {
		for range looks {
			if w.Load() != old {
				return nil
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if n%often == 0 {
			runtime.Gosched()
		}
		// It cannot fail. Not RawSyscall: the kernel may come back late.
		unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// Linger spins for a moment, and reports whether w holds something else than old. To be
// woken takes some 20 µs where the processor has gone idle, as a virtual one does at once:
// to wait awake for as long before one sleeps costs at most twice what the best choice
// does, whatever the peer does (Karlin and others, "Empirical Studies of Competitive
// Spinning for a Shared-Memory Multiprocessor", 1991).
func (w Word) Linger(old uint32) bool {
	const moment = 20 * time.Microsecond
	for start := time.Now(); ; {
		for range looks {
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

// Wake wakes up to n of those who sleep in Wait for w, in any process, or all
// of them if n is [All]. It panics if n is not positive. A wake-up when nobody
// sleeps is not remembered, nor does it need to be.
func (w Word) Wake(n int) error {
	if n <= 0 {
		panic("futex: Wake of nobody")
	}
	return w.wake(int32(min(n, All)))
}
