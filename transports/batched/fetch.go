package batched

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// A fetcher fetches the tensors in want. It notes what has come in w.local, also
// when it fails.
type fetcher func(ctx context.Context, w *worker, want []int) error

// fetch brings the model of the task in hand. Tensors that are local are not
// asked for: those that came before a connection broke, and with cache=on those
// that the same client has of the same model.
func (w *worker) fetch(ctx context.Context) error {
	if !w.cfg.cache || w.client != w.job.Client || w.version != w.task.ModelVersion {
		clear(w.local)
	}
	w.client, w.version = w.job.Client, w.task.ModelVersion
	want := w.missing()
	w.hits.Add(len(w.local) - len(want))
	w.tally = newTally(w.o.Rec)
	defer func() { w.tally.record(w.id()) }()
	return w.t.fetch(ctx, w, want)
}

// missing returns the tensors that are not local.
func (w *worker) missing() []int {
	want := make([]int, 0, len(w.local))
	for i, here := range w.local {
		if !here {
			want = append(want, i)
		}
	}
	return want
}

// newRequest returns a request with a spec for each tensor.
func (w *worker) newRequest() *pb.GetAggregatedTensorsRequest {
	req := &pb.GetAggregatedTensorsRequest{Header: w.header}
	for i := range w.o.Down.Len() {
		req.Specs = append(req.Specs, &pb.TensorSpec{
			Name: w.o.Down.Spec(i).Name, Tags: []string{modelTag}, RequireLossless: true,
		})
	}
	return req
}

// ask returns the request for the tensors in want.
func (w *worker) ask(want []int) *pb.GetAggregatedTensorsRequest {
	req := &pb.GetAggregatedTensorsRequest{Header: w.header, Client: w.task.Client, Specs: make([]*pb.TensorSpec, len(want))}
	for k, i := range want {
		req.Specs[k] = w.request.Specs[i]
		req.Specs[k].Round = w.task.Round
	}
	return req
}

// fetchEach makes a call for each tensor.
func fetchEach(ctx context.Context, w *worker, want []int) error {
	req := &pb.GetAggregatedTensorRequest{Header: w.header, Client: w.task.Client}
	for _, i := range want {
		req.Spec = w.request.Specs[i]
		req.Spec.Round = w.task.Round
		err := w.call(ctx, w.cfg.deadline, w.calls.tensor, func(ctx context.Context, cc *grpc.ClientConn) error {
			return w.take(ctx, cc, pb.Federation_GetAggregatedTensor_FullMethodName, req, []int{i})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchBatch makes one call for all tensors, or with split=on one for as many as
// fit into a message.
func fetchBatch(ctx context.Context, w *worker, want []int) error {
	runs := [][]int{want}
	if w.cfg.split {
		runs = w.down.split(want, w.cfg.limit)
	}
	for _, run := range runs {
		if len(run) == 0 {
			continue // everything is local
		}
		req := w.ask(run)
		err := w.call(ctx, w.cfg.deadline, w.calls.batch, func(ctx context.Context, cc *grpc.ClientConn) error {
			return w.take(ctx, cc, pb.Federation_GetAggregatedTensors_FullMethodName, req, run)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// take makes a unary call whose response is the tensors in run, and puts them
// into place.
func (w *worker) take(ctx context.Context, cc *grpc.ClientConn, method string, req any, run []int) error {
	defer w.in.release()
	lap := w.tally.begin(phase.Read)
	err := w.in.verdict(cc.Invoke(ctx, method, req, &w.in, grpc.MaxCallRecvMsgSize(w.cfg.limit)))
	lap.end()
	if err != nil {
		return err
	}
	if err := w.checkReply(w.in.header); err != nil {
		return err
	}
	a := w.assembly(run)
	if err := w.place(a); err != nil {
		return err
	}
	return a.finish()
}

func (w *worker) assembly(run []int) *assembly {
	return &assembly{catalog: w.down, round: w.task.Round, order: run, into: w.model}
}

// place puts the tensors of the received message into place.
func (w *worker) place(a *assembly) error {
	count, moved := a.count, a.moved
	err := a.take(&w.in, &w.tally)
	for k := count; k < a.count; k++ {
		w.local[a.at(k)] = true
	}
	w.bodies.add(a.count-count, a.moved-moved)
	return err
}

// fetchStream makes one call whose response is a stream of chunks. After a broken
// connection it asks for the rest.
func fetchStream(ctx context.Context, w *worker, want []int) error {
	if len(want) == 0 {
		return nil
	}
	desc := &grpc.StreamDesc{ServerStreams: true}
	return w.call(ctx, w.cfg.deadline, w.calls.stream, func(ctx context.Context, cc *grpc.ClientConn) error {
		run := w.missing()
		stream, err := cc.NewStream(ctx, desc, pb.Federation_StreamAggregatedTensors_FullMethodName)
		if err != nil {
			return err
		}
		if err := errors.Join(stream.SendMsg(w.ask(run)), stream.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return w.drain(stream, w.assembly(run))
	})
}

// drain takes all messages of a stream.
func (w *worker) drain(stream grpc.ClientStream, a *assembly) error {
	defer w.in.release()
	for first := true; ; first = false {
		lap := w.tally.begin(phase.Read)
		err := w.in.verdict(stream.RecvMsg(&w.in))
		lap.end()
		if errors.Is(err, io.EOF) {
			return a.finish()
		}
		if err != nil {
			return err
		}
		if first {
			if err := w.checkReply(w.in.header); err != nil {
				return err
			}
		}
		if err := w.place(a); err != nil {
			return err
		}
	}
}
