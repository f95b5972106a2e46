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
	Needs // of the run; all other fields describe the machine

	env         machine.Environment
	limits      machine.Limits
	available   int64  // bytes that can still be used
	availableBy string // source of available
	places      map[string]place
	session     error        // error of making a session's directory
	proc        error        // error of Proc
	processors  int          // number that this process may use
	boot, now   usage.System // since the machine started, and during the watch
	systemErr   error
	clock       time.Duration // duration of reading the clock
	namespaces  error         // error of setting up a link
	leftovers   []scratch.Leftover
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
	f.available, f.availableBy = machine.MemoryLimit()
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
	var err error
	f.boot, err = usage.ReadSystem()
	time.Sleep(watch)
	f.now, f.systemErr = usage.ReadSystem()
	f.now, f.systemErr = f.now.Since(f.boot), errors.Join(err, f.systemErr)
	return f
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
