package phase

import (
	"time"

	"golang.org/x/sys/unix"
)

// anchor ties Go's monotonic clock to CLOCK_MONOTONIC, which all processes of
// a machine share. Both tick alike; only the offset has to be found, once.
var anchor = calibrate()

type anchored struct {
	at   time.Time
	mono int64 // CLOCK_MONOTONIC at at, ns
}

// calibrate reads both clocks as close together as it can: the reading of
// CLOCK_MONOTONIC that lies in the narrowest of several windows counts.
func calibrate() anchored {
	var best anchored
	narrowest := time.Duration(1<<63 - 1)
	for range 32 {
		before := time.Now()
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			panic("phase: clock_gettime: " + err.Error()) // every Linux has this clock
		}
		window := time.Since(before)
		if window < narrowest {
			narrowest = window
			best = anchored{at: before.Add(window / 2), mono: ts.Nano()}
		}
	}
	return best
}

// Now returns nanoseconds on a monotonic clock that all processes of this
// machine share (CLOCK_MONOTONIC). It costs some 40 ns.
func Now() int64 { return anchor.mono + int64(time.Since(anchor.at)) }
