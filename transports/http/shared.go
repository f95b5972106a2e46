package http

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"ipcbench/internal/scratch"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// shared is a worker's view of the server's slabs, as far as it can open them.
// What it cannot open, and what it does not find there, is fetched as a body.
//
// A model is lent to the worker where it lies, and not copied: its generations
// are checked when it is lent and again before the update is sent.
type shared struct {
	o       driver.Options
	c       config
	ref     store.SlabRef
	reader  *slab.Reader   // of the slab of models, which ref names; nil if it cannot be opened
	mem     *slab.Memory   // of the lane's updates; nil if this process is not local
	updates *slab.Packages // in mem
	copier  slab.Copier    // with copy=out, of models

	handles []slab.Handle // of the tensors of the model in hand, zero where one is not shared
	views   [][]byte      // of these tensors
	whole   []whole       // the last two, so that a package is not made for every job
}

// newShared opens the slabs of a session. If this process is local it has written
// the proof.
func newShared(o driver.Options, c config, a joinAnswer) *shared {
	s := &shared{
		o: o, c: c, copier: slab.NewCopier(o.Rec),
		handles: make([]slab.Handle, o.Down.Len()), views: make([][]byte, o.Down.Len()),
	}
	if a.Models != nil {
		s.ref = *a.Models
		if nonce, err := s.ref.Decode(); err == nil && inSession(s.ref.Path) {
			s.reader, _ = slab.OpenReader(s.ref.Path, nonce) // whatever it is, it is not ours to read
		}
	}
	challenge, err := hex.DecodeString(a.Challenge)
	if a.Updates == nil || err != nil || len(challenge) != challengeSize {
		return s
	}
	if nonce, err := a.Updates.Decode(); err == nil && inSession(a.Updates.Path) {
		s.mem, _ = slab.OpenNamed(a.Updates.Path, nonce, slab.ReadWrite) // likewise
	}
	if s.mem == nil {
		return s
	}
	if b := s.mem.Bytes(); a.Offset > uint64(len(b)) || copy(b[a.Offset:], challenge) < challengeSize {
		_ = s.giveUp() // never had room for anything
		return s
	}
	s.updates = slab.NewPackages(s.mem, o.Up)
	return s
}

// inSession reports whether path is where servers have their slabs. What a server names
// besides is not even looked at: it may be on another host, and mean this one no good.
func inSession(path string) bool {
	dir := filepath.Dir(path)
	return path == filepath.Clean(path) && filepath.Dir(dir) == scratch.SharedMemory && scratch.Named(filepath.Base(dir))
}

// giveUp forgets the lane's slab.
func (s *shared) giveUp() (err error) {
	if s.mem != nil {
		err = s.mem.Close()
	}
	s.mem, s.updates = nil, nil
	return err
}

// close gives the memory up.
func (s *shared) close() (err error) {
	if s.reader != nil {
		err = s.reader.Close()
	}
	return errors.Join(err, s.giveUp())
}

// model returns the model of job a, and appends to which the tensors that have
// to be fetched to their places in it, or in downlink if that is all of them.
func (s *shared) model(a jobAnswer, downlink func() *tensor.Package, which []int) (*tensor.Package, []int, error) {
	if err := s.locate(a.Runs); err != nil {
		return nil, nil, err
	}
	there := s.reader != nil && a.Pool != nil && *a.Pool == s.ref
	if a.Pool != nil && !there {
		a.Fallback = store.Remote
	}
	stale := 0
	for i, h := range s.handles {
		if there && h != (slab.Handle{}) {
			view, err := s.reader.View(h, s.o.Down.Bytes(i))
			if err == nil {
				s.views[i] = view
				continue
			}
			stale++
		}
		s.handles[i] = slab.Handle{}
		which = append(which, i)
	}
	s.c.fellBack(s.o.Rec, store.Stale, stale)
	s.c.fellBack(s.o.Rec, a.Fallback, len(which)-stale)
	if len(which) == len(s.handles) {
		return downlink(), which, nil
	}
	for _, i := range which {
		s.views[i] = downlink().View(i)
	}
	return s.lend(len(which) == 0), which, nil
}

// clone copies what is shared of the model in hand to own: the worker has done with the
// server's memory then. What is copied was the model's if it still is.
func (s *shared) clone(own, model *tensor.Package, id phase.ID) error {
	s.copier.CopyChosen(own, model, id, func(i int) bool { return s.handles[i] != (slab.Handle{}) })
	err := s.unchanged()
	s.none()
	return err
}

// none says that the job in hand has no model.
func (s *shared) none() { clear(s.handles) }

// lend returns a package with the tensors that were found. A model that is there as a
// whole lies in one of two places.
func (s *shared) lend(all bool) *tensor.Package {
	for _, w := range s.whole {
		if all && slices.EqualFunc(w.handles, s.handles, sameBlock) {
			return w.p
		}
	}
	p := tensor.NewScattered(s.o.Down, slices.Clone(s.views))
	if all {
		s.whole = append(s.whole[max(0, len(s.whole)-1):], whole{slices.Clone(s.handles), p})
	}
	return p
}

// A whole is a model that was found as a whole before.
type whole struct {
	handles []slab.Handle
	p       *tensor.Package
}

// sameBlock reports whether a and b name the same bytes, at whatever time.
func sameBlock(a, b slab.Handle) bool { return a.Offset == b.Offset && a.Length == b.Length }

// amount returns how much of the model in hand is shared.
func (s *shared) amount(model *tensor.Package) (a driver.Amount) {
	for i, h := range s.handles {
		if h != (slab.Handle{}) {
			a.Tensors++
			a.Bytes += len(model.View(i))
		}
	}
	return a
}

var errRuns = errors.New("the job does not say where its model lies")

// locate fills in the handles of all tensors in runs.
func (s *shared) locate(runs []run) error {
	clear(s.handles)
	for _, r := range runs {
		h, err := r.Handle.Decode()
		if err != nil {
			return err
		}
		if r.First < 0 || r.Count < 1 || r.First >= len(s.handles) || r.Count > len(s.handles)-r.First {
			return fmt.Errorf("%w: tensors %d to %d of %d", errRuns, r.First, r.First+r.Count, len(s.handles))
		}
		h.Index = 0
		for i := r.First; i < r.First+r.Count; i++ {
			if i > r.First {
				if h, err = next(h, s.o.Down.Bytes(i)); err != nil {
					return fmt.Errorf("%w: tensor %d: %w", errRuns, i, err)
				}
			}
			if h.Length != uint64(s.o.Down.Bytes(i)) || h.Generation == 0 || s.handles[i] != (slab.Handle{}) {
				return fmt.Errorf("%w: tensor %d", errRuns, i)
			}
			s.handles[i] = h
		}
	}
	return nil
}

// unchanged reports whether the model in hand is still the one that was lent. Had its
// memory been reused meanwhile, the update would be worthless.
func (s *shared) unchanged() error {
	for i, h := range s.handles {
		if h == (slab.Handle{}) {
			continue
		}
		if err := s.reader.Check(h); err != nil {
			return fmt.Errorf("the model changed while it was in use: tensor %d (%s): %w", i, s.o.Down.Spec(i).Name, err)
		}
	}
	return nil
}

// update returns the memory that h names in the lane's slab.
func (s *shared) update(h store.Handle) (*tensor.Package, error) {
	if s.updates == nil {
		return nil, errNoProof
	}
	handle, err := h.Decode()
	if err != nil {
		return nil, err
	}
	return s.updates.At(handle)
}
