package batched

import (
	"context"
	"time"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// Unary returns the transport grpc-tensor: one call for each tensor.
func Unary() driver.Transport {
	return &transport{name: "grpc-tensor", method: pb.Federation_GetAggregatedTensor_FullMethodName, each: true}
}

// Batched returns the transport grpc-batch: one call for all tensors.
func Batched() driver.Transport {
	return &transport{name: "grpc-batch", method: pb.Federation_GetAggregatedTensors_FullMethodName, batch: true}
}

// Streaming returns the transport grpc-stream: one stream of chunks.
func Streaming() driver.Transport {
	return &transport{name: "grpc-stream", method: pb.Federation_StreamAggregatedTensors_FullMethodName, stream: true}
}

// A transport determines how its workers fetch the model. The server is the same in
// all three and answers every method.
type transport struct {
	name   string
	method string // full name of the method that fetches the model
	each   bool   // a response holds one tensor
	batch  bool   // a response holds many tensors, up to the setting limit
	stream bool   // a response message holds at most one chunk
}

// Name implements driver.Transport.
func (t *transport) Name() string { return t.name }

// Settings implements driver.Transport.
func (t *transport) Settings() []driver.Setting {
	all := append(driver.NetworkSettings(), []driver.Setting{
		{Name: "conn", Values: []string{"kept", "per-call"}, Default: "kept",
			Help: "one connection per worker, or a new one per call"},
		{Name: "threads", Kind: driver.Count, Default: "0", Min: 0, Max: 1024,
			Help: "requests that the server works on at a time; 0 is unlimited"},
		{Name: "hold", Values: []string{"work", "call"}, Default: "work",
			Help: "hold a thread only for work, or until gRPC takes the reply"},
		{Name: "chunk", Kind: driver.Size, Default: "2MiB", Min: 4 << 10, Max: 64 << 20,
			Help: "tensor bytes per message of a stream"},
		{Name: "reports", Kind: driver.Count, Default: "1", Min: 1, Max: 16,
			Help: "reports per task; the last one carries the tensors"},
		{Name: "limit", Kind: driver.Size, Default: "1GiB", Min: 64 << 10, Max: maxMessage,
			Help: "largest message"},
		{Name: "deadline", Kind: driver.Count, Default: "0", Max: 86400,
			Help: "seconds after which a call and its retries fail; 0 is no limit, for slow networks"},
		{Name: "marshal", Values: []string{"inplace", "generated"}, Default: "inplace",
			Help: "encode with a codec that copies once, or with generated code"},
		driver.OnOff("cache", false, "keep a model's tensors for the client's next job with it"),
	}...)
	if t.batch {
		all = append(all, driver.OnOff("split", false, "split a batch that exceeds the limit into several"))
	}
	return all
}

// Traits implements driver.Transport.
func (t *transport) Traits(driver.Settings) driver.Traits {
	return driver.Traits{Reach: driver.Network, Calls: true}
}

// A config holds a transport's settings in parsed form.
type config struct {
	network   string
	perCall   bool
	threads   int
	hold      bool // a request keeps its thread until gRPC's transport has the response
	chunk     int  // in bytes
	reports   int
	limit     int           // in bytes
	deadline  time.Duration // 0 is none
	generated bool
	cache     bool
	split     bool
}

func (t *transport) config(s driver.Settings) config {
	return config{
		network:   s.Get("network"),
		perCall:   s.Get("conn") == "per-call",
		threads:   s.Int("threads"),
		hold:      s.Get("hold") == "call",
		chunk:     s.Int("chunk"),
		reports:   s.Int("reports"),
		limit:     s.Int("limit"),
		deadline:  time.Duration(s.Int("deadline")) * time.Second,
		generated: s.Get("marshal") == "generated",
		cache:     s.On("cache"),
		split:     t.batch && s.On("split"),
	}
}

// Check implements driver.Transport.
func (t *transport) Check(o driver.Options) error {
	for _, l := range []*tensor.Layout{o.Down, o.Up} {
		if err := checkNames(l); err != nil {
			return err
		}
	}
	return t.checkLimit(t.config(o.Settings), o)
}

// Footprint implements driver.Transport.
func (t *transport) Footprint(o driver.Options) int64 {
	cfg := t.config(o.Settings)
	server := 2*o.Down.Size() + o.Lanes*o.Depth*o.Up.Size()
	worker := o.Down.Size() + o.Up.Size()
	// Received data is held in frames until it is copied into place: at most a window
	// and a chunk of a stream, otherwise one whole message.
	window := streamWindow + cfg.chunk
	inFrames := min(o.Up.Size(), window) + 2*frameSize
	if t.stream {
		inFrames += min(o.Down.Size(), window)
	} else {
		inFrames += min(o.Down.Size(), cfg.limit)
	}
	if cfg.generated {
		inFrames *= 4 // also in one contiguous buffer at each end, and in the generated object
	}
	// Buffers and goroutines of both ends, and the garbage of one round's calls, which
	// may not be collected earlier.
	conn := 6*ioBuffer + t.calls(o)*garbage
	return int64(server) + int64(o.Lanes)*int64(worker+inFrames+conn)
}

// garbage is the garbage that one call produces at both ends together, in bytes. It was
// measured as 13 kB with 2,000 workers that made 100 calls per round each.
const garbage = 13 << 10

// calls returns the number of calls that a client makes per round.
func (t *transport) calls(o driver.Options) int {
	cfg, fetches := t.config(o.Settings), 1
	switch {
	case t.each:
		fetches = o.Down.Len()
	case cfg.split:
		fetches += o.Down.Size() / cfg.limit
	}
	return 1 + fetches + cfg.reports
}

// Needs implements driver.Transport.
func (*transport) Needs(driver.Options) (driver.Needs, error) { return driver.Needs{}, nil }

// Listen implements driver.Transport.
func (t *transport) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
	s := newServer(t.config(o.Settings), e, o)
	l, err := s.listen(ctx)
	if err != nil {
		return nil, err
	}
	s.start(l)
	return s, nil
}

// Dial implements driver.Transport.
func (t *transport) Dial(ctx context.Context, e *endpoint.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	w := newWorker(t, e, lane, o)
	err := w.open(ctx)
	if err != nil {
		w.hangUp()
		return nil, err
	}
	return w, nil
}
