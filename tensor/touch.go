package tensor

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ipcbench/tensor/pages"
)

const page = 4096

// AllocIn is [Alloc] in pages of that size.
func AllocIn(l *Layout, s pages.Size) *Package {
	if s == pages.System {
		return Alloc(l)
	}
	return inMemory(l, s.Heap(l.size+Align))
}

// AllocTouched is [Alloc] in pages of that size, all of them already present, so that a round has no
// page faults.
func AllocTouched(l *Layout, s pages.Size) *Package {
	p := inMemory(l, s.Heap(l.size+Align))
	for _, d := range p.data {
		touch(d, s)
	}
	return p
}

// touch makes the pages of d present. d must be zeroed.
func touch(d []byte, s pages.Size) {
	if len(d) == 0 {
		return
	}
	head := min(len(d), toPage(d))
	Touch(d[head:head+(len(d)-head)/page*page], s)
	d[0], d[len(d)-1] = 0, 0
}

// leastShare is the smallest amount of memory that is worth a goroutine.
const leastShare = 1 << 20

// Touch makes the kernel provide memory for pages, which must start at a page boundary,
// so that later writes cause no page faults. It uses all processors and needs half the
// time of the faults. The contents stay. Touch does not report a lack of memory: later
// writes to the pages fail instead. Huge pages are also written, because some hypervisors provide them
// only then.
func Touch(mem []byte, s pages.Size) {
	share := len(mem)/runtime.GOMAXPROCS(0)/page*page + page
	var shares sync.WaitGroup
	for part := range slices.Chunk(mem, max(leastShare, share)) {
		shares.Go(func() {
			if unix.Madvise(part, unix.MADV_POPULATE_WRITE) == unix.EINVAL || s == pages.Huge { // Linux before 5.14
				words := Slice[uint32](part)
				for i := 0; i < len(words); i += page / 4 {
					atomic.AddUint32(&words[i], 0)
				}
			}
		})
	}
	shares.Wait()
}
