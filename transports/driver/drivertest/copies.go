package drivertest

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"ipcbench/internal/crash"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// testUntouched: a transport that declares no copies does not touch a tensor: the model
// between Publish and Receive, and an update between Submit and Collect. A copy that it does
// not declare faults, because these pages cannot be accessed meanwhile.
func testUntouched(t *testing.T, tr driver.Transport) {
	variants(t, tr, func(t *testing.T, v transports.Variant) {
		s := Open(t, v, Vectors(t, tensor.F32, 1<<15, 1<<14), 1)
		s.Publish(1)
		s.Prove(0, driver.Job{})
		server, worker := s.Counts()
		if moved := worker[phase.BodyTensors] + server[phase.BodyTensors]; moved > 0 || worker[phase.Copied]+server[phase.Copied] > 0 {
			t.Skip("it copies")
		}
		w, ctx := s.Workers[0], waiting.Context(t)
		for round := 1; round < 4; round++ { // memory is used again
			job := driver.Job{Round: round}
			m := check.Value(s.Server.Reserve(round))(t)
			tensor.Fill(m, uint64(round))
			allow := deny(t, m)
			var model, p *tensor.Package
			err := crash.Guard(func() error {
				_, err := s.Server.Publish(ctx, round, m)
				err = errors.Join(err, s.Server.Dispatch(ctx, 0, job))
				if err == nil {
					_, model, err = w.Receive(ctx)
				}
				return err
			})
			allow()
			check.Must(t, err, "the model of round", round)
			update := check.Value(w.Reserve())(t)
			check.Must(t, tensor.Train(update, model, Key(job)))
			allow = deny(t, update)
			err = crash.Guard(func() (err error) {
				if err = w.Submit(ctx, update); err == nil {
					p, err = s.Server.Collect(ctx, 0)
				}
				return err
			})
			allow()
			check.Must(t, err, "the update of round", round)
			check.Must(t, tensor.Prove(p, m, Key(job)))
			p.Release()
		}
	})
}

// deny makes the pages of p's tensors inaccessible in every mapping of this process, until
// allow is called.
func deny(t testing.TB, p *tensor.Package) (allow func()) {
	t.Helper()
	self, page := check.Value(procfs.Self())(t), uintptr(os.Getpagesize())
	maps := check.Value(self.ProcMaps())(t)
	var undo []func()
	protect := func(start, end uintptr, access int) error {
		if _, _, err := unix.Syscall(unix.SYS_MPROTECT, start, end-start, uintptr(access)); err != 0 {
			return err
		}
		return nil
	}
	for i := range p.Len() {
		view := p.View(i)
		start := reflect.ValueOf(view).Pointer()
		end := (start + uintptr(len(view))) &^ (page - 1)
		start = (start + page - 1) &^ (page - 1)
		k := slices.IndexFunc(maps, func(m *procfs.ProcMap) bool { return m.StartAddr <= start && end <= m.EndAddr })
		check.Need(t, k >= 0 && start < end, "tensor %d has no page in a mapping", i)
		file := maps[k]
		for _, m := range maps {
			if m != file && (m.Inode == 0 || m.Inode != file.Inode || m.Dev != file.Dev) {
				continue
			}
			ahead := m.StartAddr - uintptr(m.Offset) - (file.StartAddr - uintptr(file.Offset))
			start, end, access := start+ahead, end+ahead, unix.PROT_READ
			if start < m.StartAddr || end > m.EndAddr {
				continue // another part of the file
			}
			if m.Perms.Write {
				access |= unix.PROT_WRITE
			}
			check.Must(t, protect(start, end, unix.PROT_NONE))
			undo = append(undo, func() { _ = protect(start, end, access) }) // it may have been unmapped
		}
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}
