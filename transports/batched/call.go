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

// dial opens a network connection for w and counts it.
func (w *worker) dial(ctx context.Context, _ string) (net.Conn, error) {
	c, err := w.e.Dial(ctx, w.o.Rec)
	if err == nil {
		w.dialled.Add(1)
	}
	return c, err
}

// connect returns a client connection. gRPC dials when it is first used.
func (w *worker) connect() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///session", append(w.cfg.clientBuffers(&w.frames),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // if TLS is on, dial returns encrypted connections
		grpc.WithContextDialer(w.dial),
		grpc.WithAuthority(aggregator),
		grpc.WithDisableRetry(), // call retries, and counts its attempts
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: backoffBase, Multiplier: 2, Jitter: 0.2, MaxDelay: backoffMax},
			MinConnectTimeout: 20 * time.Second, // strangers may be ahead in the kernel's queue, and have ten seconds
		}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newCodec(0)),
			grpc.MaxCallRecvMsgSize(min(w.cfg.limit+maxReceipt, maxMessage)),
			grpc.MaxCallSendMsgSize(maxMessage),
		),
	)...)
}

// conn returns the connection for the next call, and a function to call after it. The
// time to open a connection is counted in dialTime and belongs to no phase.
func (w *worker) conn(ctx context.Context) (*grpc.ClientConn, func(), error) {
	if w.kept != nil {
		return w.kept, func() {}, nil
	}
	start := phase.Now()
	cc, err := w.connect()
	if err != nil {
		return nil, nil, err
	}
	// The state is Connecting before Connect returns. If it then is Idle, the connection
	// ended at once: the call opens another one, or fails and is retried.
	cc.Connect()
	for cc.GetState() == connectivity.Connecting && cc.WaitForStateChange(ctx, connectivity.Connecting) {
	}
	w.dialTime.Add(int(phase.Now() - start))
	return cc, func() { _ = cc.Close() }, nil // its only error is that it was closed before
}

// The wait before a retry doubles from backoffBase to backoffMax, and is shortened at
// random by up to half so that workers do not all retry at once.
const (
	attempts    = 8
	backoffBase = 20 * time.Millisecond
	backoffMax  = 2 * time.Second
)

// call runs f, which makes one call, until it succeeds, fails permanently, has run for
// limit (0 is none), or has been attempted too often. An incomplete attempt must have no effect. A
// success is counted under method, unless that is empty.
func (w *worker) call(ctx context.Context, limit time.Duration, method string, f func(context.Context, *grpc.ClientConn) error) error {
	bounded := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for wait, n := backoffBase, 1; ; wait, n = min(2*wait, backoffMax), n+1 {
		err := w.try(bounded, f)
		if err == nil {
			w.calls[method].Add(1)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // gRPC's error for it is not a context error
		}
		if !retryable(err) || bounded.Err() != nil {
			return err
		}
		if n == attempts {
			return fmt.Errorf("%d attempts: %w", n, err)
		}
		w.retries.Add(1)
		select {
		case <-time.After(wait - rand.N(wait/2)):
		case <-bounded.Done():
		}
	}
}

func (w *worker) try(ctx context.Context, f func(context.Context, *grpc.ClientConn) error) error {
	cc, done, err := w.conn(ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, w.metadata)) // cancel ends a stream that f has not finished
	defer cancel()
	return f(ctx, cc)
}

// retryable reports whether another attempt may succeed. It cannot after either end has
// refused the other's certificate, which gRPC also reports as Unavailable.
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
