package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/bench/result"
)

// rest waits for the next cycle of a run with --spread. Its time is divided into a slot for each cycle, which begins
// at a random moment of its slot, since other programs on a machine run at round times. The first begins at once, for
// someone who watches. A cycle that is longer than its slot delays the next one, which begins at once.
//
// Nothing runs meanwhile but a link and agents. Slots are by the clock that counts while a machine is suspended.
func (r *run) rest(ctx, quit context.Context) error {
	p := r.Plan
	if p.Spread == 0 || r.cycle == 0 || r.cycle >= p.Blocks {
		return nil
	}
	slot, from := r.slot(), now()
	free := max(0, slot-(from.boot-r.cycleBegan)) // the cycle should end within its slot
	random := rand.New(rand.NewPCG(p.OrderSeed, uint64(r.cycle)))
	due := r.began.boot + slot*time.Duration(r.cycle) + time.Duration(random.Float64()*float64(free))
	pause := result.Pause{At: time.Since(r.started)}
	debug.FreeOSMemory()
	r.pace.until = time.Now().Add(due - from.boot)
	defer func() { r.pace.until = time.Time{} }()
	for left := due - from.boot; left > 0; left = due - now().boot {
		r.progress(fmt.Sprintf("the next cycle, %d of %d, begins at %s", r.cycle+1, p.Blocks, r.pace.until.Format(time.TimeOnly)))
		select {
		case <-time.After(min(left, time.Second)):
		case <-quit.Done():
			return quit.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	to := now()
	if late := to.boot - due; late > slot/100 {
		pause.Late = late
	}
	pause.Time, pause.Suspended, pause.Moved = to.boot-from.boot, noticed(to.boot-from.boot, to.awake-from.awake), noticed(to.wall-from.wall, to.boot-from.boot)
	r.paused += pause.Time
	r.result.Pauses = append(r.result.Pauses, pause)
	return nil
}

// slot returns the part of the time that a cycle has.
func (r *run) slot() time.Duration { return r.Plan.Spread / time.Duration(r.Plan.Blocks) }

// clocks are readings of three clocks: all time, all time without suspensions, and what users set.
type clocks struct{ boot, awake, wall time.Duration }

func now() clocks {
	read := func(clock int32) time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(clock, &t) // all systems have these clocks
		return time.Duration(t.Nano())
	}
	return clocks{read(unix.CLOCK_BOOTTIME), read(unix.CLOCK_MONOTONIC), read(unix.CLOCK_REALTIME)}
}

// noticed returns the difference between what two clocks have counted, or 0 if it is small, as
// between readings of any two clocks.
func noticed(a, b time.Duration) time.Duration {
	if d := a - b; d.Abs() > 2*time.Second {
		return d
	}
	return 0
}
