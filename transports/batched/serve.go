package batched

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"ipcbench/internal/crash"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/internal/mailbox"
)

// service describes the protocol to gRPC as the generated code does, except for messages
// that hold tensors, which codec processes.
var service = grpc.ServiceDesc{
	ServiceName: pb.Federation_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("Ping", (*server).ping),
		unary("Join", (*server).join),
		unary("Leave", (*server).leave),
		unary("GetTasks", (*server).getTasks),
	},
	Streams: []grpc.StreamDesc{
		fetching("GetAggregatedTensor", (*lookup).sendOne),
		fetching("GetAggregatedTensors", (*lookup).sendAll),
		fetching("StreamAggregatedTensors", (*lookup).sendChunks),
		{
			StreamName:    "SendLocalTaskResults",
			ClientStreams: true,
			Handler: func(s any, stream grpc.ServerStream) error {
				return crash.Guard(func() error { return s.(*server).sendResults(stream) })
			},
		},
	},
	Metadata: pb.Federation_ServiceDesc.Metadata,
}

// unary describes a method with one request and one response. A panic in a handler
// becomes the error of its call instead of ending the process.
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
		return nil, refuse(wrongLayout, "the layout of the model or update of %s differs from the layout of %s", l.reply.Receiver, aggregator)
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
	s.served[pb.Federation_Leave_FullMethodName].Add(1) // before Collect or Shutdown can return because of it
	if _, out := l.mail.Order(); out {
		cause := errors.New(req.Cause)
		if req.Cause == "" {
			cause = l.mail.Explain(errors.New("the worker has left"))
		}
		_ = l.mail.Deliver(mailbox.Delivery{Err: cause}) // fails if the results have arrived
	}
	l.leave()
	return &pb.LeaveResponse{Header: l.reply}, nil
}

// getTasks waits until there is a task or the session is over. A task whose results have
// not arrived is returned again.
func (s *server) getTasks(ctx context.Context, req *pb.GetTasksRequest) (*pb.GetTasksResponse, error) {
	l, err := s.admit(ctx, req.Header)
	if err != nil {
		return nil, err
	}
	t, again := l.mail.Unanswered()
	if !again {
		t, err = l.mail.Take(ctx)
	}
	switch {
	case errors.Is(err, io.EOF):
		s.served[pb.Federation_GetTasks_FullMethodName].Add(1)
		l.leave()
		return &pb.GetTasksResponse{Header: l.reply, Quit: true}, nil
	case errors.Is(err, mailbox.ErrBusy):
		return nil, refuse(busy, "another request of %s is already waiting for a task", l.reply.Receiver)
	case err != nil:
		return nil, status.FromContextError(err).Err()
	}
	s.served[pb.Federation_GetTasks_FullMethodName].Add(1)
	return &pb.GetTasksResponse{Header: l.reply, Task: &pb.Task{
		Round: int64(t.Round), Client: int64(t.Client), Weight: t.Weight, Device: t.Device, Config: t.Config, Timed: t.Timed,
		ModelVersion: t.beside.Serial, Receipt: t.beside.Receipt, Id: t.id,
	}}, nil
}

// fetching describes a method whose request names tensors. To gRPC it is a stream even if
// the response is one message, because only the handler of a stream sends the response
// itself, and so can keep its thread meanwhile. The bytes are the same. A
// GetAggregatedTensorRequest has the same encoding as a GetAggregatedTensorsRequest with
// one spec.
func fetching(name string, send func(*lookup, grpc.ServerStream) error) grpc.StreamDesc {
	return grpc.StreamDesc{
		StreamName:    name,
		ServerStreams: true,
		Handler: func(s any, stream grpc.ServerStream) error {
			return crash.Guard(func() error { return s.(*server).fetch(stream, send) })
		},
	}
}

// fetch looks up the requested tensors and sends them. Its slot and its samples end before
// the client gets the call's status.
func (s *server) fetch(stream grpc.ServerStream, send func(*lookup, grpc.ServerStream) error) error {
	req := &pb.GetAggregatedTensorsRequest{}
	if err := stream.RecvMsg(req); err != nil {
		return err
	}
	f, err := s.find(stream.Context(), req)
	if err != nil {
		return err
	}
	defer f.record()
	defer f.slot.end()
	return send(f, stream)
}
