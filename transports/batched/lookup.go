package batched

import (
	"context"

	"ipcbench/phase"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
)

// A lookup is a request for tensors that was found in order. It holds a slot
// until done.
type lookup struct {
	s     *server
	lane  *lane
	id    phase.ID
	tally tally
	model *tensor.Package
	round int64
	order []int // the tensors that were asked for
}

// find checks a request and looks its tensors up.
func (s *server) find(ctx context.Context, h *pb.MessageHeader, client int64, specs []*pb.TensorSpec) (*lookup, error) {
	l, err := s.admit(ctx, h)
	if err != nil {
		return nil, err
	}
	j, ok := l.mail.Job()
	switch {
	case !ok:
		return nil, refuse(wrongTask, "%s has no task", l.reply.Receiver)
	case client != int64(j.Client):
		return nil, refuse(wrongTask, "client %d: the task of %s is client %d's", client, l.reply.Receiver, j.Client)
	}
	f := &lookup{
		s: s, lane: l, round: int64(j.Round),
		id: phase.ID{Lane: l.index, Round: j.Round, Client: j.Client}, tally: newTally(s.o.Rec),
	}
	if f.model, err = s.model.Current(); err != nil {
		return nil, refuse(wrongTask, "%v", err)
	}
	if err = f.resume(ctx); err == nil {
		if err = f.look(specs); err == nil {
			return f, nil
		}
		f.done()
	}
	f.tally.record(f.id)
	return nil, err
}

// resume takes a slot again after done.
func (f *lookup) resume(ctx context.Context) error { return f.s.slots.take(ctx, &f.tally) }

func (f *lookup) done() { f.s.slots.give() }

// look finds the tensors that specs name.
func (f *lookup) look(specs []*pb.TensorSpec) error {
	f.order = make([]int, 0, len(specs))
	var asked []bool
	if len(specs) > 1 {
		asked = make([]bool, f.s.down.layout.Len())
	}
	for _, spec := range specs {
		i, ok := f.s.down.index[spec.GetName()]
		tags := spec.GetTags()
		switch {
		case !ok || spec.GetReport() || len(tags) != 1 || tags[0] != modelTag:
			return refuse(unknownTensor, "no tensor %q with tags %q, report %v", spec.GetName(), tags, spec.GetReport())
		case spec.GetRound() != f.round:
			return refuse(wrongTask, "tensor %q of round %d: this is round %d", spec.GetName(), spec.GetRound(), f.round)
		case asked != nil && asked[i]:
			return refuse(duplicateTensor, "tensor %q is asked for twice", spec.GetName())
		}
		if asked != nil {
			asked[i] = true
		}
		f.order = append(f.order, i)
	}
	return nil
}

// whole makes one message of all tensors, and counts it.
func (f *lookup) whole(served *phase.Counter) (any, error) {
	defer f.tally.record(f.id)
	if len(f.order) > 1 { // one, by reference, is encoded sooner than timed
		defer f.tally.begin(phase.Encode).end()
	}
	all := headerRoom
	for _, i := range f.order {
		all += f.s.down.field(i)
	}
	if all > f.s.cfg.limit {
		return nil, refuse(overLimit, "%s", overBatch(len(f.order), all, f.s.cfg.limit))
	}
	c := f.chunker(maxMessage)
	served.Add(1)
	return c.next(f.lane.reply, nil), nil
}

// chunker returns what makes the messages.
func (f *lookup) chunker(chunk int) chunker {
	return chunker{catalog: f.s.down, cfg: &f.s.cfg, pool: &f.s.frames, order: f.order, from: f.model, round: f.round, chunk: chunk}
}
