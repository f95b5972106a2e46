package batched

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// send sends the reports of the current task. The last report carries the update.
func (w *worker) send(ctx context.Context) error {
	for n := 1; n <= w.cfg.reports; n++ {
		out := false // an earlier attempt has sent all of it
		err := w.call(ctx, w.cfg.deadline, "", func(ctx context.Context, cc *grpc.ClientConn) error {
			again := out
			err := w.report(ctx, cc, n, &out)
			if again && hasReason(err, duplicateResults) {
				return nil // the server has the results; only its response was lost
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// report sends report n, from 1, and sets *out once all of it has been sent.
func (w *worker) report(ctx context.Context, cc *grpc.ClientConn, n int, out *bool) error {
	if len(w.update.Receipt) > maxReceipt {
		return refuse(overLimit, "a receipt must have at most %[2]d bytes, not %[1]d", len(w.update.Receipt), maxReceipt)
	}
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, pb.Federation_SendLocalTaskResults_FullMethodName)
	if err != nil {
		return err
	}
	c := chunker{sequence: w.up.whole(), cfg: &w.cfg, pool: &w.frames, from: w.update, round: w.task.Round, chunk: w.cfg.chunk}
	if n < w.cfg.reports {
		c.order = nil // no tensors
	}
	results := &pb.TaskResults{
		TaskId: w.task.Id, Round: w.task.Round, Client: w.task.Client,
		Report: uint32(n), Reports: uint32(w.cfg.reports), Receipt: w.update.Receipt,
	}
	w.watch = newStopwatch(w.o.Rec)
	defer w.record()
	for header := w.header; err == nil && (header != nil || !c.done()); header, results = nil, nil {
		lap := w.watch.begin(phase.Encode)
		m := c.next(header, results)
		lap.end()
		lap = w.watch.begin(phase.Send)
		err = stream.SendMsg(m)
		lap.end()
	}
	switch {
	case errors.Is(err, io.EOF): // the server ended the stream early; RecvMsg returns the reason
	case err != nil:
		return err
	case !*out:
		// Count now instead of after the response, as other calls do: the round ends
		// when the server has the results, and this call belongs to that round.
		w.calls[pb.Federation_SendLocalTaskResults_FullMethodName].Add(1)
		*out = true
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	resp := &pb.SendLocalTaskResultsResponse{}
	lap := w.watch.begin(phase.Wait)
	err = stream.RecvMsg(resp)
	lap.end()
	if err != nil {
		return err
	}
	return checkHeader(resp.Header, w.reply)
}
