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

// facts are the input of the checks.
type facts struct {
	Needs
	env        machine.Environment
	limits     machine.Limits
	memory     int64  // bytes that can still be used
	memoryBy   string // source of memory
	places     map[string]place
	session    error        // error of making a session's directory
	proc       error        // error of Proc
	processors int          // number that this process may use
	boot, now  usage.System // since the machine started, and during the watch
	systemErr  error
	clock      time.Duration // duration of reading the clock
	namespaces error         // error of setting up a link
	leftovers  []scratch.Leftover
}

// A place is a directory for files.
type place struct {
	fileSystem string
	free       int64
	err        error // why no file can be written there
}

// gather reads the facts. It sleeps for the duration watch.
func gather(n Needs, watch time.Duration) *facts {
	f := &facts{Needs: n, env: machine.Read(), limits: machine.ReadLimits(), places: map[string]place{}}
	f.memory, f.memoryBy = machine.MemoryLimit()
	f.places[os.TempDir()], f.places[scratch.SharedMemory] = look(os.TempDir()), look(scratch.SharedMemory)
	for dir := range n.Files {
		f.places[dir] = look(dir)
	}
	f.session = scratch.Try(os.TempDir())
	f.proc = Proc()
	f.processors = runtime.NumCPU() // respects the affinity of this process
	f.clock = readingClock()
	f.namespaces = link.Try(n.Links...)
	f.leftovers, _ = scratch.Leftovers(scratch.Roots()...) // other checks report unreadable roots
	f.boot, f.now, f.systemErr = watchSystem(watch)
	return f
}

// watchSystem returns processor time since the machine started, and during a sleep.
func watchSystem(watch time.Duration) (boot, now usage.System, err error) {
	boot, err = usage.ReadSystem()
	time.Sleep(watch)
	after, err2 := usage.ReadSystem()
	return boot, after.Since(boot), errors.Join(err, err2)
}

func look(dir string) (p place) {
	p.fileSystem, _ = machine.FileSystem(dir) // Room returns an error if dir does not exist
	p.free, p.err = machine.Room(dir)
	return p
}

// readingClock returns the duration of reading the clock: the shortest of many tries,
// because some are interrupted.
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
