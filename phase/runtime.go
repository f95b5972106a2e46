package phase

import "unsafe"

// Now returns a reading, in nanoseconds, of a monotonic clock that all processes of this
// machine share. It takes about 40 ns.
//
// It is the monotonic reading in time.Now, of which package time only returns
// differences. The runtime reads CLOCK_MONOTONIC, without a system call if the kernel
// allows it. It promises to keep the function and its signature
// (golang.org/issue/67401).
func Now() int64 { return nanotime() }

//go:linkname nanotime runtime.nanotime
func nanotime() int64

// labels are a goroutine's profiler labels as the runtime keeps them. They are opaque:
// runtime/pprof makes them, and this package reads them from a goroutine and sets them
// again.
//
// A span must restore the labels that the goroutine had before, but runtime/pprof can
// only set labels, not return them. They cannot be stored per lane or process, because a
// library's handler and the lane that waits for it record at the same time. Finding the
// goroutine with runtime.Stack would take longer than most spans. The two functions
// below are the ones that pprof.Do uses. The runtime promises to keep them and their
// signatures (golang.org/issue/67401, and the comments at their definitions).
//
// Proof: the type is a pointer to an object known to the garbage collector, no
// arithmetic is done with it, and its value always comes from the same runtime.
type labels = unsafe.Pointer

//go:linkname goroutineLabels runtime/pprof.runtime_getProfLabel
func goroutineLabels() labels

//go:linkname setGoroutineLabels runtime/pprof.runtime_setProfLabel
func setGoroutineLabels(l labels)
