package doctor

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

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
	private     price         // of a page of private memory
	shared      price         // of a page of shared memory
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
	f.private, f.shared = pagePrice(unix.MAP_PRIVATE), pagePrice(unix.MAP_SHARED)
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

// A price is what it takes to write a page of new memory for the first time, which the kernel then
// provides. The first of several tries is apart, because a hypervisor may provide pages only once.
type price struct {
	first, least, most time.Duration
	err                error
}

// String writes the range of all tries but the first, and the first.
func (p price) String() string {
	if p.err != nil {
		return "not known"
	}
	micros := func(d time.Duration) string { return strconv.FormatFloat(float64(d)/1e3, 'g', 2, 64) }
	return fmt.Sprintf("%s to %s µs a page (the first time %s)", micros(p.least), micros(p.most), micros(p.first))
}

// pagePrice writes new memory several times. kind is MAP_PRIVATE or MAP_SHARED.
func pagePrice(kind int) (p price) {
	const tries, size = 4, 8 << 20
	for try := range tries {
		mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, kind|unix.MAP_ANONYMOUS)
		if err != nil {
			return price{err: err}
		}
		var parts []time.Duration // whose median a busy machine does not change
		for part := range slices.Chunk(mem, size/16) {
			start := time.Now()
			for at := 0; at < len(part); at += os.Getpagesize() {
				part[at] = 1
			}
			parts = append(parts, time.Since(start)/time.Duration(len(part)/os.Getpagesize()))
		}
		slices.Sort(parts)
		each := parts[len(parts)/2]
		if try == 0 {
			p.first, p.least = each, math.MaxInt64
		} else {
			p.least, p.most = min(p.least, each), max(p.most, each)
		}
		if err := unix.Munmap(mem); err != nil {
			return price{err: err}
		}
	}
	return p
}
