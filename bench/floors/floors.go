// Package floors measures limits of the machine without a transport. They are the
// rates of copying memory, touching fresh shared memory and sending bytes through a
// socket, and the time to wake another process and get a reply. Reports compare
// cells only with floors of the same run.
//
// A run measures each floor repeatedly between its blocks, under the same machine
// conditions, and pools the samples:
//
//	series, err := floors.Measure(ctx, "unix-stream", floors.Params{})
//
// Each measurement starts new processes of this executable, in the role [Work]. So the
// run's own heap, threads and peak memory do not affect it, samples include the variance
// between processes, and nothing remains afterwards. Programs that measure must have the
// role in their table: see [reexec.Main].
//
// Samples are raw; the package computes no statistics.
package floors

import (
	"context"
	"fmt"
	"time"

	"ipcbench/internal/machine"
	"ipcbench/tensor/pages"
)

// A Floor is a limit of the machine without a transport.
type Floor struct {
	Name string
	Unit string // of the samples: "B/s" (an upper limit) or "s" (a lower limit)
	Help string // description
	TCP  bool   // uses a TCP connection, which Params can put on a link or between hosts
	TLS  bool   // uses TLS on its TCP connection

	Paged bool // its memory can be in pages of a chosen size

	parts []part // function of each process; the first one measures
	size  int64  // least bytes of its memory; twice as many must be free
}

// All returns all floors, in the order used in reports.
func All() []Floor {
	return []Floor{
		{
			Name: "copy", Unit: "B/s", Paged: true, size: leastCopy, parts: []part{measureCopy},
			Help: "one thread copies memory that is not in the caches",
		},
		{
			Name: "first-touch", Unit: "B/s", Paged: true, size: modelBytes, parts: []part{measureFirstTouch},
			Help: "one thread writes 66.6 MB of fresh shared memory (memfd), page faults included",
		},
		{
			Name: "unix-stream", Unit: "B/s", size: modelBytes, parts: []part{receiveStream, sendStream},
			Help: "66.6 MB go through a Unix socket to another process, in writes of the fastest size; the memory at both ends was written before",
		},
		{
			Name: "unix-pingpong", Unit: "s", parts: []part{ping, pong},
			Help: "one byte goes through a Unix socket to another process, and one comes back",
		},
		{
			Name: "tcp-stream", Unit: "B/s", TCP: true, size: modelBytes, parts: []part{receiveBothWays, sendStream},
			Help: "bytes go over a TCP connection to another process, and as many come back, one way after the other; the memory at both ends was written before",
		},
		{
			Name: "tcp-pingpong", Unit: "s", TCP: true, parts: []part{ping, pong},
			Help: "one byte goes over a TCP connection to another process, and one comes back",
		},
		{
			Name: "tls-stream", Unit: "B/s", TCP: true, TLS: true, size: modelBytes, parts: []part{receiveEncrypted, sendStream},
			Help: "like tcp-stream, but encrypted by Go's TLS 1.3; the rate counts bytes before encryption, and excludes the handshake",
		},
		{
			Name: "futex", Unit: "s", parts: []part{knock, answer},
			Help: "one process wakes another that sleeps on a futex in shared memory, and is woken by it, each time after computing for as long as the model's training takes",
		},
	}
}

// Params are the parameters of a measurement. The zero value uses the defaults.
type Params struct {
	// Gap is the time that the first process computes before each exchange of a
	// ping-pong or of futex, at most MaxGap. The longer it is, the deeper the second
	// process's processor sleeps. Runs set it to the median train phase of cells.
	Gap time.Duration

	// CPUs lists one processor to pin each process to; if empty, processes are not
	// pinned. A run that pins server and workers must also pin its floors, or they
	// are not limits of its cells.
	CPUs []int

	// Pages is the size of the pages of memory, for floors that are Paged.
	Pages pages.Size

	// Bytes is the number of bytes per transfer of a TCP stream. Zero and values
	// above MaxBytes mean MaxBytes.
	Bytes int64

	// For TCP connections.
	Address string        // IP address of the server; empty means 127.0.0.1
	Via     string        // IP address to dial to reach Address; empty means Address
	Takes   time.Duration // least time that Bytes need on the link; zero means no rate
	Rest    time.Duration // pause before a transfer, to allow a burst; zero means none

	Far *Far `json:"-"` // host that runs the second part; nil means this one
}

// MaxGap is the maximum gap, which limits the duration of a measurement. After 50 ms
// of idling, a processor is in its deepest sleep.
const MaxGap = 50 * time.Millisecond

// MaxBytes is the size of unix-stream's transfers, and the maximum for TCP streams.
const MaxBytes = modelBytes

// Rested is the end of the Variant of transfers after Params.Rest.
const Rested = ",rested"

// A Series holds the samples of one measurement under one condition, in the order
// in which they were taken.
type Series struct {
	Variant string    // condition, such as "write=65536" or "gap=20ms"
	Samples []float64 // in the floor's unit, all greater than zero
}

// Measure measures the named floor once and returns one series per condition. It
// takes a few tenths of a second, longer on a slow link. Its processes have ended
// when it returns, whatever the outcome. The error is an [Unfit] if memory is too small.
func Measure(ctx context.Context, name string, p Params) ([]Series, error) {
	f, err := named(name)
	if err == nil {
		err = f.fits(machine.MemoryLimit())
	}
	if err != nil {
		return nil, fmt.Errorf("floors: %w", err)
	}
	p.Gap = max(0, min(p.Gap, MaxGap))
	if p.Bytes <= 0 || p.Bytes > MaxBytes {
		p.Bytes = MaxBytes
	}
	series, err := f.measure(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("floors: %s: %w", name, err)
	}
	return series, nil
}

// Unfit reports that too little memory is free to measure a floor.
type Unfit struct{ error }

// fits returns an error if the kernel might kill a process for lack of memory, perhaps another one.
func (f *Floor) fits(free int64, source string) error {
	if need := 2 * f.size; need > free {
		return Unfit{fmt.Errorf("needs %s of free memory, twice the %s that it writes or sends, but %s has %s", machine.Size(need), machine.Size(f.size), source, machine.Size(free))}
	}
	return nil
}

func named(name string) (*Floor, error) {
	for _, f := range All() {
		if f.Name == name {
			return &f, nil
		}
	}
	return nil, fmt.Errorf("unknown floor %.80q", name)
}
