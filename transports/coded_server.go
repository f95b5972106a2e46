package transports

import (
	"context"
	"sync"

	"ipcbench/codec"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// A codedServer is the server's state for a codec: the models and updates that its user sees,
// and the versions that its lanes hold. The previous model is the base of the delta, and
// is not overwritten until the delta is made.
type codedServer struct {
	codec  *codec.Pipeline
	driver driver.Server
	rec    *phase.Recorder
	based  bool          // updates are packed with the model as base
	out    tensor.Ledger // counts packed updates that the driver lends; each is released once unpacked
	models *driver.HeapPair
	lanes  []codedLane
	counts codecCounts

	mu      sync.Mutex // guards the fields below, because lanes are dispatched concurrently
	down    *coded
	version int64           // of the current model; -1 before the first
	model   *tensor.Package // current model
	delta   packedModel     // current model, packed with the previous one as base if it uses one
	full    packedModel     // current model packed without a base; made when a lane first needs it
	next    *tensor.Package // package reserved from the driver, or nil
}

// A packedModel is a packed model and what was counted while packing it.
type packedModel struct {
	*tensor.Package // nil if not made
	packCounts
}

// codedLane is the server's state for a lane, guarded by the serverLane's lock.
type codedLane struct {
	up      *coded
	updates *driver.HeapBank
	holds   int64 // model version that the worker has, from its last collected job; -1 for none
	given   int64 // model version of the job that is out
}

func newCodedServer(p *codec.Pipeline, o driver.Options) *codedServer {
	s := &codedServer{
		codec: p, rec: o.Rec, based: p.Base() && o.Up == o.Down,
		models: driver.NewPair(o), lanes: make([]codedLane, o.Lanes),
		counts: newCodecCounts(o.Rec), down: newCoded(p, o.Down), version: -1,
	}
	for n := range s.lanes {
		s.lanes[n] = codedLane{up: newCoded(p, o.Up), updates: driver.NewBank(o), holds: -1}
	}
	return s
}

// reserve returns the package to write the next model into. It holds the
// previous model, which the driver may still serve in decoded form (Package.Plain). So
// reserve first makes the driver unpublish that model, by reserving the next package.
func (s *codedServer) reserve() (*tensor.Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(); err != nil {
		return nil, err
	}
	return s.models.Reserve()
}

// room reserves a package from the driver for the next package, unless it has one. s.mu is
// held.
func (s *codedServer) room() (err error) {
	if s.next == nil {
		s.next, err = s.driver.Reserve()
	}
	return err
}

// publish packs p, which reserve returned, and publishes the result. If the codec is
// lossy, it changes p to the values that lanes will train.
func (s *codedServer) publish(ctx context.Context, p *tensor.Package) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	base := s.model
	if !s.codec.Base() {
		base = nil
	}
	delta, err := s.send(ctx, phase.OfRound(-1), base, p, p.Receipt, s.version+1)
	if err != nil {
		return err
	}
	s.models.Publish()
	s.version, s.model, s.delta, s.full = s.version+1, p, delta, packedModel{}
	if base == nil && s.codec.Base() {
		s.delta, s.full = packedModel{}, delta
	}
	return nil
}

// send packs model, with base unless that is nil, and publishes the result. s.mu is held.
func (s *codedServer) send(
	ctx context.Context, id phase.ID, base, model *tensor.Package, receipt []byte, version int64,
) (packedModel, error) {
	if err := s.room(); err != nil {
		return packedModel{}, err
	}
	to := s.next
	s.next = nil
	span := s.rec.Begin(phase.Compress, id)
	t, err := s.down.pack(to, base, model, receipt, version, version-1)
	if err == nil && s.codec.Lossy() {
		err = s.down.applyLoss(model, base, to)
	}
	span.End()
	if err != nil {
		return packedModel{}, err
	}
	s.down.label(to, model == s.model)
	to.Plain = model
	return packedModel{to, t}, s.driver.Publish(ctx, to)
}

// dispatch sends a job to lane n, with the package that its worker needs.
func (s *codedServer) dispatch(ctx context.Context, n int, j driver.Job) error {
	p, err := s.packageFor(ctx, &s.lanes[n], j.ID(n))
	if err != nil {
		return err
	}
	return s.driver.Dispatch(ctx, n, p, j)
}

// packageFor returns the package that the worker of l needs to get the current model: nil if it
// has the model, the delta if it has the delta's base, otherwise the full model.
func (s *codedServer) packageFor(ctx context.Context, l *codedLane, id phase.ID) (*tensor.Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.given = s.version
	switch {
	case l.holds == s.version:
		s.counts.same.Add(1)
		return nil, nil
	case s.delta.Package != nil && (!s.codec.Base() || l.holds == s.version-1):
		s.counts.down.add(s.delta.packCounts)
		s.counts.tensors(s.delta.packCounts)
		return s.delta.Package, nil
	}
	if s.full.Package == nil {
		var err error
		if s.full, err = s.send(ctx, id, nil, s.model, s.models.Published(s.model).Receipt, s.version); err != nil {
			return nil, err
		}
	}
	if l.holds < 0 {
		s.counts.first.Add(1)
	} else {
		s.counts.missed.Add(1)
	}
	s.counts.full.Add(s.full.wire)
	return s.full.Package, nil
}

// collect unpacks from, the update of the job that id names, and releases it to the driver.
// The update returned is lent, from memory of s.
func (s *codedServer) collect(from *tensor.Package, id phase.ID) (*tensor.Package, error) {
	defer from.Release()
	l := &s.lanes[id.Lane]
	p, err := l.updates.Lend()
	if err != nil {
		return nil, err
	}
	var base *tensor.Package
	if s.based {
		base = s.model // no Publish changes it while a job is out
	}
	span := s.rec.Begin(phase.Expand, id)
	t, err := l.up.unpack(p, base, from, l.given, l.given)
	span.End()
	if err != nil {
		p.Release()
		return nil, err
	}
	l.holds = l.given
	s.counts.up.add(t)
	s.counts.tensors(t)
	return p, nil
}

// codecCounts are the server's counters for a codec.
type codecCounts struct {
	down, up                  traffic
	first, missed, full, same *phase.Counter
	plain, unchanged          *phase.Counter
}

// traffic counts the bytes of one direction, before and after packing.
type traffic struct{ payload, wire *phase.Counter }

func newCodecCounts(rec *phase.Recorder) codecCounts {
	return codecCounts{
		down:  traffic{rec.Counter(phase.CodecDownPayload), rec.Counter(phase.CodecDownWire)},
		up:    traffic{rec.Counter(phase.CodecUpPayload), rec.Counter(phase.CodecUpWire)},
		first: rec.Counter(phase.CodecFull + "first"), missed: rec.Counter(phase.CodecFull + "missed"),
		full: rec.Counter(phase.CodecFullBytes), same: rec.Counter(phase.CodecSame),
		plain: rec.Counter(phase.CodecPlain), unchanged: rec.Counter(phase.CodecUnchanged),
	}
}

func (c *traffic) add(t packCounts) {
	c.payload.Add(t.payload)
	c.wire.Add(t.wire)
}

func (c *codecCounts) tensors(t packCounts) {
	c.plain.Add(t.plain)
	c.unchanged.Add(t.unchanged)
}

// A codedWorker is a worker's state for a codec: the model, which deltas patch in place, and
// the update that its user writes.
type codedWorker struct {
	codec         *codec.Pipeline
	rec           *phase.Recorder
	based         bool // updates are packed with the model as base
	down, up      *coded
	model, update *tensor.Package
	version       int64 // of model; -1 before the first, and after a failed patch
}

func newCodedWorker(p *codec.Pipeline, o driver.Options) *codedWorker {
	return &codedWorker{
		codec: p, rec: o.Rec, based: p.Base() && o.Up == o.Down, down: newCoded(p, o.Down), up: newCoded(p, o.Up),
		model: o.Alloc(o.Down), update: o.Alloc(o.Up), version: -1,
	}
}

// receive returns the model of a job that came with package from, which is nil if the
// worker has the model already.
func (r *codedWorker) receive(from *tensor.Package, id phase.ID) (*tensor.Package, error) {
	if from == nil {
		if r.version < 0 {
			return nil, errModelMissing
		}
		return r.model, nil
	}
	defer r.rec.Begin(phase.Expand, id).End()
	if _, err := r.down.unpack(r.model, r.model, from, -1, r.version); err != nil {
		r.version = -1 // the model may be partly patched
		return nil, err
	}
	r.version = r.down.header.version
	return r.model, nil
}

// send packs the update into p.
func (r *codedWorker) send(p *tensor.Package, id phase.ID) error {
	var base *tensor.Package
	if r.based {
		base = r.model
	}
	defer r.rec.Begin(phase.Compress, id).End()
	_, err := r.up.pack(p, base, r.update, r.update.Receipt, r.version, r.version)
	r.up.label(p, false)
	p.Plain = r.update
	return err
}
