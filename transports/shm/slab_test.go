package shm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/internal/slab"
)

// dialled returns the worker of lane 0, in this process.
func dialled(t testing.TB, s *session) *drivertest.Worker {
	t.Helper()
	w := s.DialAt(s.Endpoint, 0)
	t.Cleanup(func() { check.Must(t, w.Close()) })
	return w
}

// exchange carries a job to w and its update back. With at most one job out, one
// goroutine can play both sides.
func exchange(s *session, w *drivertest.Worker, j driver.Job) error {
	p, err := exchanged(s, w, j)
	if err == nil {
		p.Release()
	}
	return err
}

// exchanged is exchange, and returns the update.
func exchanged(s *session, w *drivertest.Worker, j driver.Job) (*tensor.Package, error) {
	ctx := context.Background()
	if err := s.Server.Dispatch(ctx, 0, j); err != nil {
		return nil, err
	}
	if err := drivertest.Turn(ctx, w.Worker, echo); err != nil {
		return nil, err
	}
	return s.Server.Collect(ctx, 0)
}

// A7, A30: one memfd a writer, whatever the number of tensors, of the size that
// the settings ask for, before the first job; and no name in /dev/shm.
func TestSlabsAreFew(t *testing.T) {
	v, o := parse(t, "shm-slab")
	names := segments(t)
	s, _ := listening(t, v, o)
	dialled(t, s)
	n := segments(t)
	check.That(t, n == names, "%d names in /dev/shm, %d before", n, names)
	models, updates, err := slab.Sizes(o.Down, o.Up, o.Lanes, o.Depth)
	check.Must(t, err)
	st := s.Driver.(*slabServer)
	sizes := map[string]int64{"ipcbench-models": int64(models), "ipcbench-updates-0": int64(updates), "ipcbench-updates-1": int64(updates)}
	for _, m := range []*slab.Memory{st.places.Memory(), st.updates[0].Memory(), st.updates[1].Memory()} {
		info := check.Value(m.File().Stat())(t)
		if got := info.Size(); got != sizes[m.File().Name()] {
			t.Errorf("%s has %d bytes, want %d", m.File().Name(), got, sizes[m.File().Name()])
		}
	}
}

// B9: the update that the server gets is the memory that the worker wrote, not a
// copy.
func TestUpdateIsTheWorkersMemory(t *testing.T) {
	for _, name := range []string{"shm-slab", "shm-tensor:reuse=on"} {
		v, o := parse(t, name)
		s, _ := listening(t, v, o)
		w := dialled(t, s)
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
		_, _, err := w.Receive(t.Context())
		check.Must(t, err)
		update := check.Value(w.Reserve())(t)
		check.Must(t, w.Submit(t.Context(), update))
		p := check.Value(s.Server.Collect(t.Context(), 0))(t)
		update.View(0)[5] = 123 // which a real worker does not do any more
		check.That(t, p.View(0)[5] == 123, "%s: the server has a copy", name)
		p.Release()
	}
}

// B2, B7: what travels is small and does not depend on the size of the tensors.
// All of them travel as handles.
func TestReceiptsAreSmall(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		var sent [2]int64
		for i, elems := range []int{256, 1 << 20} { // 1 KiB and 4 MiB
			v, o := parse(t, name)
			l := check.Value(tensor.NewLayout([]tensor.Spec{
				{Name: "a", DType: tensor.F32, Shape: []int{elems}}, {Name: "b", DType: tensor.F32, Shape: []int{elems}},
			}))(t)
			o.Down, o.Up, o.Rec = l, l, phase.NewRecorder(1000)
			s, _ := listening(t, v, o)
			w := dialled(t, s)
			check.Must(t, exchange(s, w, driver.Job{}))
			before := s.counts()
			check.Must(t, exchange(s, w, driver.Job{Client: 1}))
			after := s.counts()
			diff := func(name string) int64 { return after[name] - before[name] }
			sent[i] = diff(phase.WireSent)
			got, most := diff(phase.WireSent), int64(2*(1<<10+64*l.Len()))
			check.That(t, got != 0 && got <= most, "%d bytes sent for a job and a receipt, want at most %d", got, most)
			if got := diff(phase.WireReceived); got != sent[i] {
				t.Errorf("%d bytes received, %d sent", got, sent[i])
			}
			check.Equal(t, diff(phase.HandleTensors), 4, "tensors travelled as handles")
			if got := diff(phase.HandleBytes); got != int64(2*l.Payload()) {
				t.Errorf("%d bytes travelled as handles, want %d", got, 2*l.Payload())
			}
			copied := int64(0)
			if strings.Contains(name, "copy=in") {
				copied = int64(l.Payload())
			}
			check.Equal(t, diff(phase.Copied), copied, "bytes copied")
		}
		check.That(t, sent[0] == sent[1], "%d bytes sent for small tensors, %d for large ones", sent[0], sent[1])
	})
}

// A19, and no allocation: a thousand rounds leave memory, mappings and
// descriptors as they were.
func TestRoundsAreFlat(t *testing.T) {
	skip.Long(t)
	each(t, func(t *testing.T, name string) {
		v, o := parse(t, name)
		s, _ := listening(t, v, o)
		w := dialled(t, s)
		round := 0
		step := func() error {
			s.Publish(1)
			round++
			return exchange(s, w, driver.Job{Round: round, Device: "cpu"})
		}
		for range 3 {
			check.Must(t, step())
		}
		mappings, files, named := mappingsNow(t), filesNow(t), segments(t)
		for range 1000 {
			check.Must(t, step())
		}
		n := filesNow(t)
		check.That(t, n <= files, "%d descriptors, %d after a thousand rounds", files, n)
		check.Equal(t, segments(t), named, named, "segments  after a thousand rounds")
		check.Equal(t, mappingsNow(t), mappings, mappings, "mappings of ours  after a thousand rounds")
		if !strings.HasPrefix(name, "shm-slab") {
			return // segments are made, so something is allocated
		}
		if n := testing.AllocsPerRun(100, func() { check.Must(t, step()) }); n != 0 {
			t.Errorf("%v allocations a round, want none", n)
		}
	})
}

// mappingsNow counts this process's mappings of segments and slabs.
func mappingsNow(t testing.TB) int {
	t.Helper()
	b := check.Value(os.ReadFile("/proc/self/maps"))(t)
	return strings.Count(string(b), "ipcbench-")
}

func filesNow(t testing.TB) int {
	t.Helper()
	all := check.Value(filepath.Glob("/proc/self/fd/*"))(t)
	return len(all)
}

// A24, A26: two sessions in one process know nothing of each other.
func TestTwoSessions(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		v, o := parse(t, name)
		s1, m1 := listening(t, v, o)
		s2, _ := listening(t, v, o)
		check.Need(t, s1.Endpoint.Addr() != s2.Endpoint.Addr(), "both are at %s", s1.Endpoint.Addr())
		h1 := m1.Hash()
		w2 := dialled(t, s2)
		s2.Publish(99)
		check.Must(t, exchange(s2, w2, driver.Job{}))
		check.That(t, m1.Hash() == h1, "one session's model changed with the other's")
		check.Must(t, w2.Close())
		check.Must(t, s2.Server.Shutdown(t.Context()))
		check.Must(t, exchange(s1, dialled(t, s1), driver.Job{}))
	})
}

// A25: a lane has one writer. A second worker is refused, and a writable mapping
// of what the first one has is refused by the kernel.
func TestOneWriter(t *testing.T) {
	v, o := parse(t, "shm-slab")
	s, _ := listening(t, v, o)
	w := dialled(t, s)
	check.Must(t, exchange(s, w, driver.Job{}))
	check.Fails(t, check.Err(s.dial(0)), "has or had a worker", "second worker")
	st := s.Driver.(*slabServer)
	for _, m := range []*slab.Memory{st.places.Memory(), st.updates[0].Memory(), s.base().lanes[0].given[0], s.base().lanes[0].given[1]} {
		f := check.Value(os.OpenFile(filepath.Join("/proc/self/fd", strconv.Itoa(int(m.File().Fd()))), os.O_RDWR, 0))(t)
		if mem, err := slab.Open(f, m.Len(), slab.ReadWrite, slab.Untouched); err == nil {
			t.Errorf("%s was mapped for writing again", m.File().Name())
			check.Must(t, mem.Close())
		}
	}
}

// Handles from a peer are refused, each kind with its own error, on either side.
func TestHostileHandles(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(h *slab.Handle)
		worker error // what a worker says to such a job
		server error // what the server says to such a receipt
	}{
		{"offset beyond", func(h *slab.Handle) { h.Offset = 1 << 40 }, slab.ErrBounds, slab.ErrOther},
		{"sum overflows", func(h *slab.Handle) { h.Offset = 1<<64 - 64 }, slab.ErrBounds, slab.ErrOther},
		{"length", func(h *slab.Handle) { h.Length -= 64 }, slab.ErrLength, slab.ErrOther},
		{"not aligned", func(h *slab.Handle) { h.Offset++; h.Length = 1 << 10 }, slab.ErrAlignment, slab.ErrOther},
		{"between two", func(h *slab.Handle) { h.Offset += 64 }, slab.ErrAlignment, slab.ErrOther},
		{"generation", func(h *slab.Handle) { h.Generation++ }, nil, slab.ErrOther},
	} {
		v, o := parse(t, "shm-slab")
		s, model := listening(t, v, o)
		w := dialled(t, s)
		inside := w.Driver.(*slabWorker)
		h := s.Driver.(*slabServer).places.Handle(model)
		c.change(&h)
		if _, err := inside.models.At(h); !errors.Is(err, c.worker) {
			t.Errorf("%s: model: got %v, want %v", c.name, err, c.worker)
		}
		if _, err := inside.updates.At(h); !errors.Is(err, c.worker) {
			t.Errorf("%s: update: got %v, want %v", c.name, err, c.worker)
		}

		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
		_, _, err := w.Receive(t.Context())
		check.Must(t, err)
		u := check.Value(w.Reserve())(t)
		c.change(&inside.order.update)
		check.Must(t, w.Submit(t.Context(), u))
		_, err = s.Server.Collect(t.Context(), 0)
		check.That(t, errors.Is(err, c.server), "%s: collect: got %v, want %v", c.name, err, c.server)
	}
}

// A receipt or configuration that the mailbox cannot hold is refused with both
// figures, before anything is sent.
func TestTooLargeForTheMailbox(t *testing.T) {
	v, o := parse(t, "shm-slab")
	s, _ := listening(t, v, o)
	err := s.Server.Dispatch(t.Context(), 0, driver.Job{Config: make([]byte, spare+4096)})
	check.Fails(t, err, "the limit is", "dispatch")

	v, o = parse(t, "shm-slab")
	s, _ = listening(t, v, o)
	w := dialled(t, s)
	check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{Config: make([]byte, spare)}))
	_, _, err = w.Receive(t.Context())
	check.Must(t, err)
	u := check.Value(w.Reserve())(t)
	u.Receipt = make([]byte, spare+4096)
	check.Fails(t, w.Submit(t.Context(), u), "the limit is", "submit")
}

// A7: nothing is touched for the first time in a round. Both sides are in this
// process, with mappings of their own.
func TestRoundsDoNotFault(t *testing.T) {
	v, o := parse(t, "shm-slab")
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{1 << 20}}}) // 1024 pages
	check.Must(t, err)
	o.Down, o.Up = l, l
	s, _ := listening(t, v, o)
	w := dialled(t, s)
	before := faultsNow(t)
	for round := range 4 { // every place of both slabs
		s.Publish(uint64(round))
		out := check.Value(exchanged(s, w, driver.Job{Round: round}))(t)
		check.Must(t, exchange(s, w, driver.Job{Round: round}))
		out.Release()
	}
	// 8 MiB of models and 8 MiB of updates are 4096 pages, mapped on each side.
	n := faultsNow(t) - before
	check.That(t, n <= 500, "%d page faults in the first rounds, want none but Go's own", n)
}

func faultsNow(t *testing.T) int64 {
	t.Helper()
	var u unix.Rusage
	check.Must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return u.Minflt
}
