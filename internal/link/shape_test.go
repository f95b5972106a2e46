package link

import (
	"testing"

	"ipcbench/internal/test/check"
)

// TestQueueLimit: the queue holds the packets that are on their way at the highest rate with the
// longest delay, and those that wait for 100 ms; without a rate, 64 MiB.
func TestQueueLimit(t *testing.T) {
	check.Equal(t, (Rate{bits: most, delay: mostWait}).queueLimit(), 100+32e9/8/1500*2.1, "packets")
	check.Equal(t, (Rate{bits: -1, delay: mostWait}).queueLimit(), 64<<20/1500, "packets")
}
