package tensor

import (
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
)

// TestAllocTouched: the first write to the allocated memory causes hardly any page faults.
func TestAllocTouched(t *testing.T) {
	const pages = 4096
	l, err := NewLayout([]Spec{{Name: "few", DType: U8, Shape: []int{100}}, {Name: "many", DType: U8, Shape: []int{pages * 4096}}, {Name: "none", DType: F32, Shape: []int{0}}})
	check.Must(t, err)
	faults := func(alloc func(*Layout) *Package) int64 {
		debug.FreeOSMemory() // so that no memory is reused
		p := alloc(l)
		var before, after unix.Rusage
		check.Must(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
		for i := range p.Len() {
			clear(p.View(i))
		}
		check.Must(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
		return after.Minflt - before.Minflt
	}
	if fresh, touched := faults(Alloc), faults(AllocTouched); touched > 1 && touched > fresh/4 { // the rest of the process causes faults too
		t.Errorf("%d faults after AllocTouched, %d after Alloc", touched, fresh)
	}
}
