package slab

import (
	"context"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// A Copier copies packages between shared memory and the heap. It records spans of phase
// Copy and counts the bytes.
type Copier struct {
	rec    *phase.Recorder
	copied *phase.Counter
}

// NewCopier returns a copier that records its copies in rec.
func NewCopier(rec *phase.Recorder) Copier { return Copier{rec, rec.Counter(phase.Copied)} }

// Copy copies the tensors, rows and receipt of from into to (A22). id is the span's job.
func (c Copier) Copy(to, from *tensor.Package, id phase.ID) {
	span := c.rec.Begin(phase.Copy, id)
	to.CopyFrom(from)
	span.End()
	c.copied.Add(from.Payload())
}

// CopyChosen copies the bytes of those tensors for which chosen returns true, but no rows.
func (c Copier) CopyChosen(to, from *tensor.Package, id phase.ID, chosen func(i int) bool) {
	span, n := c.rec.Begin(phase.Copy, id), 0
	for i := range from.Len() {
		if chosen(i) {
			n += copy(to.View(i), from.View(i))
		}
	}
	span.End()
	c.copied.Add(n)
}

// CopyOut is a value of the setting copy: the receiver of a model or an update clones it
// onto its heap and uses only the clone.
const CopyOut = "out"

// CloneBytes returns the memory, in bytes, of the clones of models and updates at both ends.
func CloneBytes(o driver.Options) int64 {
	return int64(o.Lanes) * (int64(o.Down.Size()) + int64(o.Depth)*int64(o.Up.Size()))
}

// A CloningServer wraps a driver's server. Collect returns a clone of an update in shared
// memory, and releases the original.
type CloningServer struct {
	driver.Server
	Copier
	ids  []phase.ID         // by lane: the last job
	heap []*driver.HeapBank // by lane: memory of the clones
}

// Cloning wraps s. Updates whose bytes were moved are not in shared memory and are not
// cloned.
func Cloning(s driver.Server, o driver.Options) *CloningServer {
	c := &CloningServer{Server: s, Copier: NewCopier(o.Rec), ids: make([]phase.ID, o.Lanes)}
	for range o.Lanes {
		c.heap = append(c.heap, driver.NewBank(o))
	}
	return c
}

// Dispatch implements [driver.Server].
func (s *CloningServer) Dispatch(ctx context.Context, n int, model *tensor.Package, j driver.Job) error {
	s.ids[n] = j.ID(n)
	return s.Server.Dispatch(ctx, n, model, j)
}

// Collect implements [driver.Server].
func (s *CloningServer) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	p, d, err := s.Server.Collect(ctx, n)
	if err != nil || d.Handle.Tensors == 0 {
		return p, d, err
	}
	defer p.Release()
	own, err := s.heap[n].Lend()
	if err != nil {
		return nil, d, err
	}
	s.Copy(own, p, s.ids[n])
	return own, d, nil
}
