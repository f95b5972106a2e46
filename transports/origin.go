package transports

import (
	"context"
	"sync"

	"ipcbench/codec"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// An origin is what a server has because of a codec: the models and updates that its
// user sees, and what its lanes hold. The model before the current one is the base of
// the delta, and is not overwritten before that is made.
type origin struct {
	codec  *codec.Pipeline
	driver driver.Server
	rec    *phase.Recorder
	based  bool          // updates go from the model
	out    tensor.Ledger // what the driver lends, until it is unpacked
	models *driver.Pair
	lanes  []originLane
	counts codecCounts

	mu      sync.Mutex // guards the rest: lanes are dispatched at the same time
	down    *coded
	version int64           // of the current model; -1 before the first
	model   *tensor.Package // the current one
	delta   parcel          // it from the model before; or alone, if the codec needs no base
	whole   parcel          // all of it: made when a lane needs it
	next    *tensor.Package // reserved with the driver; nil if none is
}

// A parcel is what travels of a model.
type parcel struct {
	*tensor.Package // nil if it was not made
	tally
}

// originLane is what the server has for a lane, whose lock its users hold.
type originLane struct {
	up      *coded
	updates *driver.Bank
	holds   int64 // the version that the worker has: of the last job that it did
	given   int64 // the version of the job that is out
}

func newOrigin(p *codec.Pipeline, o driver.Options) *origin {
	s := &origin{
		codec: p, rec: o.Rec, based: p.Base() && o.Up == o.Down, models: driver.NewPair(o.Down), lanes: make([]originLane, o.Lanes),
		counts: newCodecCounts(o.Rec), down: newCoded(p, o.Down), version: -1,
	}
	for n := range s.lanes {
		s.lanes[n] = originLane{up: newCoded(p, o.Up), updates: driver.NewBank(o.Up, o.Depth, o.Out), holds: -1}
	}
	return s
}

// reserve returns where the next model goes. That holds what the model before the
// current one has decoded to, which the driver may show to others: no longer.
func (s *origin) reserve() (*tensor.Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(); err != nil {
		return nil, err
	}
	return s.models.Reserve(), nil
}

// room reserves where the next parcel goes, unless it is reserved. s.mu is held.
func (s *origin) room() (err error) {
	if s.next == nil {
		s.next, err = s.driver.Reserve()
	}
	return err
}

// publish packs p, which the pair has reserved, publishes that, and makes p what
// lanes will train on.
func (s *origin) publish(ctx context.Context, p *tensor.Package) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	base := s.model
	if !s.codec.Base() {
		base = nil
	}
	made, err := s.send(ctx, phase.Whole(-1), base, p, p.Receipt, s.version+1)
	if err != nil {
		return err
	}
	s.models.Publish()
	s.version, s.model, s.delta, s.whole = s.version+1, p, made, parcel{}
	if base == nil && s.codec.Base() {
		s.delta, s.whole = parcel{}, made
	}
	return nil
}

// send packs model, from base unless that is nil, and publishes what comes of it.
// s.mu is held.
func (s *origin) send(ctx context.Context, id phase.ID, base, model *tensor.Package, receipt []byte, version int64) (parcel, error) {
	if err := s.room(); err != nil {
		return parcel{}, err
	}
	to := s.next
	s.next = nil
	span := s.rec.Begin(phase.Compress, id)
	t, err := s.down.pack(to, base, model, receipt, version, version-1)
	if err == nil && s.codec.Lossy() {
		err = s.down.settle(model, base, to)
	}
	span.End()
	if err != nil {
		return parcel{}, err
	}
	s.down.label(to, model == s.model)
	to.Plain = model
	return parcel{to, t}, s.driver.Publish(ctx, to)
}

// dispatch gives a job to lane n, with what its worker lacks of the model.
func (s *origin) dispatch(ctx context.Context, n int, j driver.Job) error {
	p, err := s.parcel(ctx, &s.lanes[n], j.ID(n))
	if err != nil {
		return err
	}
	return s.driver.Dispatch(ctx, n, p, j)
}

// parcel returns what the worker of l needs to have the model: nil if it has it.
func (s *origin) parcel(ctx context.Context, l *originLane, id phase.ID) (*tensor.Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.given = s.version
	switch {
	case l.holds == s.version:
		s.counts.same.Add(1)
		return nil, nil
	case s.delta.Package != nil && (!s.codec.Base() || l.holds == s.version-1):
		s.counts.down.add(s.delta.tally)
		s.counts.tensors(s.delta.tally)
		return s.delta.Package, nil
	}
	if s.whole.Package == nil {
		var err error
		if s.whole, err = s.send(ctx, id, nil, s.model, s.models.Published(s.model).Receipt, s.version); err != nil {
			return nil, err
		}
	}
	if l.holds < 0 {
		s.counts.first.Add(1)
	} else {
		s.counts.missed.Add(1)
	}
	s.counts.full.Add(s.whole.wire)
	return s.whole.Package, nil
}

// collect unpacks from, the update of the job that is out on lane n, and gives it back
// to the driver.
func (s *origin) collect(from *tensor.Package, id phase.ID) (*tensor.Package, error) {
	defer from.Release()
	l := &s.lanes[id.Lane]
	p, err := l.updates.Lend()
	if err != nil {
		return nil, err
	}
	var base *tensor.Package
	if s.based {
		base = s.model // which no Publish changes while the job is out
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

// codecCounts are the counters of a codec, which the server keeps.
type codecCounts struct {
	down, up                  traffic
	first, missed, full, same *phase.Counter
	plain, unchanged          *phase.Counter
}

// traffic counts bytes of one direction, before and after they were packed.
type traffic struct{ payload, wire *phase.Counter }

func newCodecCounts(rec *phase.Recorder) codecCounts {
	return codecCounts{
		down:  traffic{rec.Counter(phase.CodecDownPayload), rec.Counter(phase.CodecDownWire)},
		up:    traffic{rec.Counter(phase.CodecUpPayload), rec.Counter(phase.CodecUpWire)},
		first: rec.Counter(phase.CodecFull + "first"), missed: rec.Counter(phase.CodecFull + "missed"), full: rec.Counter(phase.CodecFullBytes),
		same: rec.Counter(phase.CodecSame), plain: rec.Counter(phase.CodecPlain), unchanged: rec.Counter(phase.CodecUnchanged),
	}
}

func (c *traffic) add(t tally) {
	c.payload.Add(t.payload)
	c.wire.Add(t.wire)
}

func (c *codecCounts) tensors(t tally) {
	c.plain.Add(t.plain)
	c.unchanged.Add(t.unchanged)
}

// A replica is what a worker has because of a codec: the model that it keeps, which
// deltas patch, and the update that its user writes.
type replica struct {
	codec         *codec.Pipeline
	rec           *phase.Recorder
	based         bool // updates go from the model
	down, up      *coded
	model, update *tensor.Package
	version       int64 // of model; -1 if there is none
}

func newReplica(p *codec.Pipeline, o driver.Options) *replica {
	return &replica{
		codec: p, rec: o.Rec, based: p.Base() && o.Up == o.Down, down: newCoded(p, o.Down), up: newCoded(p, o.Up),
		model: tensor.AllocTouched(o.Down), update: tensor.AllocTouched(o.Up), version: -1,
	}
}

// receive returns the model of a job that came with from, which is nil if the server
// says that it is there already.
func (r *replica) receive(from *tensor.Package, id phase.ID) (*tensor.Package, error) {
	if from == nil {
		if r.version < 0 {
			return nil, errNoModelCame
		}
		return r.model, nil
	}
	defer r.rec.Begin(phase.Expand, id).End()
	if _, err := r.down.unpack(r.model, r.model, from, -1, r.version); err != nil {
		r.version = -1 // it may be patched in part
		return nil, err
	}
	r.version = r.down.header.version
	return r.model, nil
}

// send packs the update to p.
func (r *replica) send(p *tensor.Package, id phase.ID) error {
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
