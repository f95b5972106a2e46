package exchange_test

import (
	"math"
	"testing"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/internal/test/check"
)

// TestLimit: how long a program may take for a block follows from --round-limit or, without it, from the slowest block
// of the cell.
func TestLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		block         exchange.Block
		slowest, want time.Duration
	}{
		"first block":    {exchange.Block{Rounds: 5}, 0, 15 * time.Minute},
		"later block":    {exchange.Block{Rounds: 5}, time.Minute, 12 * time.Minute},
		"round limit":    {exchange.Block{Rounds: 5, Warmup: 3, RoundLimit: time.Minute}, time.Second, 12 * time.Minute},
		"rounds by time": {exchange.Block{Time: time.Second, RoundLimit: time.Minute}, 0, 104 * time.Minute},
		"no overflow":    {exchange.Block{Rounds: 96, RoundLimit: math.MaxInt64 / 2}, 0, math.MaxInt64 / 100 * 100},
	} {
		check.Equal(t, tt.block.Limit(tt.slowest), tt.want, name)
	}
}
