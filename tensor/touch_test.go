package tensor_test

import (
	"runtime"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/tensor"
)

// TestAllocTouched: all pages of the allocated memory are present, so that the first write
// causes no page faults.
func TestAllocTouched(t *testing.T) {
	const pages = 1024
	l, err := tensor.NewLayout([]tensor.Spec{
		{Name: "few", DType: tensor.U8, Shape: []int{100}},
		{Name: "many", DType: tensor.U8, Shape: []int{pages * 4096}},
		{Name: "none", DType: tensor.F32, Shape: []int{0}},
	})
	check.Must(t, err)
	absent := func(p *tensor.Package) (n int) {
		for i := range p.Len() {
			n += proc.Absent(t, p.View(i))
		}
		return n
	}
	p := tensor.Alloc(l)
	kept := []*tensor.Package{p}
	for absent(p) <= pages/2 && len(kept) < 200 { // the runtime has cleared memory that it had used before
		p = tensor.Alloc(l)
		kept = append(kept, p)
	}
	fresh, touched := absent(p), absent(tensor.AllocTouched(l, ""))
	runtime.KeepAlive(kept)
	check.That(t, fresh > pages/2 && touched <= pages/32,
		"%d of %d pages are absent after AllocTouched, %d after Alloc", touched, pages, fresh)
}
