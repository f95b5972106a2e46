package batched

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/trainer"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// inService returns how many requests were in service, and the most at once.
func inService(counts map[string]int64) (n int64, most int) {
	for name, times := range counts {
		if level, ok := strings.CutPrefix(name, phase.InService); ok && times > 0 {
			k, _ := strconv.Atoi(level)
			n, most = n+times, max(most, k)
		}
	}
	return n, most
}

// TestInService: O8. A server of T threads never works on more than T requests at once,
// with more collaborators in several processes. Every request is counted, and a wait for a
// thread is recorded if and only if one was counted. Whether a request waits depends on the
// machine; TestHeld forces it.
func TestInService(t *testing.T) {
	const lanes, rounds = 8, 3
	l := layoutOf(t, slices.Repeat([]int{1 << 16}, 8)...) // 2 MiB
	for _, c := range []struct {
		variant string
		threads int   // 0 means no bound
		begun   int64 // requests in service per client and round
	}{
		{"grpc-tensor:chunk=256KiB", 0, 8 + 8},
		{"grpc-tensor:chunk=256KiB:threads=1", 1, 8 + 8},
		{"grpc-batch:chunk=256KiB:threads=2", 2, 1 + 8},
		{"grpc-stream:chunk=256KiB:threads=2", 2, 8 + 8},
		{"grpc-tensor:chunk=256KiB:threads=2:hold=call", 2, 8 + 1},
		{"grpc-batch:chunk=256KiB:threads=3:hold=call", 3, 1 + 1},
		{"grpc-stream:chunk=256KiB:threads=3:hold=call", 3, 1 + 1},
	} {
		t.Run(c.variant, func(t *testing.T) {
			s := check.Value(trainer.Open(t.Context(), trainer.Config{
				Variant: variant(t, c.variant), Down: l, Up: l, Workers: lanes, PerProcess: 4,
				Clients: lanes, Func: "train", Launcher: trainer.NewProcesses(), Samples: 1 << 14, Window: trainer.Timed,
			}))(t)
			for n := range rounds {
				m := check.Value(s.Reserve(n))(t)
				tensor.Fill(m, uint64(n))
				check.Must(t, check.Err(s.Publish(t.Context(), n, m)))
				each := func(u trainer.Update) error { u.Release(); return nil }
				check.Must(t, s.Round(t.Context(), trainer.Round{Number: n, Clients: trainer.Roster(lanes), Each: each}))
			}
			report := check.Value(s.Close())(t)
			counts := report.Server.Counts[trainer.Timed]
			n, most := inService(counts)
			check.Equal(t, n, c.begun*lanes*rounds, "requests were in service")
			check.That(t, c.threads <= 0 || most <= c.threads,
				"%d requests were in service at once, with %d threads", most, c.threads)
			waits := slices.ContainsFunc(report.Server.Samples, func(s phase.Sample) bool { return s.Phase == phase.Queue })
			check.That(t, waits == (counts[phase.Queued] > 0) && (c.threads != 0 || !waits),
				"%d requests had to wait, and a wait was recorded: %v", counts[phase.Queued], waits)
		})
	}
}

// TestHeld: O8, O6. Stalled clients make as many requests as the server has threads, and
// then another client makes one more.
//
// With hold=call, the handler of a stream keeps its thread until its client has read
// everything, and a handler of results until all have arrived. So all threads are in use;
// the further request waits, the wait is recorded, and it is served once a stalled client
// leaves. Waiting for a task and an empty call need no thread.
//
// The response to a unary request holds a thread until gRPC's transport has it (see
// TestHeldWhileEncoding). The transport takes all of it at once, so a client that does not
// read holds no thread. That is also so in Python, whose handlers return once the core of
// gRPC has the response.
func TestHeld(t *testing.T) {
	const window, threads = 64 << 10, 2
	for _, c := range []struct {
		variant, method string
		held            int32
	}{
		{"grpc-batch:threads=2:hold=call", pb.Federation_GetAggregatedTensors_FullMethodName, 0},
		{"grpc-stream:chunk=64KiB:threads=2", pb.Federation_StreamAggregatedTensors_FullMethodName, 0},
		{"grpc-stream:chunk=64KiB:threads=2", pb.Federation_SendLocalTaskResults_FullMethodName, 0},
		{"grpc-stream:chunk=64KiB:threads=2:hold=call", pb.Federation_StreamAggregatedTensors_FullMethodName, threads},
		{"grpc-stream:chunk=64KiB:threads=2:hold=call", pb.Federation_SendLocalTaskResults_FullMethodName, threads},
	} {
		t.Run(c.variant+"/"+path.Base(c.method), func(t *testing.T) {
			r := listen(t, c.variant, layoutOf(t, 500_000, 1), threads+1) // 2 MB, more than a window
			ctx, cancel := context.WithCancel(waiting.Context(t))
			defer cancel()
			leave := r.stall(ctx, c.method, 0, window)
			for lane := 1; lane < threads; lane++ {
				r.stall(ctx, c.method, lane, window)
			}
			most := 0
			settle := func(held int32) {
				t.Helper()
				waiting.Until(t, fmt.Sprint(held, " requests that have a thread"), func() bool {
					var begun int64
					begun, most = inService(r.Options.Rec.Counts())
					return begun >= threads && r.server.slots.now.Load() == held
				})
			}
			settle(c.held)
			r.dispatch(threads, driver.Job{Client: 7})
			_, cc := r.stranger()
			get := &pb.GetAggregatedTensorsRequest{Header: r.head(threads), Client: 7, Specs: r.specs(0, 1)}
			if c.held > 0 {
				check.Equal(t, most, threads, "requests that had a thread at once")
				check.OK(t, call(t, cc, "Ping", &pb.PingRequest{}), "an empty call while all threads are in use")
				check.OK(t, call(t, cc, "GetTasks", &pb.GetTasksRequest{Header: r.head(threads)}), "a request for a task then")
				r.waits(cc, get)
				leave()
			}
			check.OK(t, call(t, cc, "GetAggregatedTensors", get), "a further request")
			if c.held == 0 {
				settle(0)
				return // whether the further request waited is chance
			}
			settle(c.held - 1)
			cancel()
			r.shutdown()
			samples, _ := r.Options.Rec.Drain()
			check.That(t, slices.ContainsFunc(samples, func(s phase.Sample) bool { return s.Phase == phase.Queue && s.Client == 7 }),
				"the wait for a thread was not recorded")
		})
	}
}

// TestHeldWhileEncoding: O8. A request has its thread while the server encodes tensors for
// it. With hold=call, it also has it while gRPC sends, which includes encoding with
// marshal=generated. It has none afterwards, even if gRPC fails or panics.
func TestHeldWhileEncoding(t *testing.T) {
	broken := errors.New("the connection broke")
	ends := []func() error{
		func() error { return nil },
		func() error { return broken },
		func() error { panic(broken) },
	}
	for c, sending := range map[string]int32{
		"": 0, ":hold=call": 1, ":marshal=generated": 0, ":hold=call:marshal=generated": 1,
	} {
		r := listen(t, "grpc-stream:threads=1"+c, layoutOf(t, 10), 1)
		r.dispatch(0, jobOf(0, 3))
		has := func(want int32, when string) {
			t.Helper()
			check.Equal(t, r.server.slots.now.Load(), want, "requests that have a thread", when, c)
		}
		req := &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 3, Specs: r.specs(0, 0)}
		for _, method := range []string{"GetAggregatedTensor", "GetAggregatedTensors", "StreamAggregatedTensors"} {
			i := slices.IndexFunc(service.Streams, func(d grpc.StreamDesc) bool { return d.StreamName == method })
			for n, end := range ends {
				sent := false
				sends := func() error {
					has(sending, "while gRPC sends for "+method)
					sent = true
					return end()
				}
				over := make(chan error, 1)
				r.server.frames.mu.Lock() // an encoder waits for its buffer
				go func() {
					over <- service.Streams[i].Handler(r.server, reader{ctx: t.Context(), req: req, sends: sends})
				}()
				if !r.server.cfg.generated {
					waiting.Until(t, "an encoder", func() bool {
						stacks := make([]byte, 1<<20)
						return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*chunker).encode("))
					})
					has(1, "while it encodes for "+method)
				}
				r.server.frames.mu.Unlock()
				err := waiting.Receive(t, method, over)
				check.That(t, sent && errors.Is(err, broken) == (n > 0), "%s, end %d: sent: %v, %v", method, n, sent, err)
				has(0, "after "+method)
			}
		}
	}
}

// A reader is a stream whose client makes one request.
type reader struct {
	grpc.ServerStream
	ctx   context.Context
	req   *pb.GetAggregatedTensorsRequest
	sends func() error
}

func (r reader) Context() context.Context { return r.ctx }
func (r reader) RecvMsg(m any) error      { proto.Merge(m.(proto.Message), r.req); return nil }
func (r reader) SendMsg(any) error        { return r.sends() }

// waits makes a request that must wait for a thread, and cancels it once the server has
// counted the wait.
func (r *rig) waits(cc *grpc.ClientConn, request *pb.GetAggregatedTensorsRequest) {
	r.T.Helper()
	ctx, cancel := context.WithCancel(waiting.Context(r.T))
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := pb.NewFederationClient(cc).GetAggregatedTensors(ctx, request)
		failed <- err
	}()
	waiting.Until(r.T, "a request that waits for a thread", func() bool { return r.Options.Rec.Counts()[phase.Queued] > 0 })
	cancel()
	check.Equal(r.T, status.Code(waiting.Receive(r.T, "its end", failed)), codes.Canceled, "a request that waited and was given up")
}

// stall gives lane a job and begins a request that makes no progress. Its client reads one
// window at most, or sends only the first tensor. leave ends it.
func (r *rig) stall(ctx context.Context, method string, lane, window int) (leave func()) {
	r.T.Helper()
	r.dispatch(lane, jobOf(0, 3))
	_, cc := r.stranger(grpc.WithStaticStreamWindowSize(int32(window)), grpc.WithStaticConnWindowSize(int32(window)))
	ctx, leave = context.WithCancel(ctx)
	call, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	check.Must(r.T, err)
	if method == pb.Federation_SendLocalTaskResults_FullMethodName {
		first := r.chunksOf(0)[0]
		first.Header = r.head(lane)
		err = call.SendMsg(first)
	} else {
		request := &pb.GetAggregatedTensorsRequest{Header: r.head(lane), Client: 3, Specs: r.specs(0, 0)}
		err = errors.Join(call.SendMsg(request), call.CloseSend())
	}
	check.Must(r.T, err)
	return leave
}
