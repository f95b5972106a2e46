package result_test

import (
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// TestOneLength: the lists of a block keep the times of the same clients. A complete list beside thinned
// ones would be indexed beyond their ends.
func TestOneLength(t *testing.T) {
	list := func(n int) []int64 { return make([]int64, n) }
	block := func(train, rtt, down, up int) result.Block {
		return result.Block{Round: list(2), Train: list(train), RTT: list(rtt), Down: list(down), Up: list(up)}
	}
	for _, lengths := range [][4]int{{4, 4, 4, 4}, {2, 2, 2, 2}} {
		check.OK(t, block(lengths[0], lengths[1], lengths[2], lengths[3]).Validate(2), lengths)
	}
	for want, b := range map[string]result.Block{
		"rtt_ns: 4 samples: must be 2, as many as train_ns":  block(2, 4, 2, 2),
		"rtt_ns: 2 samples: must be 4, as many as train_ns":  block(4, 2, 4, 4),
		"down_ns: 4 samples: must be 2, as many as train_ns": block(2, 2, 4, 2),
		"up_ns: 2 samples: must be 4, as many as train_ns":   block(4, 4, 4, 2),
		"train_ns: 3 samples: must be 4 for 2 rounds":        block(3, 3, 3, 3),
	} {
		check.Fails(t, b.Validate(2), want)
	}
}
