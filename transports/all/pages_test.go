package all_test

import (
	"testing"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// TestPages: all memory that a transport lends is in pages of the size that was asked for, and its data is right. Huge pages are
// observed where this machine has them for all kinds of memory.
func TestPages(t *testing.T) {
	l := drivertest.Vectors(t, tensor.F32, 1<<20, 3, 2<<20) // 4 and 8 MiB, and a small one between them
	subjects := all.Transports()
	names := []string{"shm-tensor:pass=fd", "shm-tensor:pass=pickle", "shm-tensor:buffers=client", "shm-slab:copy=out", "http-shm:missing=50"}
	for _, tr := range subjects {
		names = append(names, tr.Name())
	}
	available := pages.Available(scratch.SharedMemory)
	t.Logf("huge pages: %v", available)
	for _, name := range names {
		v := check.Value(transports.Parse(name, subjects))(t)
		for _, size := range []pages.Size{pages.Small, pages.Huge} {
			t.Run(name+" "+string(size), func(t *testing.T) {
				pages.Forget()
				s := drivertest.Listen(t, v, driver.Options{Down: l, Up: l, Pages: size})
				s.Dial(0)
				for round := range 3 { // both models
					s.Publish(uint64(round))
					s.Prove(0, driver.Job{Round: round})
				}
				whole, huge, err := pages.Observe()
				check.Must(t, err)
				check.That(t, whole >= 2*4<<20, "%d bytes are observed", whole)
				switch {
				case size == pages.Small:
					check.Equal(t, huge, 0, "huge pages")
				case available == nil:
					check.Equal(t, huge, whole, "huge pages")
				}
			})
		}
	}
}
