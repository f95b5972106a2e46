package batched

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// sendResults takes the results of a task. Nothing of them is visible before all
// have come.
func (s *server) sendResults(stream grpc.ServerStream) (err error) {
	m := &incoming{catalog: s.up, cfg: &s.cfg}
	defer m.release()
	seat := seat{s: s.slots}
	defer seat.end()
	tally := newTally(s.o.Rec)
	lap := tally.begin(phase.Read)
	err = m.verdict(stream.RecvMsg(m))
	lap.end()
	if errors.Is(err, io.EOF) {
		return refuse(emptyStream, "results without a message")
	}
	if err != nil {
		return err
	}
	whole := false
	l, t, err := s.taskOf(stream.Context(), m)
	if l != nil {
		defer func() {
			if err != nil && !whole { // afterwards the next task may be out
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
	in := assembly{sequence: sequence{catalog: s.up}, round: r.Round, into: into, takes: takes(s.takes.Load())}
	err = s.takeAll(stream, m, &in, &seat, &tally)
	tally.record(t.ID(l.index))
	if err != nil {
		return err
	}
	into.Receipt = append(into.Receipt[:0], r.Receipt...)
	s.copied.Add(in.moved)
	s.served[pb.Federation_SendLocalTaskResults_FullMethodName].Add(1)
	// Nothing is recorded or counted from here on: the round may be over.
	whole = true
	if err := l.end(true); err != nil {
		return refuse(closing, "%v", err)
	}
	return stream.SendMsg(&pb.SendLocalTaskResultsResponse{Header: l.reply})
}

// taskOf returns the lane and the task whose results m begins. The lane is nil only if it
// is another one's, or none.
func (s *server) taskOf(ctx context.Context, m *incoming) (*lane, task, error) {
	l, err := s.admit(ctx, m.header)
	if err != nil {
		return nil, task{}, err
	}
	t, out := l.mail.Order()
	r := m.results
	switch {
	case r == nil:
		err = refuse(wrongTask, "the first message says nothing about the task")
	case !out && l.mail.Over():
		err = refuse(closing, "the session is over")
	case r.TaskId > 0 && (r.TaskId < t.id || r.TaskId == t.id && !out):
		err = refuse(duplicateResults, "results of task %d came already", r.TaskId)
	case !out || r.TaskId != t.id || r.Round != int64(t.Round) || r.Client != int64(t.Client):
		err = refuse(wrongTask, "results of task %d, round %d, client %d: the task of %s is %d, round %d, client %d",
			r.TaskId, r.Round, r.Client, l.reply.Receiver, t.id, t.Round, t.Client)
	}
	return l, t, err
}

// takeAll puts the tensors of m and of all messages after it into place.
func (s *server) takeAll(stream grpc.ServerStream, m *incoming, in *assembly, seat *seat, tally *tally) error {
	for {
		if err := seat.take(stream.Context(), tally); err != nil {
			return err
		}
		err := in.take(m, tally)
		seat.rest()
		if err != nil {
			return err
		}
		lap := tally.begin(phase.Read)
		err = m.verdict(stream.RecvMsg(m))
		lap.end()
		if errors.Is(err, io.EOF) {
			return in.finish()
		}
		if err != nil {
			return err
		}
	}
}

// takeReport takes a report that carries no tensors: what a collaborator says of
// its task before it has the results.
func (s *server) takeReport(stream grpc.ServerStream, l *lane, m *incoming) error {
	r := m.results
	for {
		if m.count > 0 {
			return refuse(outOfOrder, "%d tensors in report %d of %d: only the last one carries tensors", m.count, r.Report, r.Reports)
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
