package http

import (
	"errors"
	"fmt"
	"math"
	"time"

	"ipcbench/internal/machine"
	"ipcbench/internal/scratch"
	"ipcbench/phase"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// New returns the transport "http": tensors as HTTP bodies.
func New() driver.Transport { return transport{name: "http", headLimit: 30 * time.Second} }

// Local returns the transport "http-shm": tensors are in shared memory for workers that
// are local, and travel as HTTP bodies to and from the others.
func Local() driver.Transport {
	return transport{name: "http-shm", local: true, headLimit: 30 * time.Second}
}

type transport struct {
	name      string
	local     bool
	headLimit time.Duration // most time between the first and the last byte of a request's head
}

func (t transport) Name() string { return t.name }

func (t transport) Settings() []driver.Setting {
	common := append(driver.NetworkSettings(), driver.Setting{
		Name: "batch", Kind: driver.Count, Default: "0", Max: store.MaxIDs,
		Help: "tensors that a worker asks for in one request; 0 is all of them",
	})
	if t.local {
		return append(common,
			driver.OnOff("shm", true, "keep tensors in shared memory; off sends all as bodies, counted as fallbacks"),
			driver.Setting{Name: "pool", Kind: driver.Size, Default: "0B", Max: 1 << 40,
				Help: "size of each slab, even if more is needed; 0 is what is needed"},
			driver.Setting{Name: "missing", Kind: driver.Count, Default: "0", Max: 100,
				Help: "percent of a model's tensors that do not get into the slab, and so come as bodies, counted as fallbacks"},
			driver.Setting{Name: "copy", Values: []string{"off", slab.CopyOut}, Default: "off",
				Help: "out: copy tensors out of the slabs before they are read, to see what that costs"})
	}
	return append(common,
		driver.Setting{Name: "body", Values: []string{"raw", "json"}, Default: "raw",
			Help: "tensors as raw bytes, or base64 in JSON"},
		driver.Setting{Name: "conn", Values: []string{"kept", "per-request"}, Default: "kept",
			Help: "one connection for each worker, or a new one for each request"},
		driver.OnOff("cache", false, "workers keep the tensors that they fetched, separately for each client, until POST /v1/drain"),
		driver.Setting{Name: "cache-size", Kind: driver.Size, Default: "64MiB", Min: 1, Max: 1 << 40,
			Help: "most bytes in a worker's cache, 256 for each tensor included; the oldest tensors go first"},
		driver.OnOff("drain", false, "workers empty their caches for every new model, as after POST /v1/drain; needs cache=on"))
}

// maxReceipt is the largest size of a receipt or of a client's configuration, in bytes.
const maxReceipt = 64 << 20

// checkReceipt bounds b, a receipt or a client's configuration; what names it in the
// error.
func checkReceipt(what string, b []byte) error {
	if len(b) > maxReceipt {
		return fmt.Errorf("%s of %d bytes, must be at most %d", what, len(b), maxReceipt)
	}
	return nil
}

// fellBack counts n tensors that travel as bodies in http-shm, by reason. Unknown
// reasons come from peers and count as store.Remote.
func (c config) fellBack(rec *phase.Recorder, reason string, n int) {
	if !c.local || n == 0 {
		return
	}
	switch reason {
	case store.Off, store.Full, store.Missing, store.DType, store.Stale:
	default:
		reason = store.Remote
	}
	rec.Counter(phase.Fallback + reason).Add(n)
}

// A config holds a session's settings.
type config struct {
	network   string
	batch     int // tensors per request; 0 means all
	json      bool
	fresh     bool // a new connection for every request
	cacheSize int  // bytes; 0 means no cache
	drain     bool // every new model empties the caches
	local     bool // the transport is http-shm
	shm       bool // shared memory is used; false unless local
	pool      int  // bytes of each slab; 0 means as many as needed
	missing   int  // percentage of a model's tensors that are kept out of the slab
	clone     bool // both ends copy tensors out of slabs before they read them
}

// Traits returns the same for both transports, because a worker without shared memory
// gets bodies.
func (t transport) Traits(s driver.Settings) driver.Traits {
	return driver.Traits{Reach: s.Reach(), Calls: true}
}

func (t transport) config(o driver.Options) config {
	s := o.Settings
	c := config{network: s.Get("network"), batch: s.Int("batch"), local: t.local}
	if t.local {
		c.shm, c.pool, c.missing, c.clone = s.On("shm"), s.Int("pool"), s.Int("missing"), s.Get("copy") == slab.CopyOut
		return c
	}
	c.drain, c.json, c.fresh = s.On("drain"), s.Get("body") == "json", s.Get("conn") == "per-request"
	if s.On("cache") {
		c.cacheSize = s.Int("cache-size")
	}
	return c
}

// check rejects combinations of settings that make no sense.
func (c config) check() error {
	switch {
	case c.drain && c.cacheSize == 0:
		return errors.New("drain=on needs cache=on: there are no caches to empty")
	case c.missing > 0 && (!c.shm || c.pool > 0):
		return fmt.Errorf("missing=%d needs shm=on and pool=0B: a tensor may be missing for no other reason", c.missing)
	case c.clone && !c.shm:
		return errors.New("copy=out needs shm=on: there are no slabs to copy out of")
	}
	return nil
}

// misses reports whether tensor i of a model is kept out of the slab. Such tensors are
// spread evenly over the model.
func (c config) misses(i int) bool { return (i+1)*c.missing/100 > i*c.missing/100 }

func (t transport) Check(o driver.Options) error {
	err := t.config(o).check()
	if err == nil {
		_, err = manifestsOf(o)
	}
	if err == nil {
		err = t.checkRoom(o)
	}
	return err
}

// checkRoom returns an error if the slabs do not fit into this machine's memory or its
// tmpfs.
func (t transport) checkRoom(o driver.Options) error {
	needs, err := t.Needs(o)
	if err != nil || needs.Dir == "" {
		return err
	}
	need := needs.Bytes
	if have, limit := machine.MemoryLimit(); need > have {
		return fmt.Errorf("slabs need %d bytes of memory, but %s leaves %d", need, limit, have)
	}
	have, err := machine.Room(scratch.SharedMemory)
	if err != nil {
		return fmt.Errorf("slabs are files: %w: mount a writable tmpfs there (%s), or set shm=off", err, machine.EnlargeShm(need))
	}
	if need > have {
		return fmt.Errorf("slabs need %d bytes in %s, but %d are available: make it larger (%s), or set shm=off",
			need, scratch.SharedMemory, have, machine.EnlargeShm(need))
	}
	return nil
}

// Needs returns the directory and size of the slabs.
func (t transport) Needs(o driver.Options) (driver.Needs, error) {
	c := t.config(o)
	if !c.shm {
		return driver.Needs{}, nil
	}
	size, err := sizesOf(o, c)
	if err != nil {
		return driver.Needs{}, err
	}
	return driver.Needs{Dir: scratch.SharedMemory, Bytes: size.total(o.Lanes)}, nil
}

// Footprint counts two models and all lanes' updates at the server, and a model and an
// update at each worker unless shared memory serves both. With body=json, each lane also
// has three copies at each end, as text and decoded.
func (t transport) Footprint(o driver.Options) int64 {
	c := t.config(o)
	down, up, lanes := int64(o.Down.Size()), int64(o.Up.Size()), int64(o.Lanes)
	kept := int64(0) // memory apart from slabs
	if c.clone {
		kept = slab.CloneBytes(o)
	}
	if c.missing > 0 { // both ends have heap memory for a whole model
		kept += 2*down + lanes*down
	}
	if c.shm && c.pool == 0 {
		size, err := sizesOf(o, c)
		if err != nil {
			return math.MaxInt64
		}
		return size.total(o.Lanes) + kept
	}
	n := kept + 2*down + lanes*(int64(o.Depth)*up+down+up)
	if c.json {
		n += lanes * 6 * max(down, up)
	}
	return n + lanes*int64(c.cacheSize+c.pool) + int64(c.pool)
}
