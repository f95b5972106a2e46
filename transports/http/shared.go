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

// shared is a worker's view of the server's slabs. Tensors in slabs that it cannot open,
// and tensors that it does not find there, are fetched as bodies.
//
// A model is lent to the worker in place: its generations are checked when it is lent
// and again before the update is sent.
type shared struct {
	o       driver.Options
	c       config
	ref     store.SlabRef
	reader  *slab.Reader   // reads the models' slab, named by ref; nil if it cannot be opened
	mem     *slab.Memory   // slab of the lane's updates; nil if this process is not local
	updates *slab.Packages // places of updates in mem
	copier  slab.Copier    // copies models, with copy=out

	handles []slab.Handle // one per tensor of the current model; zero if it is not shared
	views   [][]byte      // one per tensor of the current model
	recent  []lentModel   // the last two models, so that a package is not made for every job
}

// newShared opens the slabs of a session. If it can open the lane's slab, it writes the
// challenge there.
func newShared(o driver.Options, c config, a joinAnswer) *shared {
	s := &shared{
		o: o, c: c, copier: slab.NewCopier(o.Rec),
		handles: make([]slab.Handle, o.Down.Len()), views: make([][]byte, o.Down.Len()),
	}
	if a.Models != nil {
		s.ref = *a.Models
		if nonce, err := s.ref.Decode(); err == nil && inSession(s.ref.Path) {
			s.reader, _ = slab.OpenReader(s.ref.Path, nonce, s.o.Pages) // on failure tensors are fetched as bodies
		}
	}
	challenge, err := hex.DecodeString(a.Challenge)
	if a.Updates == nil || err != nil || len(challenge) != challengeSize {
		return s
	}
	if nonce, err := a.Updates.Decode(); err == nil && inSession(a.Updates.Path) {
		s.mem, _ = slab.OpenNamed(a.Updates.Path, nonce, slab.ReadWrite, s.o.Pages) // on failure updates are sent as bodies
	}
	if s.mem == nil {
		return s
	}
	if b := s.mem.Bytes(); a.Offset > uint64(len(b)) || copy(b[a.Offset:], challenge) < challengeSize {
		_ = s.giveUp() // cannot be used: it has no room for the challenge
		return s
	}
	s.updates = slab.NewPackages(s.mem, o.Up)
	return s
}

// inSession reports whether path is in a directory where servers create their slabs.
// Other paths are never opened, because a server on another host could name any file of
// this one.
func inSession(path string) bool {
	dir := filepath.Dir(path)
	return path == filepath.Clean(path) && filepath.Dir(dir) == scratch.SharedMemory && scratch.Named(filepath.Base(dir))
}

// giveUp closes the lane's slab; updates are then sent as bodies.
func (s *shared) giveUp() (err error) {
	if s.mem != nil {
		err = s.mem.Close()
	}
	s.mem, s.updates = nil, nil
	return err
}

func (s *shared) close() (err error) {
	if s.reader != nil {
		err = s.reader.Close()
	}
	return errors.Join(err, s.giveUp())
}

// model returns the model of job a, and appends the indexes of tensors that must be
// fetched to which. Fetched tensors are in memory from downlink, which is the whole
// result if nothing is shared.
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

// clone copies the shared tensors of model to own, after which the worker no longer
// reads the server's memory. It fails if the model changed before the copy was complete.
func (s *shared) clone(own, model *tensor.Package, id phase.ID) error {
	s.copier.CopyChosen(own, model, id, func(i int) bool { return s.handles[i] != (slab.Handle{}) })
	err := s.unchanged()
	s.none()
	return err
}

// none records that the current job has no shared tensors.
func (s *shared) none() { clear(s.handles) }

// lend returns a package of the tensors that were found. If all tensors are shared, it
// reuses the package of one of the last two models in the same memory.
func (s *shared) lend(all bool) *tensor.Package {
	for _, w := range s.recent {
		if all && slices.EqualFunc(w.handles, s.handles, sameBlock) {
			return w.p
		}
	}
	p := tensor.NewScattered(s.o.Down, slices.Clone(s.views))
	if all {
		s.recent = append(s.recent[max(0, len(s.recent)-1):], lentModel{slices.Clone(s.handles), p})
	}
	return p
}

// A lentModel is the package of a model whose tensors are all shared, and their handles.
type lentModel struct {
	handles []slab.Handle
	p       *tensor.Package
}

// sameBlock reports whether a and b name the same bytes, whatever their generations.
func sameBlock(a, b slab.Handle) bool { return a.Offset == b.Offset && a.Length == b.Length }

func (s *shared) amount(model *tensor.Package) (a driver.Amount) {
	for i, h := range s.handles {
		if h != (slab.Handle{}) {
			a.Tensors++
			a.Bytes += len(model.View(i))
		}
	}
	return a
}

var errRuns = errors.New("the job has invalid locations for its model")

// locate sets the handles of all tensors in runs, and clears the others.
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

// unchanged returns an error if the current model's memory has been reused since it was
// lent: the update would then be worthless.
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
