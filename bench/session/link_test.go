package session

import (
	"strings"
	"testing"
	"time"

	"ipcbench/internal/test/check"
)

// TestSlowLink: if rounds take seconds on a link, few are run, and each may take its time.
func TestSlowLink(t *testing.T) {
	plan := check.Value(DefaultPlan(Default))(t)
	slow := specOf(t, "http:network=tcp histology link=100Mbit")
	each := slow.overLink() // 66.6 MB in each direction
	check.That(t, each >= 10*time.Second && each <= 12*time.Second, "a round needs %v on the link, want 10.7 s", each)
	p := slow.BlockPlan(plan)
	check.That(t, p.Least == 4 && p.Warmup == 0 && p.Starts == 0 && p.RoundLimit > each, "got %+v", p)
	usual := plan
	usual.Blocks, usual.Time = 1, plan.Time/time.Duration(plan.Blocks)
	for _, rate := range []string{" link=10Gbit", " link=unshaped", ""} {
		check.Equal(t, specOf(t, "http:network=tcp histology"+rate).BlockPlan(plan), usual, rate)
	}
	over := specOf(t, "http:network=tcp histology workers=2 clients=2 link=100Mbit").overLink()
	check.That(t, over > each && over < 2*each,
		"two workers need %v, want between %v and %v: some goes up while some goes down", over, each, 2*each)
}

// TestCheckLink: a cell without a network cannot be on a link, and the control is on none. Outside of its link, a cell
// fails.
func TestCheckLink(t *testing.T) {
	for variant, good := range map[string]bool{"http:network=tcp": true, "http": false, "shm-slab": false, "http-shm:network=tcp": false, "http-shm:network=tcp:shm=off": true} {
		s := specOf(t, variant+" cnn link=100Mbit")
		err := s.Check()
		check.That(t, (err == nil) == good && (good || strings.Contains(err.Error(), "--link 100Mbit")), "%s: got %v", variant, err)
		id := s.String()
		check.That(t, strings.HasSuffix(id, " link=100Mbit"), "its name is %s", id)
	}
	s := specOf(t, "http:network=tcp cnn link=100Mbit")
	c := s.Control(s.Variant)
	check.That(t, !c.Linked(), "the control is on %v", c.Link)
}
