// Package usage measures the resources that a process uses between two marks.
// They are CPU time, page faults, context switches, waiting for a processor, allocations,
// garbage collection, reads and writes.
//
//	before, err := usage.Read()
//	... the timed round ...
//	after, err := usage.Read()
//	total = total.Add(after.Since(before))
//
// Every process reads its own counters at the same marks, and the differences are added
// up; nothing is sampled from outside. [Read] takes about 20 µs, so it can be called
// between any two rounds. [ReadMemory] walks the page tables, so it must be called
// outside the marks. [ReadSystem] returns the whole machine's CPU time, which shows the
// load from other processes.
//
// Values that the machine does not provide are absent (a nil pointer, no key in JSON),
// never zero.
package usage

import (
	"fmt"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// A Usage is the cost of a process.
//
// [Read] returns the cost since the start of the process, and Since the cost between two
// marks. Durations are nanoseconds in JSON.
type Usage struct {
	// CPU time outside the kernel
	User time.Duration `json:"user_ns"`
	// CPU time in the kernel; the sum of both is exact, but the kernel estimates the
	// split
	System time.Duration `json:"system_ns"`

	// page faults that read nothing from a disk
	MinorFaults int64 `json:"minor_faults"`
	// page faults that waited for a disk
	MajorFaults int64 `json:"major_faults"`
	// context switches because the process had to wait
	VoluntarySwitches int64 `json:"voluntary_switches"`
	// context switches because another process got the processor
	InvoluntarySwitches int64 `json:"involuntary_switches"`

	// memory allocated by Go code
	//
	// The Go runtime counts small objects when it takes the next span for them: up to 8
	// KiB per size class and processor may be counted late.
	AllocBytes int64 `json:"alloc_bytes"`
	// number of these allocations
	AllocObjects int64 `json:"alloc_objects"`
	// completed garbage collections
	GCCycles int64 `json:"gc_cycles"`
	// CPU time of garbage collection, also included in the CPU time above
	GCTime time.Duration `json:"gc_cpu_ns"`

	// time spent waiting for a processor; absent if the kernel does not count it
	Queue *Queue `json:"queue,omitempty"`
	// input and output; absent if the kernel does not count it
	IO *IO `json:"io,omitempty"`
}

// A Queue is the time that threads waited for a processor. It is the best sign that
// other processes disturbed a measurement.
type Queue struct {
	// time in which threads could run but had no processor, summed over the threads
	Wait time.Duration `json:"wait_ns"`
}

// An IO is the data moved by read(2), write(2) and similar calls on files, pipes and
// sockets. It includes neither shared memory nor data moved by sendmsg(2) and
// recvmsg(2).
//
// It includes the reads of [Read] itself: one per thread and a few more.
type IO struct {
	ReadBytes    int64 `json:"read_bytes"`    // bytes that system calls read, from sockets and files
	WrittenBytes int64 `json:"written_bytes"` // bytes that system calls wrote
	ReadCalls    int64 `json:"read_calls"`    // number of system calls that read
	WriteCalls   int64 `json:"write_calls"`   // number of system calls that wrote
}

// Read returns the cost of this process since its start.
func Read() (Usage, error) {
	u, err := kernel(unix.RUSAGE_SELF)
	if err == nil {
		u.Queue, u.IO = readQueue(), readIO()
		u.readRuntime()
	}
	return u, err
}

// Children returns the whole cost of the child processes that this process has waited
// for, limited to the fields in [Usage.Kernel].
func Children() (Usage, error) { return kernel(unix.RUSAGE_CHILDREN) }

func kernel(who int) (Usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(who, &r); err != nil {
		return Usage{}, fmt.Errorf("usage: getrusage: %w", err)
	}
	return Usage{
		User: time.Duration(r.Utime.Nano()), System: time.Duration(r.Stime.Nano()),
		MinorFaults: r.Minflt, MajorFaults: r.Majflt, VoluntarySwitches: r.Nvcsw, InvoluntarySwitches: r.Nivcsw,
	}, nil
}

// Kernel returns pointers to the fields of u that [Children] sets.
func (u *Usage) Kernel() [6]*int64 {
	all := u.fields()
	return [6]*int64(all[:])
}

// fields returns pointers to the fields that are never absent, first those of Kernel.
func (u *Usage) fields() [10]*int64 {
	return [...]*int64{
		(*int64)(&u.User), (*int64)(&u.System), &u.MinorFaults, &u.MajorFaults,
		&u.VoluntarySwitches, &u.InvoluntarySwitches,
		&u.AllocBytes, &u.AllocObjects, &u.GCCycles, (*int64)(&u.GCTime),
	}
}

// readRuntime reads the counters of the Go runtime. Unlike runtime.ReadMemStats, it does
// not stop the world.
func (u *Usage) readRuntime() {
	s := [...]metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
	}
	metrics.Read(s[:])
	u.AllocBytes = int64(s[0].Value.Uint64())
	u.AllocObjects = int64(s[1].Value.Uint64())
	u.GCCycles = int64(s[2].Value.Uint64())
	u.GCTime = time.Duration(s[3].Value.Float64() * float64(time.Second))
}

// Since returns the cost between v, which was read earlier in the same process, and u.
func (u Usage) Since(v Usage) Usage {
	d := u.combine(v, -1)
	if d.Queue != nil {
		// The waiting time of a thread that has ended is no longer in the sum.
		d.Queue.Wait = max(0, d.Queue.Wait)
	}
	return d
}

// Add returns the sum of u and v, of several rounds or processes. A value that is absent
// from one is absent from the sum, but adding the zero Usage changes nothing.
func (u Usage) Add(v Usage) Usage {
	switch (Usage{}) {
	case u:
		return v
	case v:
		return u
	}
	return u.combine(v, 1)
}

// CPU returns the CPU time in user mode and in the kernel.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// combine returns u + sign × v.
func (u Usage) combine(v Usage, sign int64) Usage {
	c := u
	c.Queue, c.IO = nil, nil
	other := v.fields()
	for i, field := range c.fields() {
		*field += sign * *other[i]
	}
	if u.Queue != nil && v.Queue != nil {
		c.Queue = &Queue{Wait: u.Queue.Wait + time.Duration(sign)*v.Queue.Wait}
	}
	if u.IO != nil && v.IO != nil {
		c.IO = &IO{
			ReadBytes:    u.IO.ReadBytes + sign*v.IO.ReadBytes,
			WrittenBytes: u.IO.WrittenBytes + sign*v.IO.WrittenBytes,
			ReadCalls:    u.IO.ReadCalls + sign*v.IO.ReadCalls,
			WriteCalls:   u.IO.WriteCalls + sign*v.IO.WriteCalls,
		}
	}
	return c
}
