package transporttest

import (
	"slices"
	"testing"

	"ipcbench/scratch"
)

// TestLeftovers: what this process forgets is found although it holds the lock;
// what was there before is nobody's fault.
func TestLeftovers(t *testing.T) {
	for _, root := range scratch.Roots() {
		before := names()
		dir, err := scratch.New(root)
		check(t, err)
		for _, c := range []struct {
			when   string
			before []string
			want   bool
		}{{"made meanwhile", before, true}, {"there before", names(), false}} {
			if got := slices.Contains(leftovers(c.before), dir.Path()); got != c.want {
				t.Errorf("%s: %s: told %v, want %v", dir.Path(), c.when, got, c.want)
			}
		}
		check(t, dir.Close())
		if slices.Contains(leftovers(before), dir.Path()) {
			t.Errorf("%s: told, though it was closed", dir.Path())
		}
	}
}
