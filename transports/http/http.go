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
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// New returns the transport "http": tensors as HTTP bodies.
func New() driver.Transport { return transport{name: "http", patience: defaultPatience} }

// Local returns the transport "http-shm": tensors in shared memory where the peer
// is local, as HTTP bodies where it is not.
func Local() driver.Transport {
	return transport{name: "http-shm", local: true, patience: defaultPatience}
}

type transport struct {
	name     string
	local    bool
	patience exchange.Patience
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

// defaultPatience bounds every wait for a peer that is in the middle of something.
const defaultPatience = exchange.Patience(30 * time.Second)

// maxReceipt is how many bytes a receipt, or a client's configuration, may have.
const maxReceipt = 64 << 20

// checkReceipt bounds a receipt, or a client's configuration.
func checkReceipt(what string, b []byte) error {
	if len(b) > maxReceipt {
		return fmt.Errorf("%s of %d bytes, want %d at most", what, len(b), maxReceipt)
	}
	return nil
}

// fellBack counts tensors that travel as bodies although the transport is named for
// shared memory. A reason that a peer made up is that it is remote.
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

// A config is what the settings of a session say.
type config struct {
	network   string
	batch     int // tensors a request, 0 is all
	json      bool
	fresh     bool // a connection for every request
	cacheSize int  // bytes, 0 is no cache
	drain     bool // caches are emptied for every model
	local     bool // the transport is the one with shared memory
	shm       bool // and that is on
	pool      int  // bytes of each slab, 0 is what is needed
	missing   int  // percent of a model's tensors that the slab does not get
	clone     bool // what lies in a slab is copied out of it before it is read
	patience  exchange.Patience
}

// Traits of http-shm are those of http: whoever shares no memory gets bodies.
func (t transport) Traits(s driver.Settings) driver.Traits {
	return driver.Traits{Reach: s.Reach(), Calls: true}
}

func (t transport) config(o driver.Options) config {
	s := o.Settings
	c := config{network: s.Get("network"), batch: s.Int("batch"), local: t.local, patience: t.patience}
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

// check refuses settings that mean nothing together.
func (c config) check() error {
	switch {
	case c.drain && c.cacheSize == 0:
		return errors.New("drain=on needs cache=on: without caches there is nothing to empty")
	case c.missing > 0 && (!c.shm || c.pool > 0):
		return fmt.Errorf("missing=%d needs shm=on and pool=0B: no tensor may be missing for another reason", c.missing)
	case c.clone && !c.shm:
		return errors.New("copy=out needs shm=on: without slabs there is nothing to copy out of")
	}
	return nil
}

// misses reports whether tensor i of a model is one of those that the slab does not get.
// They lie apart.
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

// checkRoom reports whether the slabs fit into this machine's shared memory.
func (t transport) checkRoom(o driver.Options) error {
	needs, err := t.Needs(o)
	if err != nil || needs.Dir == "" {
		return err
	}
	need := needs.Bytes
	if have, limit := machine.MemoryLimit(); need > have {
		return fmt.Errorf("slabs need %d bytes of memory, %s leaves %d", need, limit, have)
	}
	have, err := machine.Room(scratch.SharedMemory)
	if err != nil {
		return fmt.Errorf("slabs are files: %w: mount a tmpfs there that can be written to, or set shm=off", err)
	}
	if need > have {
		return fmt.Errorf("slabs need %d bytes in %s, %d are available: make it larger (docker run --shm-size=%dm), or set shm=off",
			need, scratch.SharedMemory, have, need>>20+1)
	}
	return nil
}

// Needs are those of the slabs, and the calls: for a job, for tensors, with results.
func (t transport) Needs(o driver.Options) (driver.Needs, error) {
	c := t.config(o)
	if !c.shm {
		calls := 3
		if c.batch > 0 {
			calls = 2 + (o.Down.Len()+c.batch-1)/c.batch
		}
		return driver.Needs{Calls: calls}, nil
	}
	size, err := sizesOf(o, c)
	if err != nil {
		return driver.Needs{}, err
	}
	return driver.Needs{Dir: scratch.SharedMemory, Bytes: size.total(o.Lanes)}, nil
}

// Footprint counts two models and the updates of all lanes at the server, and a
// model and an update at each worker, unless they share them. JSON is in memory
// as a whole, at both ends of a lane, as text and decoded.
func (t transport) Footprint(o driver.Options) int64 {
	c := t.config(o)
	down, up, lanes := int64(o.Down.Size()), int64(o.Up.Size()), int64(o.Lanes)
	kept := int64(0) // besides slabs
	if c.clone {
		kept = slab.CloneBytes(o)
	}
	if c.missing > 0 { // both ends have room for all tensors of a model
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
