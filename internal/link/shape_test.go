package link

import (
	"testing"

	"ipcbench/internal/test/check"
)

// TestOnTheWay: the longest delay of the fastest link has room for what is on its way.
func TestOnTheWay(t *testing.T) {
	check.Equal(t, (Rate{bits: most, delay: mostWait}).onTheWay(), 1000+32e9/8*10/500, "packets")
}
