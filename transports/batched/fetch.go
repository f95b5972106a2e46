package batched

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"google.golang.org/grpc"

	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// fetch downloads the model of the current task, except local tensors: those that arrived
// before a connection broke and, with cache=on, the same client's of the same model.
func (w *worker) fetch(ctx context.Context) (driver.Delivered, error) {
	if !w.cfg.cache || w.client != w.job.Client || w.version != w.task.ModelVersion {
		clear(w.local)
	}
	w.client, w.version = w.job.Client, w.task.ModelVersion
	cached := w.held()
	w.hits.Add(cached.Tensors)
	w.watch = newStopwatch(w.o.Rec)
	defer w.record()
	var err error
	for run := range w.runs(w.missing()) {
		if err = w.call(ctx, w.cfg.deadline, w.t.method, func(ctx context.Context, cc *grpc.ClientConn) error {
			return w.take(ctx, cc, run)
		}); err != nil {
			break
		}
	}
	held := w.held()
	return driver.Delivered{
		Body:   driver.Amount{Tensors: held.Tensors - cached.Tensors, Bytes: held.Bytes - cached.Bytes},
		Cached: cached,
	}, err
}

// held returns the number and size of the local tensors.
func (w *worker) held() (a driver.Amount) {
	for i, here := range w.local {
		if here {
			a.Tensors++
			a.Bytes += len(w.model.View(i))
		}
	}
	return a
}

// missing returns the indices of the tensors that are not local.
func (w *worker) missing() []int {
	want := make([]int, 0, len(w.local))
	for i, here := range w.local {
		if !here {
			want = append(want, i)
		}
	}
	return want
}

// runs divides want among calls: one tensor per call, with split=on as many as fit into a
// message, or all in one call.
func (w *worker) runs(want []int) iter.Seq[[]int] {
	switch {
	case w.t.each:
		return slices.Chunk(want, 1)
	case w.cfg.split:
		return slices.Values(w.down.split(want, w.cfg.limit))
	}
	return slices.Chunk(want, max(1, len(want))) // no call if everything is local
}

// ask returns the request for the tensors in run. It is valid until ask is called again.
func (w *worker) ask(run []int) *pb.GetAggregatedTensorsRequest {
	w.request.Client = w.task.Client
	w.request.Specs = w.request.Specs[:0]
	for _, i := range run {
		w.specs[i].Round = w.task.Round
		w.request.Specs = append(w.request.Specs, w.specs[i])
	}
	return &w.request
}

// take requests the tensors in run and copies them into the model. A repeated stream
// requests only the tensors that are still missing.
func (w *worker) take(ctx context.Context, cc *grpc.ClientConn, run []int) error {
	defer w.in.release()
	if !w.t.stream {
		a := w.assembly(run)
		lap := w.watch.begin(phase.Read)
		err := cc.Invoke(ctx, w.t.method, w.ask(run), &w.in, grpc.MaxCallRecvMsgSize(w.cfg.limit))
		lap.end()
		if err = w.place(a, w.in.verdict(err)); err != nil {
			return err
		}
		return a.finish()
	}
	run = w.missing()
	a := w.assembly(run)
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, w.t.method)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(w.ask(run)), stream.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for {
		err := w.in.receive(stream, &w.watch)
		if errors.Is(err, io.EOF) {
			return a.finish()
		}
		if err := w.place(a, err); err != nil {
			return err
		}
	}
}

func (w *worker) assembly(run []int) *assembly {
	return &assembly{sequence: sequence{catalog: w.down, order: run}, round: w.task.Round, into: w.model, takes: w.takes}
}

// place copies the tensors of w.in, which was received with err, into the model. It checks
// the first message's header and marks complete tensors as local.
func (w *worker) place(a *assembly, err error) error {
	if err != nil {
		return err
	}
	if !a.begun {
		if err := checkHeader(w.in.header, w.reply); err != nil {
			return err
		}
	}
	count, moved := a.count, a.moved
	err = a.take(&w.in, &w.watch)
	for k := count; k < a.count; k++ {
		w.local[a.order[k]] = true
	}
	w.copied.Add(a.moved - moved)
	return err
}
