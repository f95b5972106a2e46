package batched

import (
	"context"
	"strings"

	"google.golang.org/grpc"

	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// A lookup is a valid request for tensors. It is in service until its slot ends.
type lookup struct {
	s     *server
	lane  *lane
	task  task
	watch stopwatch
	slot  slotUse
	order []int  // indices of the requested tensors
	plain []bool // see chunker
}

// find checks a request, waits for a slot and looks up the tensors. The caller must end
// the slot and record the lookup.
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
		return nil, refuse(wrongTask, "the task of %s comes without a model: use the previous task's model", l.reply.Receiver)
	case req.Client != int64(t.Client):
		return nil, refuse(wrongTask, "the task of %s is for client %d, not client %d", l.reply.Receiver, t.Client, req.Client)
	}
	f := &lookup{s: s, lane: l, task: t, watch: newStopwatch(s.o.Rec), slot: slotUse{s: s.slots}}
	if err = f.slot.take(ctx, &f.watch); err == nil {
		if err = f.look(req.Specs); err == nil {
			return f, nil
		}
		f.slot.end()
	}
	f.record()
	return nil, err
}

func (f *lookup) record() { f.watch.record(f.task.ID(f.lane.index)) }

// look sets f.order and f.plain to the tensors that specs name, or returns a refusal.
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
			return refuse(unknownTensor, "unknown tensor %q with tags %q, report %v", spec.GetName(), tags, spec.GetReport())
		case spec.GetRound() != int64(f.task.Round):
			return refuse(wrongTask, "tensor %q is requested for round %d, must be round %d", spec.GetName(), spec.GetRound(), f.task.Round)
		case asked != nil && asked[i]:
			return refuse(duplicateTensor, "tensor %q is requested twice", spec.GetName())
		}
		if asked != nil {
			asked[i] = true
		}
		f.order = append(f.order, i)
		if f.task.model.Coding != nil {
			if coding := f.task.model.Coding[i]; spec.RequireLossless && !coding.Lossless {
				steps := strings.Join(coding.Steps, "+")
				if steps == "" { // the codec changed the values without an encoding step
					steps = "a codec"
				}
				return refuse(lossyCodec, "tensor %q is not lossless after %s: request it without require_lossless", spec.Name, steps)
			}
			f.plain = append(f.plain, !spec.AcceptEncoded)
		}
	}
	return nil
}

// sendOne sends the tensor of a request that must name one.
func (f *lookup) sendOne(stream grpc.ServerStream) error {
	if len(f.order) != 1 {
		return refuse(unknownTensor, "a request must name one tensor, not %d", len(f.order))
	}
	return f.sendWhole(stream, pb.Federation_GetAggregatedTensor_FullMethodName)
}

// sendAll sends all tensors in one message.
func (f *lookup) sendAll(stream grpc.ServerStream) error {
	return f.sendWhole(stream, pb.Federation_GetAggregatedTensors_FullMethodName)
}

// sendWhole sends one message with all tensors, if it is within the limit. With
// marshal=generated, gRPC encodes it in SendMsg, which returns once gRPC's transport has
// the message, even if the client does not read.
func (f *lookup) sendWhole(stream grpc.ServerStream, method string) error {
	m, err := f.whole()
	f.slot.rest()
	if err != nil {
		return err
	}
	f.s.served[method].Add(1)
	return stream.SendMsg(m)
}

// whole returns one message with all tensors, within the limit.
func (f *lookup) whole() (any, error) {
	if len(f.order) > 1 { // encoding one tensor by reference is faster than timing it
		defer f.watch.begin(phase.Encode).end()
	}
	all := headerRoom
	for _, i := range f.order {
		all += f.s.down.field(i)
	}
	if all > f.s.cfg.limit {
		return nil, refuse(overLimit, "%s", overBatch(len(f.order), all, f.s.cfg.limit))
	}
	c := f.chunker(maxMessage)
	return c.next(f.lane.reply, nil), nil
}

// sendChunks sends the tensors in messages of a chunk each.
func (f *lookup) sendChunks(stream grpc.ServerStream) error {
	c := f.chunker(f.s.cfg.chunk)
	for header := f.lane.reply; header != nil || !c.done(); header = nil {
		if header == nil {
			if err := f.slot.take(stream.Context(), &f.watch); err != nil {
				return err
			}
		}
		lap := f.watch.begin(phase.Encode)
		m := c.next(header, nil)
		lap.end()
		f.slot.rest()
		lap = f.watch.begin(phase.Send)
		err := stream.SendMsg(m)
		lap.end()
		if err != nil {
			return err
		}
	}
	f.s.served[pb.Federation_StreamAggregatedTensors_FullMethodName].Add(1)
	return nil
}

func (f *lookup) chunker(chunk int) chunker {
	return chunker{
		sequence: sequence{catalog: f.s.down, order: f.order}, cfg: &f.s.cfg, pool: &f.s.frames,
		from: f.task.model, plain: f.plain, round: int64(f.task.Round), chunk: chunk,
	}
}
