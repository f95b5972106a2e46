package doctor

import (
	"errors"
	"math"
	"os"
	"runtime"
	"time"

	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/internal/scratch"
	"ipcbench/phase/usage"
)

// facts are what the checks look at.
type facts struct {
	env        machine.Environment
	limits     machine.Limits
	memory     int64  // bytes that may still be taken
	memoryBy   string // who says so
	places     map[string]place
	session    error // of making a session's directory
	processors int   // that this process may use
	boot, now  usage.System
	systemErr  error
	clock      time.Duration // of reading it
	namespaces error         // of making a link in them
	leftovers  []scratch.Leftover
}

// A place is a directory for files.
type place struct {
	fileSystem string
	free       int64
	err        error // nothing can be written there
}

// gather reads them.
func gather(n Needs, watch time.Duration) *facts {
	f := &facts{env: machine.Read(), limits: machine.ReadLimits(), places: map[string]place{}}
	f.memory, f.memoryBy = machine.MemoryLimit()
	f.places[os.TempDir()], f.places[scratch.SharedMemory] = look(os.TempDir()), look(scratch.SharedMemory)
	for dir := range n.Files {
		f.places[dir] = look(dir)
	}
	f.session = scratch.Try(os.TempDir())
	f.processors = runtime.NumCPU() // by the affinity of this process
	f.clock = readingClock()
	f.namespaces = link.Try(n.Links...)
	f.leftovers, _ = scratch.Leftovers(scratch.Roots()...) // a root that cannot be read is another check's
	f.boot, f.now, f.systemErr = watchSystem(watch)
	return f
}

// watchSystem returns the processors' time since the machine started, and what they
// did while this process slept.
func watchSystem(watch time.Duration) (boot, now usage.System, err error) {
	boot, err = usage.ReadSystem()
	time.Sleep(watch)
	after, err2 := usage.ReadSystem()
	return boot, after.Since(boot), errors.Join(err, err2)
}

func look(dir string) (p place) {
	p.fileSystem, _ = machine.FileSystem(dir) // Room tells of a directory that does not exist
	p.free, p.err = machine.Room(dir)
	return p
}

// readingClock returns how long the clock takes to be read: the best of many tries,
// for some are interrupted.
func readingClock() time.Duration {
	const tries, each = 20, 100
	best := time.Duration(math.MaxInt64)
	for range tries {
		start := time.Now()
		for range each {
			_ = time.Now()
		}
		best = min(best, time.Since(start)/each)
	}
	return best
}
