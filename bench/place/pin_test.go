package place

import (
	"reflect"
	"testing"

	"ipcbench/internal/test/check"
)

// TestPlace: processes get separate processors if there are enough of them, and share them otherwise.
func TestPlace(t *testing.T) {
	for _, tt := range []struct {
		cpus      []int
		processes int
		want      placement
	}{
		{[]int{0, 1}, 1, placement{[]int{0}, [][]int{{1}}}},
		{[]int{0, 1}, 2, placement{[]int{0}, [][]int{{1}, {0}}}},
		{[]int{3}, 2, placement{[]int{3}, [][]int{{3}, {3}}}},
		{[]int{0, 1, 2, 3}, 3, placement{[]int{0}, [][]int{{1}, {2}, {3}}}},
		{[]int{0, 2, 4, 6, 8, 10, 12, 14}, 2, placement{[]int{0, 2, 4, 6}, [][]int{{8, 10}, {12, 14}}}},
	} {
		got := distribute(tt.cpus, tt.processes)
		check.That(t, reflect.DeepEqual(got, tt.want), "%v for %d workers: got %v, want %v", tt.cpus, tt.processes, got, tt.want)
	}
}

// TestServerBudget: the server has the first processors, all worker processes the others.
func TestServerBudget(t *testing.T) {
	h := Here{cpus: []int{0, 2, 4, 6}}
	check.That(t, h.place(3).server == nil, "nothing is pinned")
	h.plan.ServerCPUs = 1
	check.That(t, reflect.DeepEqual(h.place(3), placement{[]int{0}, [][]int{{2, 4, 6}}}), "got %v", h.place(3))
	h.plan.ServerCPUs, h.plan.Pin = 0, true
	check.That(t, reflect.DeepEqual(h.place(3), placement{[]int{0}, [][]int{{2}, {4}, {6}}}), "got %v", h.place(3))
}
