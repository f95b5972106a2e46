// Package capture takes profiles of the process that it is in, between marks:
//
//	c, err := capture.New("cpu", "allocs")
//	err = c.Start()
//	... what is profiled ...
//	err = c.Stop() // and perhaps Start again
//	pieces := c.Pieces()
//
// It knows neither phases nor other processes. What it returns is what
// runtime/pprof and runtime/trace have written; package profile makes one profile
// of the pieces of all processes.
package capture

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"

	"ipcbench/phase"
)

// A Kind is a kind of profile.
type Kind struct {
	Name string
	// Group is the same for kinds that are taken in the same rounds. Kinds of
	// different groups would find each other's costs.
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
		{CPU, "cpu"},       // CPU time, 100 samples a second
		{Heap, "memory"},   // what is in use on the heap, at the end
		{Allocs, "memory"}, // what was allocated, a sample every 512 KiB
		{Mutex, "waiting"}, // time that goroutines waited for a lock, at whoever held it
		{Block, "waiting"}, // time that goroutines waited, at the waiting place; from 10 µs on
		{Trace, "trace"},   // execution trace for go tool trace: one file a process, of the first rounds
	}
}

// Check reports a kind that does not exist.
func Check(kinds ...string) error {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	for _, k := range kinds {
		if !slices.Contains(names, k) {
			return fmt.Errorf("unknown kind of profile %q: want %s", k, strings.Join(names, ", "))
		}
	}
	return nil
}

// A Capture takes profiles of this process. There may be one at a time that is
// started. It is used by one goroutine at a time.
type Capture struct {
	kinds  []string
	on     bool
	pieces []phase.Piece
	before map[string][]byte // the cumulative profiles at Start
	mutex  int               // the fraction before Start

	cpu             bytes.Buffer
	sampling        bool // the CPU profile is ours
	trace           bounded
	tracing, traced bool // the trace is ours; it was taken, of the first rounds alone
}

// New returns a Capture of the given kinds.
func New(kinds ...string) (*Capture, error) {
	if err := Check(kinds...); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	return &Capture{kinds: kinds, before: map[string][]byte{}}, nil
}

// blockRate is the time in nanoseconds from which on every wait is in the block
// profile; shorter ones are sampled.
const blockRate = 10_000

// mutexFraction: one in this many contended locks becomes a sample.
const mutexFraction = 10

func (c *Capture) takes(kind string) bool { return c != nil && slices.Contains(c.kinds, kind) }

// cumulative are the kinds that the runtime counts from the start of the process.
// What is in use is not: it is as it is at the end.
var cumulative = [...]string{Allocs, Mutex, Block}

// Start starts all profiles. Without any, it does nothing.
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
		runtime.GC() // the profile shows what was allocated before the last collection
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

// Stop ends all profiles and keeps them. Unless Start came before, it does
// nothing. It takes up to a fifth of a second.
func (c *Capture) Stop() error {
	if c == nil || !c.on {
		return nil
	}
	c.on = false
	if c.sampling { // that of somebody else goes on
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

// Pieces returns what was taken, in order, and forgets it.
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

// bounded is a buffer for a trace, which may become very long. What is too much
// is dropped, and the trace with it: the rest of one cannot be read.
type bounded struct {
	bytes.Buffer
	lost int
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
