package phase

import "unsafe"

// Now returns nanoseconds on a monotonic clock that all processes of this machine
// share. It costs some 40 ns.
//
// time.Now's monotonic part is this very reading, but package time gives differences
// only. The runtime takes it of CLOCK_MONOTONIC, in the process's own memory where
// the kernel allows it. It promises to keep the function and its signature
// (golang.org/issue/67401).
func Now() int64 { return nanotime() }

//go:linkname nanotime runtime.nanotime
func nanotime() int64

// labels are the profiler labels of a goroutine, as the runtime keeps them.
// Nothing here looks into them: they are made by runtime/pprof, read from a
// goroutine and given back to it.
//
// runtime/pprof can set a goroutine's labels but not return them, and to put back
// what was there before a span, one has to know it. Neither a lane nor a process
// identifies a goroutine: a library's handler and the lane that waits for it record
// at the same time. runtime.Stack would name the goroutine, and take longer than
// most spans. The two functions of the runtime below are what pprof.Do itself is
// made of, and the runtime promises to keep them and their signatures
// (golang.org/issue/67401, and the comments at their definitions).
//
// Proof: the type is a pointer to what the garbage collector knows and no
// arithmetic is done with it; it is only ever what the same runtime has returned.
type labels = unsafe.Pointer

//go:linkname goroutineLabels runtime/pprof.runtime_getProfLabel
func goroutineLabels() labels

//go:linkname setGoroutineLabels runtime/pprof.runtime_setProfLabel
func setGoroutineLabels(l labels)
