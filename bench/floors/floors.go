// Package floors measures what the machine can do without any transport: how
// fast it copies, touches fresh shared memory and moves bytes through a socket,
// and how long one process takes to wake another and hear back. Every ratio to
// a floor in a report comes from a measurement of this package, made in the
// same run.
//
// A driver measures each floor again and again between its blocks, so that both
// see the same moods of the machine, and pools the samples:
//
//	series, err := floors.Measure(ctx, "unix-stream", floors.Params{})
//
// Every measurement starts fresh processes and ends them: this executable again,
// marked by an environment variable. So the driver's own heap, threads and peak
// memory stay out of it, the variance between processes is in the samples, and
// nothing is left between two measurements. Programs that measure call
// [MaybePeer] first in main, and tests in TestMain.
//
// There are no statistics here: samples are raw.
package floors

import (
	"context"
	"fmt"
	"time"
)

// A Floor is a limit of the machine.
type Floor struct {
	Name string
	Unit string // of the samples: "B/s", where the machine does no more, or "s", where it needs no less
	Help string
	TCP  bool // it is that of a TCP connection, which Params may put on a link
	TLS  bool // it is that of a TCP connection with TLS

	roles []role // what each process does; the first one times
}

// All returns the floors, in the order in which they are shown.
func All() []Floor {
	return []Floor{
		{
			Name: "copy", Unit: "B/s", roles: []role{measureCopy},
			Help: "one thread copies memory that is not in the caches",
		},
		{
			Name: "first-touch", Unit: "B/s", roles: []role{measureFirstTouch},
			Help: "one thread writes 66.6 MB of fresh shared memory (memfd), page faults included",
		},
		{
			Name: "unix-stream", Unit: "B/s", roles: []role{receiveStream, sendStream},
			Help: "66.6 MB go through a Unix socket to another process, in writes of the fastest size; the memory at both ends was written before",
		},
		{
			Name: "unix-pingpong", Unit: "s", roles: []role{ping, pong},
			Help: "one byte goes through a Unix socket to another process, and one comes back",
		},
		{
			Name: "tcp-stream", Unit: "B/s", TCP: true, roles: []role{receiveBothWays, sendStream},
			Help: "bytes go over a TCP connection to another process, and as many come back, one way after the other; the memory at both ends was written before",
		},
		{
			Name: "tcp-pingpong", Unit: "s", TCP: true, roles: []role{ping, pong},
			Help: "one byte goes over a TCP connection to another process, and one comes back",
		},
		{
			Name: "tls-stream", Unit: "B/s", TCP: true, TLS: true, roles: []role{receiveEncrypted, sendStream},
			Help: "as tcp-stream, encrypted by Go's TLS 1.3: bytes count as they are before that, and the handshake is not in it",
		},
		{
			Name: "futex", Unit: "s", roles: []role{knock, answer},
			Help: "one process wakes another one that sleeps on a word of shared memory, and is woken by it, each time after computing as long as the model's training takes",
		},
	}
}

// Params are what a measurement depends on.
type Params struct {
	// Gap is for how long the first process computes before each exchange of
	// unix-pingpong and futex, while the second one sleeps: the longer, the deeper.
	// A cell's floor takes the median of its train phase. Gaps longer than MaxGap
	// are measured with MaxGap.
	Gap time.Duration `json:"gap_ns"`

	// CPUs, unless it is empty, are the processors that the processes are pinned
	// to: the first process to the first one, and so on. Where a run pins its
	// server and workers, its floors are only floors if they are pinned alike.
	CPUs []int `json:"cpus,omitempty"`

	// Bytes are how many go at a time over TCP: at most those of unix-stream,
	// which the zero value stands for.
	Bytes int64 `json:"bytes,omitempty"`

	// Of a TCP connection: where its server listens, how long the bytes need at the
	// least, and how long the link rests before, so that a burst may pass. The zero
	// values stand for 127.0.0.1 and no rate.
	Address string        `json:"address,omitempty"`
	Takes   time.Duration `json:"takes_ns,omitempty"`
	Rest    time.Duration `json:"rest_ns,omitempty"`

	Far *Far `json:"-"` // the host on which the second role plays; nil is this one
}

// MaxGap bounds the gap, and so how long a measurement takes. A processor that
// was idle for that long sleeps as deep as it ever will.
const MaxGap = 50 * time.Millisecond

// MaxBytes is what unix-stream moves at a time, and bounds what tcp-stream does.
const MaxBytes = modelBytes

// A Series is the samples that one measurement took under one condition, in the
// order in which they were taken.
type Series struct {
	Variant string    `json:"variant"` // the condition: "write=65536", "gap=20ms"
	Samples []float64 `json:"samples"` // in the floor's unit, all greater than zero
}

// Measure measures a floor once, which takes a few tenths of a second. When ctx
// ends, or the measurement fails, the processes are gone when it returns.
func Measure(ctx context.Context, name string, p Params) ([]Series, error) {
	f, err := named(name)
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

func named(name string) (*Floor, error) {
	for _, f := range All() {
		if f.Name == name {
			return &f, nil
		}
	}
	return nil, fmt.Errorf("unknown floor %.80q", name)
}
