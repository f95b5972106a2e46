package batched

import (
	"context"
	"fmt"
	"time"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// Unary returns the transport grpc-tensor: one call for each tensor.
func Unary() driver.Transport { return &transport{name: "grpc-tensor", fetch: fetchEach} }

// Batched returns the transport grpc-batch: one call for all tensors.
func Batched() driver.Transport {
	return &transport{name: "grpc-batch", fetch: fetchBatch, batch: true}
}

// Streaming returns the transport grpc-stream: one stream of chunks.
func Streaming() driver.Transport {
	return &transport{name: "grpc-stream", fetch: fetchStream, stream: true}
}

// A transport differs from the others in how its workers fetch the model. Its
// server answers all of them.
type transport struct {
	name   string
	fetch  fetcher
	batch  bool // a response holds several tensors
	stream bool // no response grows with the model
}

// Name implements driver.Transport.
func (t *transport) Name() string { return t.name }

// Settings implements driver.Transport.
func (t *transport) Settings() []driver.Setting {
	all := []driver.Setting{
		{Name: "network", Values: []string{"unix", "tcp"}, Default: "unix",
			Help: "a Unix socket, or TCP on the loopback interface"},
		{Name: "conn", Values: []string{"kept", "per-call"}, Default: "kept",
			Help: "whether a worker keeps its connection or opens one for each call"},
		{Name: "threads", Kind: driver.Count, Default: "0", Min: 0, Max: 1024,
			Help: "handlers that work at once on the server; 0: as many as there are requests"},
		{Name: "chunk", Kind: driver.Size, Default: "2MiB", Min: 4 << 10, Max: 64 << 20,
			Help: "tensor bytes in a message of a stream"},
		{Name: "reports", Kind: driver.Count, Default: "1", Min: 1, Max: 16,
			Help: "sends of a client's results; the last one carries the tensors"},
		{Name: "limit", Kind: driver.Size, Default: "1GiB", Min: 64 << 10, Max: maxMessage,
			Help: "largest message"},
		{Name: "deadline", Kind: driver.Count, Default: "120", Min: 1, Max: 86400,
			Help: "seconds after which a call, retries included, has failed"},
		{Name: "marshal", Values: []string{"inplace", "generated"}, Default: "inplace",
			Help: "who makes and reads messages: a codec that copies once, or generated code with gRPC's own buffers"},
		driver.OnOff("cache", false, "whether a client's second task for a model fetches no tensor again"),
	}
	if t.batch {
		all = append(all, driver.OnOff("split", false, "whether a batch over the limit is split into several"))
	}
	return all
}

// A config is the settings of a transport, read.
type config struct {
	network   string
	perCall   bool
	threads   int
	chunk     int
	reports   int
	limit     int
	deadline  time.Duration
	generated bool
	cache     bool
	split     bool
}

func (t *transport) config(s driver.Settings) config {
	return config{
		network:   s.Get("network"),
		perCall:   s.Get("conn") == "per-call",
		threads:   s.Int("threads"),
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
	cfg := t.config(o.Settings)
	for _, l := range []*tensor.Layout{o.Down, o.Up} {
		if err := checkNames(l); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if cfg.network == "unix" && o.Dir != "" {
		if err := checkAddress(socketAddress(cfg, o)); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if err := t.checkLimit(cfg, o); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// Footprint implements driver.Transport.
func (t *transport) Footprint(o driver.Options) int64 {
	cfg := t.config(o.Settings)
	server := 2*o.Down.Size() + o.Lanes*o.Depth*o.Up.Size()
	worker := o.Down.Size() + o.Up.Size()
	// What is received lies in frames until it is copied into place.
	inFrames := 2 * (streamWindow + cfg.chunk)
	if !t.stream {
		inFrames += min(o.Down.Size(), cfg.limit)
	}
	if cfg.generated {
		inFrames *= 4 // and in one piece at either end, and in the object that is made of it
	}
	return int64(server) + int64(o.Lanes)*int64(worker+inFrames+4*ioBuffer)
}

// Listen implements driver.Transport.
func (t *transport) Listen(ctx context.Context, o driver.Options) (driver.Server, error) {
	if err := t.Check(o); err != nil {
		return nil, err
	}
	s, err := newServer(t.name, t.config(o.Settings), o, newFederation())
	if err != nil {
		return nil, fmt.Errorf("%s: listen: %w", t.name, err)
	}
	return s, nil
}

// Dial implements driver.Transport.
func (t *transport) Dial(ctx context.Context, addr string, lane int, o driver.Options) (driver.Worker, error) {
	a, err := parseAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: lane %d: dial: %w", t.name, lane, err)
	}
	w, err := newWorker(ctx, t, a, lane, o)
	if err != nil {
		return nil, fmt.Errorf("%s: lane %d: dial: %w", t.name, lane, err)
	}
	return w, nil
}
