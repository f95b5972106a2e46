package shm

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/procfs"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/internal/slab"
)

// TestSlabsAreFew: A7, A30: each writer has one memfd, whatever the number of tensors. It
// has the size that the settings require before the first job, and no name in /dev/shm.
func TestSlabsAreFew(t *testing.T) {
	names := segments(t)
	s := open(t, "shm-slab", options())
	check.Equal(t, segments(t), names, "names in /dev/shm")
	models, updates, err := slab.Sizes(s.Options.Down, s.Options.Up, s.Options.Lanes, s.Options.Depth)
	check.Must(t, err)
	sizes := map[string]int64{"ipcbench-models": int64(models), "ipcbench-updates-0": int64(updates), "ipcbench-updates-1": int64(updates)}
	st := s.Driver.(*slabServer)
	for _, m := range []*slab.Memory{st.places.Memory(), st.updates[0].Memory(), st.updates[1].Memory()} {
		info := check.Value(m.File().Stat())(t)
		check.Equal(t, info.Size(), sizes[m.File().Name()], m.File().Name())
	}
}

// TestUpdateIsTheWorkersMemory: B9: the update that the server gets is the memory that the
// worker wrote, not a copy.
func TestUpdateIsTheWorkersMemory(t *testing.T) {
	for _, name := range []string{"shm-slab", "shm-tensor:reuse=on"} {
		s := open(t, name, options())
		var written *tensor.Package
		p := s.ExchangeBy(0, driver.Job{}, func(_ driver.Job, _, update *tensor.Package) error {
			written = update
			return nil
		})
		written.View(0)[5] = 123 // a real worker no longer writes now
		check.That(t, p.View(0)[5] == 123, "%s: the server has a copy", name)
		p.Release()
	}
}

// TestReceiptsAreSmall: B2, B7: few bytes are sent, and their number does not depend on the
// size of the tensors. All tensors travel as handles.
func TestReceiptsAreSmall(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		sent := map[int64]bool{}
		for _, elems := range []int{256, 1 << 20} { // 1 KiB and 4 MiB
			o := options()
			o.Down = drivertest.Vectors(t, tensor.F32, elems, elems)
			o.Up = o.Down
			s := open(t, name, o)
			s.Exchange(0, driver.Job{}).Release()
			count := func(what string) int64 {
				ours, theirs := s.Counts()
				return ours[what] + theirs[what]
			}
			before := map[string]int64{}
			for _, what := range []string{phase.WireSent, phase.WireReceived, phase.HandleTensors, phase.HandleBytes, phase.Copied} {
				before[what] = count(what)
			}
			s.Exchange(0, driver.Job{Client: 1}).Release()
			diff := func(what string) int64 { return count(what) - before[what] }
			got, payload := diff(phase.WireSent), int64(o.Up.Payload())
			sent[got] = true
			check.That(t, got != 0 && got <= int64(2*(1<<10+64*o.Up.Len())), "%d bytes sent for a job and a receipt", got)
			check.Equal(t, diff(phase.WireReceived), got, "bytes received")
			check.Equal(t, diff(phase.HandleTensors), 4, "tensors travelled as handles")
			check.Equal(t, diff(phase.HandleBytes), 2*payload, "bytes travelled as handles")
			check.Equal(t, diff(phase.Copied), map[bool]int64{true: payload}[strings.Contains(name, "copy=in")], "bytes copied")
		}
		check.That(t, len(sent) == 1, "bytes sent for small tensors and for large ones: %v", sent)
	})
}

// TestRoundsAreFlat: A19: a thousand rounds leave memory, mappings and descriptors
// unchanged. With shm-slab a round allocates nothing.
func TestRoundsAreFlat(t *testing.T) {
	skip.Long(t)
	each(t, func(t *testing.T, name string) {
		s := open(t, name, options())
		round := 0
		step := func() {
			m := check.Value(s.Server.Reserve(0))(t)
			check.Must(t, check.Err(s.Server.Publish(t.Context(), 0, m)))
			round++
			check.Must(t, s.Together(driver.Job{Round: round, Device: "cpu"}))
		}
		for range 3 {
			step()
		}
		mappings, noMore, named := len(mapped(t, os.Getpid(), "ipcbench-")), descriptors(t), segments(t)
		for range 1000 {
			step()
		}
		noMore("after a thousand rounds")
		check.Equal(t, segments(t), named, "segments after a thousand rounds")
		check.Equal(t, len(mapped(t, os.Getpid(), "ipcbench-")), mappings, "mappings of ours after a thousand rounds")
		if strings.HasPrefix(name, "shm-slab") { // the others make segments
			check.Equal(t, testing.AllocsPerRun(100, step), 0, "allocations per round")
		}
	})
}

// mapped returns a process's mappings whose path contains one of words.
func mapped(t testing.TB, pid int, words ...string) (found []*procfs.ProcMap) {
	t.Helper()
	p := check.Value(procfs.NewProc(pid))(t)
	all := check.Value(p.ProcMaps())(t)
	for _, m := range all {
		for _, word := range words {
			if strings.Contains(m.Pathname, word) {
				found = append(found, m)
			}
		}
	}
	return found
}

// TestTwoSessions: A24, A26: two sessions in one process do not affect each other.
func TestTwoSessions(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		first, second := open(t, name, options()), open(t, name, options())
		before := first.Model.Hash()
		second.Publish(99)
		second.Exchange(0, driver.Job{}).Release()
		check.That(t, first.Model.Hash() == before, "one session's model changed with the other's")
		check.Must(t, second.Workers[0].Close())
		check.Must(t, second.Server.Shutdown(t.Context()))
		first.Exchange(0, driver.Job{}).Release()
	})
}

// TestHostileHandles: invalid handles from a peer are refused at both ends, each kind with
// its own error.
func TestHostileHandles(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(h *slab.Handle)
		want   error // a worker's error for such a job
	}{
		{"offset beyond", func(h *slab.Handle) { h.Offset = 1 << 40 }, slab.ErrBounds},
		{"sum overflows", func(h *slab.Handle) { h.Offset = 1<<64 - 64 }, slab.ErrBounds},
		{"length", func(h *slab.Handle) { h.Length -= 64 }, slab.ErrLength},
		{"not aligned", func(h *slab.Handle) { h.Offset++; h.Length = 1 << 10 }, slab.ErrAlignment},
		{"between two", func(h *slab.Handle) { h.Offset += 64 }, slab.ErrAlignment},
		{"generation", func(h *slab.Handle) { h.Generation++ }, nil},
	} {
		s := open(t, "shm-slab", options())
		w := s.Workers[0].Driver.(*slabWorker)
		h := s.Driver.(*slabServer).models.Published(s.Model).Memory
		c.change(&h)
		for _, places := range []*slab.Packages{w.models, w.updates} {
			_, err := places.At(h)
			check.Is(t, err, c.want, c.name)
		}
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
		check.Must(t, drivertest.Turn(t.Context(), s.Workers[0].Worker, func(driver.Job, *tensor.Package, *tensor.Package) error {
			c.change(&w.order.update)
			return nil
		}))
		_, err := s.Server.Collect(t.Context(), 0)
		check.Is(t, err, slab.ErrOther, c.name, "collect")
	}
}

// TestTooLargeForTheMailbox: a receipt or configuration that is too large for the mailbox
// is refused with its limit, before anything is sent.
func TestTooLargeForTheMailbox(t *testing.T) {
	s := open(t, "shm-slab", options())
	check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{Config: make([]byte, spare)}))
	err := drivertest.Turn(t.Context(), s.Workers[0].Worker, func(_ driver.Job, _, update *tensor.Package) error {
		update.Receipt = make([]byte, spare+4096)
		return nil
	})
	check.Fails(t, err, "the limit is", "submit")
	check.Fails(t, s.Server.Dispatch(t.Context(), 1, driver.Job{Config: make([]byte, spare+4096)}), "the limit is", "dispatch")
}

// TestRoundsDoNotFault: A7: no page is touched for the first time in a round. Both ends are
// in this process, with their own mappings.
func TestRoundsDoNotFault(t *testing.T) {
	o := options()
	o.Down = drivertest.Vectors(t, tensor.F32, 1<<20) // 1024 pages
	o.Up = o.Down
	s := open(t, "shm-slab", o)
	absent, pages := 0, 0
	use := func(p *tensor.Package) {
		absent += proc.Absent(t, p.View(0))
		pages += len(p.View(0)) / os.Getpagesize()
	}
	train := func(j driver.Job, model, update *tensor.Package) error {
		use(model)
		use(update)
		return drivertest.Stock(j, model, update)
	}
	for round := range 4 { // every place of both slabs
		model := check.Value(s.Server.Reserve(round))(t)
		use(model)
		tensor.Fill(model, uint64(round))
		check.Must(t, check.Err(s.Server.Publish(t.Context(), round, model)))
		out := s.ExchangeBy(0, driver.Job{Round: round}, train)
		last := s.ExchangeBy(0, driver.Job{Round: round}, train)
		use(out)
		use(last)
		last.Release()
		out.Release()
	}
	check.That(t, absent <= pages/32, "%d of %d pages are absent before their use", absent, pages) // the kernel may take some away
}
