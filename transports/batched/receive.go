package batched

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// sendResults takes the results of a task. Nothing of them is visible before all
// have come.
func (s *server) sendResults(stream grpc.ServerStream) error {
	m := &incoming{catalog: s.up, cfg: &s.cfg}
	defer m.release()
	tally := newTally(s.o.Rec)
	lap := tally.begin(phase.Read)
	err := m.verdict(stream.RecvMsg(m))
	lap.end()
	if errors.Is(err, io.EOF) {
		return refuse(emptyStream, "results without a message")
	}
	if err != nil {
		return err
	}
	r := m.results
	l, err := s.admit(stream.Context(), m.header)
	if err != nil {
		return err
	}
	if r == nil {
		return refuse(wrongTask, "the first message says nothing about the task")
	}
	j, out := l.mail.Job()
	switch {
	case r.TaskId > 0 && r.TaskId < l.id():
		return refuse(duplicateResults, "results of task %d came already", r.TaskId)
	case r.TaskId != l.id() || r.Round != int64(j.Round) || r.Client != int64(j.Client):
		return refuse(wrongTask, "results of task %d, round %d, client %d: the task of %s is %d, round %d, client %d",
			r.TaskId, r.Round, r.Client, l.reply.Receiver, l.id(), j.Round, j.Client)
	case !out:
		return refuse(duplicateResults, "results of task %d came already", r.TaskId)
	}
	if r.Report < r.Reports {
		return s.takeReport(stream, l, m)
	}
	into, err := l.begin()
	if err != nil {
		return err
	}
	whole := false
	defer func() {
		if !whole {
			_ = l.end(false)
		}
	}()
	in := assembly{catalog: s.up, round: r.Round, into: into}
	err = s.takeAll(stream, m, &in, &tally)
	tally.record(phase.ID{Lane: l.index, Round: j.Round, Client: j.Client})
	if err != nil {
		return err
	}
	into.Receipt = append(into.Receipt[:0], r.Receipt...)
	s.bodies.add(in.count, in.moved)
	s.served.results.Add(1)
	// Nothing is recorded or counted from here on: the round may be over.
	whole = true
	if err := l.end(true); err != nil {
		return refuse(closing, "%v", err)
	}
	return stream.SendMsg(&pb.SendLocalTaskResultsResponse{Header: l.reply})
}

// takeAll puts the tensors of m and of all messages after it into place.
func (s *server) takeAll(stream grpc.ServerStream, m *incoming, in *assembly, tally *tally) error {
	for {
		if err := s.slots.take(stream.Context(), tally); err != nil {
			return err
		}
		err := in.take(m, tally)
		s.slots.give()
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
	s.served.results.Add(1)
	return stream.SendMsg(&pb.SendLocalTaskResultsResponse{Header: l.reply})
}
