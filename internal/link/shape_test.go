package link

import "testing"

// TestOnTheWay: the longest delay of the fastest link has room for what is on its way.
func TestOnTheWay(t *testing.T) {
	if got := (Rate{bits: most, delay: mostWait}).onTheWay(); got != 1000+32e9/8*10/500 {
		t.Errorf("got %d packets", got)
	}
}
