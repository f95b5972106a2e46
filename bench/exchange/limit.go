package exchange

import (
	"cmp"
	"math"
	"time"
)

// A block without a RoundLimit has firstLimit if it is the first of its cell. Later blocks have
// slowestTimes the duration of the slowest one, and slowestMore.
const (
	firstLimit   = 15 * time.Minute
	slowestTimes = 10
	slowestMore  = 2 * time.Minute
)

// otherRounds is the number of cold and proved rounds that a block may have, in addition to warm-up
// and timed rounds.
const otherRounds = 4

// Limit returns how long a program may take for the block. slowest is the duration of the slowest
// earlier block of its cell; zero means that there is none.
func (b *Block) Limit(slowest time.Duration) time.Duration {
	switch {
	case b.RoundLimit > 0:
		rounds := time.Duration(cmp.Or(b.Rounds, MostTimed) + b.Warmup + otherRounds)
		return min(b.RoundLimit, math.MaxInt64/rounds) * rounds
	case slowest == 0:
		return firstLimit
	}
	return slowestTimes*slowest + slowestMore
}
