// Package capture takes profiles of the current process between Start and Stop.
//
//	c, err := capture.New("cpu", "allocs")
//	err = c.Start()
//	... profiled code ...
//	err = c.Stop() // and perhaps Start again
//	pieces := c.Pieces()
//
// Pieces are the unchanged output of runtime/pprof and runtime/trace. Package profile
// assigns phases and merges the pieces of all processes.
package capture

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"

	"ipcbench/internal/near"
	"ipcbench/phase"
)

// A Kind is a kind of profile.
type Kind struct {
	Name string
	// Group is equal for kinds taken in the same rounds. Kinds of different groups would
	// measure each other's costs.
	Group string
}

// The names of the kinds.
const (
	CPU    = "cpu"
	Heap   = "heap"
	Allocs = "allocs"
	Mutex  = "mutex"
	Block  = "block"
	Trace  = "trace"
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		{CPU, "cpu"},       // CPU time, 100 samples per second
		{Heap, "memory"},   // heap memory in use at the end
		{Allocs, "memory"}, // allocated memory, one sample every 512 KiB
		{Mutex, "waiting"}, // time that goroutines waited for a lock, in the stack of its holder
		{Block, "waiting"}, // time that goroutines waited, in their own stack; all waits from 10 µs on
		{Trace, "trace"},   // execution trace for go tool trace: one file per process, of the first rounds
	}
}

// Check returns an error if one of kinds does not exist.
func Check(kinds ...string) error {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	for _, k := range kinds {
		if !slices.Contains(names, k) {
			return near.Unknown("kind of profile", k, names)
		}
	}
	return nil
}

// A Capture takes profiles of this process. Only one Capture may be started at a time, and
// only one goroutine at a time may use it. A nil Capture does nothing.
type Capture struct {
	kinds  []string
	on     bool
	pieces []phase.Piece
	before map[string][]byte // the cumulative profiles at Start, by kind
	mutex  int               // the process's mutex fraction before Start

	cpu             bytes.Buffer
	sampling        bool // c has started the CPU profile
	trace           bounded
	tracing, traced bool // c has started a trace; it has taken its only one
}

// New returns a Capture of the given kinds.
func New(kinds ...string) (*Capture, error) {
	if err := Check(kinds...); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	return &Capture{kinds: kinds, before: map[string][]byte{}}, nil
}

// blockRate is a duration in ns. The block profile has all longer waits, and samples of
// shorter ones.
const blockRate = 10_000

// mutexFraction is the number of contended locks per sample.
const mutexFraction = 10

func (c *Capture) takes(kind string) bool { return c != nil && slices.Contains(c.kinds, kind) }

// cumulative are the kinds that the runtime counts from the start of the process. Heap is
// not one of them: only its state at the end counts.
var cumulative = [...]string{Allocs, Mutex, Block}

// Start starts all profiles. It does nothing if c is started or has no kinds.
func (c *Capture) Start() error {
	if c == nil || len(c.kinds) == 0 || c.on {
		return nil
	}
	c.on = true
	if c.takes(Mutex) {
		c.mutex = runtime.SetMutexProfileFraction(mutexFraction)
	}
	if c.takes(Block) {
		runtime.SetBlockProfileRate(blockRate)
	}
	if c.takes(Allocs) {
		runtime.GC() // the profile has only allocations before the last collection
	}
	for _, kind := range cumulative {
		if !c.takes(kind) {
			continue
		}
		data, err := lookup(kind)
		if err != nil {
			return err
		}
		c.before[kind] = data
	}
	if c.takes(Trace) && !c.traced {
		c.trace.Reset()
		if err := trace.Start(&c.trace); err != nil {
			return fmt.Errorf("capture: %s: %w", Trace, err)
		}
		c.tracing = true
	}
	if c.takes(CPU) {
		c.cpu.Reset()
		if err := pprof.StartCPUProfile(&c.cpu); err != nil {
			return fmt.Errorf("capture: %s: %w", CPU, err)
		}
		c.sampling = true
	}
	return nil
}

// Stop ends all profiles and stores them for Pieces. It does nothing if c is not started.
// It takes up to 0.2 s.
func (c *Capture) Stop() error {
	if c == nil || !c.on {
		return nil
	}
	c.on = false
	if c.sampling { // leave a CPU profile of other code running
		pprof.StopCPUProfile()
		c.sampling = false
		c.keep(CPU, c.cpu.Bytes(), nil)
	}
	var errs error
	if c.tracing {
		trace.Stop()
		c.tracing, c.traced = false, true
		if errs = c.trace.err(); errs == nil {
			c.keep(Trace, c.trace.Bytes(), nil)
		}
		c.trace = bounded{}
	}
	if c.takes(Allocs) || c.takes(Heap) {
		runtime.GC()
	}
	for _, kind := range append([]string{Heap}, cumulative[:]...) {
		if !c.takes(kind) {
			continue
		}
		data, err := lookup(kind)
		errs = errors.Join(errs, err)
		c.keep(kind, data, c.before[kind])
	}
	if c.takes(Mutex) {
		runtime.SetMutexProfileFraction(c.mutex)
	}
	if c.takes(Block) {
		runtime.SetBlockProfileRate(0)
	}
	return errs
}

func (c *Capture) keep(kind string, data, before []byte) {
	c.pieces = append(c.pieces, phase.Piece{Kind: kind, Data: bytes.Clone(data), Before: before})
}

// Pieces returns the profiles stored so far, in order, and removes them from c.
func (c *Capture) Pieces() []phase.Piece {
	if c == nil {
		return nil
	}
	pieces := c.pieces
	c.pieces = nil
	return pieces
}

func lookup(kind string) ([]byte, error) {
	var b bytes.Buffer
	if err := pprof.Lookup(kind).WriteTo(&b, 0); err != nil {
		return nil, fmt.Errorf("capture: %s: %w", kind, err)
	}
	return b.Bytes(), nil
}

// bounded is a buffer for a trace of at most longestTrace bytes. If the trace is longer,
// err returns an error, because a cut trace cannot be read.
type bounded struct {
	bytes.Buffer
	lost int // number of bytes dropped
}

const longestTrace = 64 << 20

func (b *bounded) Write(p []byte) (int, error) {
	if b.lost > 0 || b.Len()+len(p) > longestTrace {
		b.lost += len(p)
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

func (b *bounded) err() error {
	if b.lost > 0 {
		return fmt.Errorf("capture: %s: larger than %d bytes: profile fewer rounds", Trace, longestTrace)
	}
	return nil
}
