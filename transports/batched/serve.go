package batched

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"ipcbench/internal/crash"
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/internal/mailbox"
)

// service describes the protocol to gRPC as the generated code does, but for the
// messages that hold tensors, which the codec treats on their own.
var service = grpc.ServiceDesc{
	ServiceName: pb.Federation_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("Ping", (*server).ping),
		unary("Join", (*server).join),
		unary("Leave", (*server).leave),
		unary("GetTasks", (*server).getTasks),
		unary("GetAggregatedTensor", (*server).getTensor),
		unary("GetAggregatedTensors", (*server).getTensors),
	},
	Streams: []grpc.StreamDesc{{
		StreamName:    "StreamAggregatedTensors",
		ServerStreams: true,
		Handler: func(s any, stream grpc.ServerStream) error {
			return crash.Guard(func() error { return s.(*server).streamTensors(stream) })
		},
	}, {
		StreamName:    "SendLocalTaskResults",
		ClientStreams: true,
		Handler: func(s any, stream grpc.ServerStream) error {
			return crash.Guard(func() error { return s.(*server).sendResults(stream) })
		},
	}},
	Metadata: pb.Federation_ServiceDesc.Metadata,
}

// unary describes a method with one request, made by new, and one response. A panic
// of any handler is the error of its call, and not the end of the process.
func unary[Req any, Resp any](name string, f func(*server, context.Context, *Req) (Resp, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(s any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			req := new(Req)
			if err := decode(req); err != nil {
				return nil, err
			}
			var resp Resp
			err := crash.Guard(func() (err error) { resp, err = f(s.(*server), ctx, req); return err })
			return resp, err
		},
	}
}

func (s *server) ping(context.Context, *pb.PingRequest) (*pb.PingResponse, error) {
	s.served[pb.Federation_Ping_FullMethodName].Add(1)
	return &pb.PingResponse{}, nil
}

func (s *server) join(ctx context.Context, req *pb.JoinRequest) (*pb.JoinResponse, error) {
	l, err := s.admit(ctx, req.Header)
	if err != nil {
		return nil, err
	}
	if req.ModelDigest != s.o.Down.Digest() || req.UpdateDigest != s.o.Up.Digest() {
		return nil, refuse(wrongLayout, "%s has another model or update than %s", l.reply.Receiver, aggregator)
	}
	if err := l.join(req.Worker); err != nil {
		return nil, err
	}
	s.served[pb.Federation_Join_FullMethodName].Add(1)
	return &pb.JoinResponse{Header: l.reply}, nil
}

func (s *server) leave(ctx context.Context, req *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	l, err := s.admit(ctx, req.Header)
	if err != nil {
		return nil, err
	}
	s.served[pb.Federation_Leave_FullMethodName].Add(1) // before anybody who waits for the worker hears of it
	if _, out := l.mail.Order(); out {
		cause := errors.New(req.Cause)
		if req.Cause == "" {
			cause = l.mail.Explain(errors.New("the worker has left"))
		}
		_ = l.mail.Deliver(mailbox.Delivery{Err: cause}) // fails if the results are here
	}
	l.leave()
	return &pb.LeaveResponse{Header: l.reply}, nil
}

// getTasks parks until there is a task.
func (s *server) getTasks(ctx context.Context, req *pb.GetTasksRequest) (*pb.GetTasksResponse, error) {
	l, err := s.admit(ctx, req.Header)
	if err != nil {
		return nil, err
	}
	t, again := l.mail.Again()
	if !again {
		t, err = l.mail.Take(ctx)
	}
	switch {
	case errors.Is(err, io.EOF):
		s.served[pb.Federation_GetTasks_FullMethodName].Add(1)
		l.leave()
		return &pb.GetTasksResponse{Header: l.reply, Quit: true}, nil
	case errors.Is(err, mailbox.ErrBusy):
		return nil, refuse(busy, "another request of %s waits for a task", l.reply.Receiver)
	case err != nil:
		return nil, status.FromContextError(err).Err()
	}
	s.served[pb.Federation_GetTasks_FullMethodName].Add(1)
	return &pb.GetTasksResponse{Header: l.reply, Task: &pb.Task{
		Round: int64(t.Round), Client: int64(t.Client), Weight: t.Weight, Device: t.Device, Config: t.Config, Timed: t.Timed,
		ModelVersion: t.beside.Serial, Receipt: t.beside.Receipt, Id: t.id,
	}}, nil
}

// getTensor and getTensors are one: a request for a single tensor is the same on the
// wire.
func (s *server) getTensor(ctx context.Context, req *pb.GetAggregatedTensorsRequest) (any, error) {
	return s.getWhole(ctx, req, pb.Federation_GetAggregatedTensor_FullMethodName)
}

func (s *server) getTensors(ctx context.Context, req *pb.GetAggregatedTensorsRequest) (any, error) {
	return s.getWhole(ctx, req, pb.Federation_GetAggregatedTensors_FullMethodName)
}

func (s *server) getWhole(ctx context.Context, req *pb.GetAggregatedTensorsRequest, method string) (any, error) {
	f, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	defer f.seat.end()
	return f.whole(method)
}

func (s *server) streamTensors(stream grpc.ServerStream) error {
	ctx := stream.Context()
	req := &pb.GetAggregatedTensorsRequest{}
	if err := stream.RecvMsg(req); err != nil {
		return err
	}
	f, err := s.find(ctx, req)
	if err != nil {
		return err
	}
	defer f.record()
	defer f.seat.end()
	c := f.chunker(s.cfg.chunk)
	for header := f.lane.reply; header != nil || !c.done(); header = nil {
		if header == nil {
			if err := f.seat.take(ctx, &f.tally); err != nil {
				return err
			}
		}
		lap := f.tally.begin(phase.Encode)
		m := c.next(header, nil)
		lap.end()
		f.seat.rest()
		lap = f.tally.begin(phase.Send)
		err = stream.SendMsg(m)
		lap.end()
		if err != nil {
			return err
		}
	}
	s.served[pb.Federation_StreamAggregatedTensors_FullMethodName].Add(1)
	return nil
}
