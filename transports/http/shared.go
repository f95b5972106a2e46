package http

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

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
// are checked when it is lent and again before the update is sent. The methods
// of a nil shared find nothing.
type shared struct {
	o       driver.Options
	readers map[store.SlabRef]*slab.Reader // nil for a slab that could not be opened
	updates *slab.Packages                 // of the lane; nil if this process is not local
	mem     *slab.Memory                   // of updates

	reader  *slab.Reader  // of the model in hand; nil if none of it is shared
	handles []slab.Handle // of its tensors, zero where one is not shared
	views   [][]byte      // of its tensors
	whole   []whole       // the last two, so that a package is not made for every job

	tensors, bytes *phase.Counter
	fallback       fallbacks
}

func newShared(o driver.Options) *shared {
	return &shared{
		o: o, readers: map[store.SlabRef]*slab.Reader{},
		handles: make([]slab.Handle, o.Down.Len()), views: make([][]byte, o.Down.Len()),
		tensors: o.Rec.Counter(phase.HandleTensors), bytes: o.Rec.Counter(phase.HandleBytes),
		fallback: newFallbacks(o.Rec, true),
	}
}

// has reports whether the lane's updates are shared.
func (s *shared) has() bool { return s != nil && s.updates != nil }

// open looks for the slabs of a session, and reports whether this process is
// local. If it is, it has written the proof.
func (s *shared) open(a joinAnswer) bool {
	if a.Models != nil {
		s.reading(*a.Models) // maps it before the first round
	}
	challenge, err := hex.DecodeString(a.Challenge)
	if a.Updates == nil || err != nil || len(challenge) != challengeSize {
		return false
	}
	nonce, err := a.Updates.Decode()
	if err != nil {
		return false
	}
	mem, err := slab.OpenNamed(a.Updates.Path, nonce, slab.ReadWrite)
	if err != nil {
		return false
	}
	if copy(mem.Bytes(), challenge) < challengeSize {
		_ = mem.Close() // never had room for anything
		return false
	}
	s.mem, s.updates = mem, slab.NewPackages(mem, s.o.Up)
	return true
}

// giveUp forgets the lane's slab.
func (s *shared) giveUp() error {
	err := s.mem.Close()
	s.mem, s.updates = nil, nil
	return err
}

// reading returns the reader of a slab, nil if it cannot be opened. That is
// found out once.
func (s *shared) reading(ref store.SlabRef) *slab.Reader {
	r, known := s.readers[ref]
	if !known {
		if nonce, err := ref.Decode(); err == nil {
			r, _ = slab.OpenReader(ref.Path, nonce) // whatever it is, it is not ours to read
		}
		s.readers[ref] = r
	}
	return r
}

// model returns the model of job a, and appends to which the tensors that have
// to be fetched to their places in it.
func (s *shared) model(a jobAnswer, memory *heapMemory, which []int) (*tensor.Package, []int, error) {
	if s.reader = nil; a.Pool != nil {
		if s.reader = s.reading(*a.Pool); s.reader == nil {
			a.Fallback = store.Remote
		}
	}
	if err := s.locate(a.Runs); err != nil {
		return nil, nil, err
	}
	for i, h := range s.handles {
		why := a.Fallback
		if s.reader != nil && h != (slab.Handle{}) {
			view, err := s.reader.View(h, s.o.Down.Bytes(i))
			if err == nil {
				s.views[i] = view
				continue
			}
			why = store.Stale
		}
		s.fallback.add(why, 1)
		s.handles[i], s.views[i] = slab.Handle{}, nil
		which = append(which, i)
	}
	p := s.lend(memory, which)
	if err := p.TakeRows(a.Rows); err != nil {
		return nil, nil, err
	}
	for i, h := range s.handles {
		if h != (slab.Handle{}) {
			s.tensors.Add(1)
			s.bytes.Add(len(p.View(i)))
		}
	}
	return p, which, nil
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
			if h.Length != uint64(s.o.Down.Bytes(i)) || h.Generation == 0 || s.handles[i] != (slab.Handle{}) {
				return fmt.Errorf("%w: tensor %d", errRuns, i)
			}
			s.handles[i] = h
			if i+1 < r.First+r.Count {
				if h, err = next(h, s.o.Down.Bytes(i+1)); err != nil {
					return fmt.Errorf("%w: tensor %d: %w", errRuns, i, err)
				}
			}
		}
	}
	return nil
}

// lend returns a package of what was found and, for the tensors in which, of
// heap memory. A model that is there as a whole lies in one of two places.
func (s *shared) lend(memory *heapMemory, which []int) *tensor.Package {
	switch {
	case len(which) == s.o.Down.Len():
		return memory.downlink()
	case len(which) > 0:
		for _, i := range which {
			s.views[i] = memory.downlink().View(i)
		}
		return tensor.NewScattered(s.o.Down, slices.Clone(s.views))
	}
	for _, w := range s.whole {
		if w.reader == s.reader && slices.EqualFunc(w.handles, s.handles, sameBlock) {
			return w.p
		}
	}
	w := whole{s.reader, slices.Clone(s.handles), tensor.NewScattered(s.o.Down, slices.Clone(s.views))}
	s.whole = append(s.whole[max(0, len(s.whole)-1):], w)
	return w.p
}

// A whole is a model that was found as a whole before.
type whole struct {
	reader  *slab.Reader
	handles []slab.Handle
	p       *tensor.Package
}

// sameBlock reports whether a and b name the same bytes, at whatever time.
func sameBlock(a, b slab.Handle) bool { return a.Offset == b.Offset && a.Length == b.Length }

// unchanged reports whether the model in hand is still the one that was lent.
func (s *shared) unchanged() error {
	if s == nil || s.reader == nil {
		return nil
	}
	for i, h := range s.handles {
		if h == (slab.Handle{}) {
			continue
		}
		if err := s.reader.Check(h); err != nil {
			return fmt.Errorf("tensor %d (%s): %w", i, s.o.Down.Spec(i).Name, err)
		}
	}
	return nil
}

// update returns the memory that h names in the lane's slab.
func (s *shared) update(h store.Handle) (*tensor.Package, error) {
	if !s.has() {
		return nil, errNoProof
	}
	handle, err := h.Decode()
	if err != nil {
		return nil, err
	}
	_, p, err := s.updates.At(handle)
	return p, err
}

// close gives the memory up. A second call does nothing.
func (s *shared) close() error {
	if s == nil {
		return nil
	}
	var err error
	for _, r := range s.readers {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	clear(s.readers)
	if s.mem != nil {
		err = errors.Join(err, s.mem.Close())
	}
	s.mem, s.updates, s.reader, s.whole = nil, nil, nil, nil
	return err
}
