package batched

import (
	"context"
	"strings"

	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// A lookup is a request for tensors that was found in order. It is in service
// until its seat is given back.
type lookup struct {
	s     *server
	lane  *lane
	task  task
	tally tally
	seat  seat
	order []int  // the tensors that were asked for
	plain []bool // which of them go decoded; nil: none
}

// find checks a request and looks its tensors up.
func (s *server) find(ctx context.Context, req *pb.GetAggregatedTensorsRequest) (*lookup, error) {
	l, err := s.admit(ctx, req.Header)
	if err != nil {
		return nil, err
	}
	t, ok := l.mail.Order()
	switch {
	case !ok:
		return nil, refuse(wrongTask, "%s has no task", l.reply.Receiver)
	case t.model == nil:
		return nil, refuse(wrongTask, "the task of %s comes without a model: that of the task before is the one", l.reply.Receiver)
	case req.Client != int64(t.Client):
		return nil, refuse(wrongTask, "client %d: the task of %s is client %d's", req.Client, l.reply.Receiver, t.Client)
	}
	f := &lookup{s: s, lane: l, task: t, tally: newTally(s.o.Rec), seat: seat{s: s.slots}}
	if err = f.seat.take(ctx, &f.tally); err == nil {
		if err = f.look(req.Specs); err == nil {
			return f, nil
		}
		f.seat.end()
	}
	f.record()
	return nil, err
}

// record adds the samples of the request.
func (f *lookup) record() { f.tally.record(f.task.ID(f.lane.index)) }

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
		case spec.GetRound() != int64(f.task.Round):
			return refuse(wrongTask, "tensor %q of round %d: this is round %d", spec.GetName(), spec.GetRound(), f.task.Round)
		case asked != nil && asked[i]:
			return refuse(duplicateTensor, "tensor %q is asked for twice", spec.GetName())
		}
		if asked != nil {
			asked[i] = true
		}
		f.order = append(f.order, i)
		if f.task.model.Coding != nil {
			if coding := f.task.model.Coding[i]; spec.RequireLossless && !coding.Lossless {
				steps := strings.Join(coding.Steps, "+")
				if steps == "" { // it travels as that codec has left it
					steps = "a codec"
				}
				return refuse(lossyCodec, "tensor %q went through %s, which does not keep it as it was: it can be had without require_lossless", spec.Name, steps)
			}
			f.plain = append(f.plain, !spec.AcceptEncoded)
		}
	}
	return nil
}

// whole makes one message of all tensors, and counts it.
func (f *lookup) whole(method string) (any, error) {
	defer f.record()
	if len(f.order) > 1 { // one, by reference, is encoded sooner than timed
		defer f.tally.begin(phase.Encode).end()
	}
	if method == pb.Federation_GetAggregatedTensor_FullMethodName && len(f.order) != 1 {
		return nil, refuse(unknownTensor, "%d tensors are asked for, want one", len(f.order))
	}
	all := headerRoom
	for _, i := range f.order {
		all += f.s.down.field(i)
	}
	if all > f.s.cfg.limit {
		return nil, refuse(overLimit, "%s", overBatch(len(f.order), all, f.s.cfg.limit))
	}
	c := f.chunker(maxMessage)
	f.s.served[method].Add(1)
	return c.next(f.lane.reply, nil), nil
}

// chunker returns what makes the messages.
func (f *lookup) chunker(chunk int) chunker {
	return chunker{
		sequence: sequence{catalog: f.s.down, order: f.order}, cfg: &f.s.cfg, pool: &f.s.frames,
		from: f.task.model, plain: f.plain, round: int64(f.task.Round), chunk: chunk,
	}
}
