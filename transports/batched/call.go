package batched

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"ipcbench/phase"
)

// dial opens a connection of w's.
func (w *worker) dial(ctx context.Context, _ string) (net.Conn, error) {
	c, err := w.e.Dial(ctx, w.o.Rec)
	if err == nil {
		w.dialled.Add(1)
	}
	return c, err
}

// connect returns a connection, which gRPC opens when it is first used.
func (w *worker) connect() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///session", append(w.cfg.clientBuffers(&w.frames),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // what dial returns is encrypted, if it is to be
		grpc.WithContextDialer(w.dial),
		grpc.WithAuthority(aggregator),
		grpc.WithDisableRetry(), // retries are counted, here
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: backoffBase, Multiplier: 2, Jitter: 0.2, MaxDelay: backoffMax},
			MinConnectTimeout: 20 * time.Second, // those before it in the kernel's queue may be 4096 strangers, who take 4 s
		}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newCodec(0)),
			grpc.MaxCallRecvMsgSize(min(w.cfg.limit+maxReceipt, maxMessage)),
			grpc.MaxCallSendMsgSize(maxMessage),
		),
	)...)
}

// conn returns the connection of the next call, and what to do after it. What it
// costs to open one is counted by itself, and is in no phase.
func (w *worker) conn(ctx context.Context) (*grpc.ClientConn, func(), error) {
	if w.kept != nil {
		return w.kept, func() {}, nil
	}
	start := phase.Now()
	cc, err := w.connect()
	if err != nil {
		return nil, nil, err
	}
	// Connecting begins before Connect returns. Idle after it is a connection that
	// ended as soon as it was ready: the call opens another one, or fails and is
	// made again.
	cc.Connect()
	for cc.GetState() == connectivity.Connecting && cc.WaitForStateChange(ctx, connectivity.Connecting) {
	}
	w.dialTime.Add(int(phase.Now() - start))
	return cc, func() { _ = cc.Close() }, nil // it can only say that it was closed before
}

// Retries wait from backoffBase to backoffMax, doubling, each wait shortened by
// up to half at random so that workers do not come back all at once.
const (
	attempts    = 8
	backoffBase = 20 * time.Millisecond
	backoffMax  = 2 * time.Second
)

// call makes a call, with f, until it succeeds, fails for good, or has been tried
// for limit or too often. f may be called again only because nothing it did
// counts until it is whole.
func (w *worker) call(ctx context.Context, limit time.Duration, method string, f func(context.Context, *grpc.ClientConn) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait, n := backoffBase, 1; ; wait, n = min(2*wait, backoffMax), n+1 {
		err := w.try(bounded, f)
		if err == nil {
			w.calls[method].Add(1)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // what gRPC says of it is no context error
		}
		if !retryable(err) || bounded.Err() != nil {
			return err
		}
		if n == attempts {
			return fmt.Errorf("%d attempts: %w", n, err)
		}
		w.retries.Add(1)
		timer := time.NewTimer(wait - rand.N(wait/2))
		select {
		case <-timer.C:
		case <-bounded.Done():
			timer.Stop()
		}
	}
}

func (w *worker) try(ctx context.Context, f func(context.Context, *grpc.ClientConn) error) error {
	cc, done, err := w.conn(ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, w.metadata)) // ends what f leaves of a stream
	defer cancel()
	return f(ctx, cc)
}

// retryable reports whether another attempt may succeed: not after either end has
// refused the other's certificate, which gRPC says in its own words.
func retryable(err error) bool {
	st := status.Convert(err)
	return st.Code() == codes.Unavailable && !strings.Contains(st.Message(), "tls: ")
}

// invoke makes a unary call without tensors.
func (w *worker) invoke(ctx context.Context, limit time.Duration, method string, req, resp any) error {
	return w.call(ctx, limit, method, func(ctx context.Context, cc *grpc.ClientConn) error {
		return cc.Invoke(ctx, method, req, resp)
	})
}
