package shm

import (
	"context"
	"errors"
	"fmt"
	"os"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/lend"
	"ipcbench/transports/internal/slab"
)

// slabStore keeps the models in one slab and each lane's updates in another.
type slabStore struct {
	models  *slab.Models
	updates []*slab.Updates
	heap    *lend.Model // with copy=in, where the caller's models lie; nil otherwise

	rec    *phase.Recorder
	copied *phase.Counter
}

func newSlabStore(o driver.Options, ledger *tensor.Ledger) (*slabStore, error) {
	size, err := slabSizes(o)
	if err != nil {
		return nil, err
	}
	mem, err := slab.Memfd("ipcbench-models", size.models, slab.Touched)
	if err != nil {
		return nil, err
	}
	s := &slabStore{rec: o.Rec, copied: o.Rec.Counter(phase.Copied)}
	if err = mem.Freeze(); err == nil { // nobody but this mapping writes to the models
		s.models, err = slab.NewModels(mem, o.Down)
	}
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	for n := range o.Lanes {
		u, err := newLaneSlab(n, size.updates, o.Up, ledger)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.updates = append(s.updates, u)
	}
	if o.Settings.Get("copy") == "in" {
		s.heap = lend.NewModel(o.Down)
	}
	return s, nil
}

func newLaneSlab(n, size int, l *tensor.Layout, ledger *tensor.Ledger) (*slab.Updates, error) {
	mem, err := slab.Memfd(fmt.Sprintf("ipcbench-updates-%d", n), size, slab.Touched)
	if err != nil {
		return nil, err
	}
	u, err := slab.NewUpdates(mem, l, ledger)
	if err == nil {
		err = mem.Protect() // the server allocates there and never writes
	}
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return u, nil
}

func (s *slabStore) reserve() (*tensor.Package, error) {
	if s.heap != nil {
		return s.heap.Reserve()
	}
	return s.models.Reserve()
}

func (s *slabStore) publish(p *tensor.Package) error {
	if s.heap == nil {
		return s.models.Publish(p)
	}
	shared, err := s.models.Reserve()
	if err != nil {
		return err
	}
	span := s.rec.Begin(phase.Copy, phase.Whole(-1))
	shared.CopyFrom(p)
	span.End()
	s.copied.Add(p.Layout().Payload())
	return errors.Join(s.models.Publish(shared), s.heap.Publish(p))
}

func (s *slabStore) current() (slab.Handle, error) {
	h, _, err := s.models.Current()
	return h, err
}

func (s *slabStore) issue(n int) (slab.Handle, error) {
	h, _, err := s.updates[n].Reserve()
	return h, err
}

func (s *slabStore) lend(_ context.Context, n int, h slab.Handle) (*tensor.Package, error) {
	return s.updates[n].Lend(h)
}

func (s *slabStore) welcome(n int) (string, []*os.File) {
	return "", []*os.File{s.models.Memory().File(), s.updates[n].Memory().File()}
}

func (s *slabStore) ready(n int) error { return s.updates[n].Memory().Freeze() }

func (s *slabStore) passed(_ int, _ []byte, files []*os.File) error {
	closeAll(files)
	return errMessage
}

func (s *slabStore) left(int) {}

func (s *slabStore) close() error {
	err := s.models.Close()
	for _, u := range s.updates {
		err = errors.Join(err, u.Close())
	}
	return err
}

// slabView is a worker's side: the models, read-only, and its lane's updates.
type slabView struct {
	models, updates       *slab.Packages
	modelsMem, updatesMem *slab.Memory
	shared                *tensor.Package // the update of the job in hand
	heap                  *tensor.Package // with copy=in, where it is written first; nil otherwise

	rec    *phase.Recorder
	copied *phase.Counter
}

func newSlabView(o driver.Options, files []*os.File) (*slabView, error) {
	size, err := slabSizes(o)
	if err != nil || len(files) != 2 {
		closeAll(files)
		return nil, errors.Join(err, fmt.Errorf("welcome with %d descriptors, want 2", len(files)))
	}
	v := &slabView{rec: o.Rec, copied: o.Rec.Counter(phase.Copied)}
	if v.modelsMem, err = slab.Open(files[0], size.models, slab.ReadOnly, slab.Touched); err != nil {
		files[1].Close()
		return nil, fmt.Errorf("models: %w", err)
	}
	if v.updatesMem, err = slab.Open(files[1], size.updates, slab.ReadWrite, slab.Touched); err != nil {
		return nil, errors.Join(fmt.Errorf("updates: %w", err), v.modelsMem.Close())
	}
	v.models, v.updates = slab.NewPackages(v.modelsMem, o.Down), slab.NewPackages(v.updatesMem, o.Up)
	if o.Settings.Get("copy") == "in" {
		v.heap = tensor.AllocTouched(o.Up)
	}
	return v, nil
}

func (v *slabView) model(h slab.Handle) (*tensor.Package, error) {
	_, p, err := v.models.At(h)
	return p, err
}

func (v *slabView) update(h slab.Handle) (*tensor.Package, error) {
	_, p, err := v.updates.At(h)
	if err != nil || v.heap == nil {
		return p, err
	}
	v.shared = p
	return v.heap, nil
}

func (v *slabView) finish(_ context.Context, p *tensor.Package, id phase.ID) error {
	if v.heap == nil {
		return nil
	}
	span := v.rec.Begin(phase.Copy, id)
	v.shared.CopyFrom(p)
	span.End()
	v.copied.Add(p.Layout().Payload())
	return nil
}

func (v *slabView) done() error { return nil }

func (v *slabView) close() error { return errors.Join(v.modelsMem.Close(), v.updatesMem.Close()) }
