package shm

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// TestOneWriter: A25: a lane has one writer. Other holders of a slab's descriptor cannot
// write to it, map it for writing, or change its size. A named segment has no such seals:
// its mode and private directory keep out only other users.
func TestOneWriter(t *testing.T) {
	s := open(t, "shm-slab", options())
	s.Exchange(0, driver.Job{}).Release()
	for _, m := range s.Driver.(*slabServer).lanes[0].given {
		f := check.Value(os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", m.File().Fd()), os.O_RDWR, 0))(t)
		_, writing := f.WriteAt([]byte("x"), 0)
		truncating := f.Truncate(0)
		_, mapping := slab.Open(f, m.Len(), slab.ReadWrite, slab.Untouched)
		for act, err := range map[string]error{"write": writing, "truncate": truncating, "map": mapping} {
			check.Is(t, err, unix.EPERM, act, m.File().Name())
		}
	}
	s.Exchange(0, driver.Job{Client: 1}).Release() // undisturbed

	s = listen(t, "shm-tensor", options())
	dir := s.Driver.(*namedServer).names.dir
	for path, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filepath.Join(dir, list(t, s)[0]): 0o600} {
		info := check.Value(os.Stat(path))(t)
		check.Equal(t, info.Mode(), want, path, "has mode")
	}
}

// TestNewSegmentsEachRound: B1: with pass=fd each update has as many new segments as
// tensors, in every round.
func TestNewSegmentsEachRound(t *testing.T) {
	s := open(t, "shm-tensor:pass=fd", options())
	seen := map[uint64]bool{}
	var before *tensor.Package // stays out, so that its segments are not freed and allocated again
	for round := range 5 {
		p := s.Exchange(0, driver.Job{Round: round})
		fresh := 0
		for _, m := range mapped(t, os.Getpid(), "memfd:ipcbench-update") {
			if !seen[m.Inode] {
				fresh++
			}
			seen[m.Inode] = true
		}
		check.Equal(t, fresh, s.Options.Up.Len(), "new segments in round", round)
		if before != nil {
			before.Release()
		}
		before = p
	}
	before.Release()
	check.Equal(t, len(mapped(t, os.Getpid(), "memfd:ipcbench-update")), 0, "segments that are left")
}

// TestDownlinkIsShared: B4: the memory of the model does not depend on the number of
// workers, because all of them map the same memory.
func TestDownlinkIsShared(t *testing.T) {
	for _, name := range []string{"shm-slab", "shm-tensor", "shm-tensor:reuse=on", "shm-tensor:pass=fd"} {
		takes := map[uintptr]bool{}
		for _, workers := range []int{1, 2, 7} {
			t.Run(fmt.Sprint(name, " workers=", workers), func(t *testing.T) {
				o := options()
				o.Lanes = workers
				s := listen(t, name, o)
				for lane := range workers {
					w := s.Dial(lane)
					check.Must(t, s.Server.Dispatch(t.Context(), lane, driver.Job{Client: lane}))
					_, model, err := w.Receive(t.Context())
					check.Must(t, err)
					check.That(t, model.Hash() == s.Model.Hash() && &model.View(0)[0] != &s.Model.View(0)[0], "lane %d has not mapped the model", lane)
				}
				sizes, total := map[uint64]uintptr{}, uintptr(0)
				for _, m := range mapped(t, os.Getpid(), "ipcbench-models", "/model-") {
					sizes[m.Inode] = m.EndAddr - m.StartAddr
				}
				for _, n := range sizes {
					total += n
				}
				check.That(t, total >= uintptr(o.Down.Payload()), "models take %d bytes", total)
				takes[total] = true
			})
		}
		check.That(t, len(takes) == 1, "%s: models take these bytes, with different numbers of workers: %v", name, takes)
	}
}
