package link

import (
	"testing"

	"ipcbench/internal/test/check"
)

// TestOnTheWay: onTheWay is large enough for the packets in flight at the highest rate with
// the longest delay.
func TestOnTheWay(t *testing.T) {
	check.Equal(t, (Rate{bits: most, delay: mostWait}).queueLimit(), 1000+32e9/8*10/500, "packets")
}
