package http

import (
	"context"
	"fmt"

	"ipcbench/transports"
)

// New returns the transport "http": tensors as HTTP bodies.
func New() transports.Transport { return driver{name: "http"} }

type driver struct{ name string }

func (d driver) Name() string { return d.name }

func (d driver) Settings() []transports.Setting {
	return []transports.Setting{
		{Name: "network", Values: []string{"unix", "tcp"}, Default: "unix",
			Help: "a Unix socket in the session's directory, or TCP on the loopback interface"},
		{Name: "batch", Kind: transports.Count, Default: "0", Max: maxIDs,
			Help: "tensors that a worker asks for in one request; 0 is all of them"},
		{Name: "body", Values: []string{"raw", "json"}, Default: "raw",
			Help: "tensors as raw bytes on kept connections, or base64 in JSON with a connection for each request"},
		transports.OnOff("cache", false, "workers keep the tensors that they fetched, for each client apart, until they are drained"),
		{Name: "cache-size", Kind: transports.Size, Default: "64MiB", Min: 1, Max: 1 << 40,
			Help: "bytes of tensors that one worker's cache holds at most; the oldest go first"},
	}
}

// A config is what the settings of a session say.
type config struct {
	network   string
	batch     int // tensors a request, 0 is all
	json      bool
	cacheSize int // bytes, 0 is no cache
}

func (d driver) config(o transports.Options) config {
	s := o.Settings
	c := config{network: s.Get("network"), batch: s.Int("batch")}
	c.json = s.Get("body") == "json"
	if s.On("cache") {
		c.cacheSize = s.Int("cache-size")
	}
	return c
}

func (d driver) Check(o transports.Options) error {
	if _, err := tablesOf(o); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	return nil
}

// Footprint counts two models and the updates of all lanes at the server, a
// model and an update at each worker. JSON is in memory as a whole, at both ends
// of a lane, as text and decoded.
func (d driver) Footprint(o transports.Options) int64 {
	c := d.config(o)
	down, up, lanes := int64(o.Down.Size()), int64(o.Up.Size()), int64(o.Lanes)
	n := 2*down + lanes*(int64(o.Depth)*up+down+up)
	if c.json {
		n += lanes * 6 * max(down, up)
	}
	return n + lanes*int64(c.cacheSize)
}

func (d driver) Listen(ctx context.Context, o transports.Options) (transports.Server, error) {
	s, err := newServer(ctx, o, d.config(o))
	if err != nil {
		return nil, fmt.Errorf("http: listen: %w", err)
	}
	return s, nil
}

func (d driver) Dial(ctx context.Context, addr string, lane int, o transports.Options) (transports.Worker, error) {
	w, err := dial(ctx, addr, lane, o, d.config(o))
	if err != nil {
		return nil, fmt.Errorf("http: dial lane %d: %w", lane, err)
	}
	return w, nil
}
