package batched

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pb "ipcbench/transports/batched/federationpb"
)

// sendResults handles an upload of a task's results. The update is delivered only when
// all results have arrived.
func (s *server) sendResults(stream grpc.ServerStream) (err error) {
	m := &incoming{catalog: s.up, cfg: &s.cfg}
	defer m.release()
	slot := slotUse{s: s.slots}
	defer slot.end()
	watch := newStopwatch(s.o.Rec)
	err = m.receive(stream, &watch)
	if errors.Is(err, io.EOF) {
		return refuse(emptyStream, "results must not be a stream without a message")
	}
	if err != nil {
		return err
	}
	whole := false
	l, t, err := s.taskOf(stream.Context(), m)
	if l != nil {
		defer func() {
			if err != nil && !whole { // once it is complete, the next task may have been dispatched
				l.mail.Refused(errors.New(status.Convert(err).Message()))
			}
		}()
	}
	if err != nil {
		return err
	}
	r := m.results
	if r.Report < r.Reports {
		return s.takeReport(stream, l, m)
	}
	into, err := l.begin()
	if err != nil {
		return err
	}
	defer func() {
		if !whole {
			_ = l.end(false)
		}
	}()
	in := assembly{sequence: s.up.whole(), round: r.Round, into: into, takes: takes(s.takes.Load())}
	err = s.takeAll(stream, m, &in, &slot, &watch)
	watch.record(t.ID(l.index))
	if err != nil {
		return err
	}
	into.Receipt = append(into.Receipt[:0], r.Receipt...)
	s.copied.Add(in.moved)
	s.served[pb.Federation_SendLocalTaskResults_FullMethodName].Add(1)
	// Record and count nothing after this point: the round may be over.
	whole = true
	if err := l.end(true); err != nil {
		return refuse(closing, "%v", err)
	}
	return stream.SendMsg(&pb.SendLocalTaskResultsResponse{Header: l.reply})
}

// taskOf returns the lane and the task of the upload that starts with m. The lane is nil
// only if the sender was refused.
func (s *server) taskOf(ctx context.Context, m *incoming) (*lane, task, error) {
	l, err := s.admit(ctx, m.header)
	if err != nil {
		return nil, task{}, err
	}
	t, out := l.mail.Order()
	r := m.results
	switch {
	case r == nil:
		err = refuse(wrongTask, "the first message must name the task")
	case !out && l.mail.Over():
		err = refuse(closing, "the session is over")
	case r.TaskId > 0 && (r.TaskId < t.id || r.TaskId == t.id && !out):
		err = refuse(duplicateResults, "results of task %d were already received", r.TaskId)
	case !out || r.TaskId != t.id || r.Round != int64(t.Round) || r.Client != int64(t.Client):
		err = refuse(wrongTask, "results of task %d, round %d, client %d: the current task of %s is task %d, round %d, client %d",
			r.TaskId, r.Round, r.Client, l.reply.Receiver, t.id, t.Round, t.Client)
	}
	return l, t, err
}

// takeAll copies the tensors of m and of all later messages of the stream into place.
func (s *server) takeAll(stream grpc.ServerStream, m *incoming, in *assembly, slot *slotUse, watch *stopwatch) error {
	for {
		if err := slot.take(stream.Context(), watch); err != nil {
			return err
		}
		err := in.take(m, watch)
		slot.rest()
		if err != nil {
			return err
		}
		if err = m.receive(stream, watch); errors.Is(err, io.EOF) {
			return in.finish()
		}
		if err != nil {
			return err
		}
	}
}

// takeReport handles a report that is not a task's last, and so must have no tensors.
func (s *server) takeReport(stream grpc.ServerStream, l *lane, m *incoming) error {
	r := m.results
	for {
		if m.count > 0 {
			return refuse(outOfOrder, "%d tensors in report %d of %d: only the last report may carry tensors", m.count, r.Report, r.Reports)
		}
		err := m.verdict(stream.RecvMsg(m))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	s.served[pb.Federation_SendLocalTaskResults_FullMethodName].Add(1)
	return stream.SendMsg(&pb.SendLocalTaskResultsResponse{Header: l.reply})
}
