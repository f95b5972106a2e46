package http

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

type server struct {
	e         *driver.Endpoint
	o         driver.Options
	c         config
	manifests manifests
	prefix    string // of the ids of the session's models, past and future

	memory *memory
	store  *store.Store
	lanes  []*lane

	seq      int    // of the model published last
	fallback string // why a model's tensors do not lie in the slab, if somebody expects that

	handler  *exchange.Handler
	http     *http.Server
	listener *driver.Listener
	serving  sync.WaitGroup // the accept loop, and connections
	scratch  sync.Pool      // of *[]byte, for manifests
	copied   *phase.Counter

	mu     sync.Mutex
	seated map[*driver.Conn]*lane // guarded by mu: whose worker lives at the other end of a connection
}

// manifests are those of the two layouts of a session.
type manifests struct{ down, up store.Manifest }

func manifestsOf(o driver.Options) (m manifests, err error) {
	if m.down, err = store.ManifestOf(o.Down); err == nil {
		m.up, err = store.ManifestOf(o.Up)
	}
	return m, err
}

// A jobAnswer is what a parked request is answered with.
type jobAnswer struct {
	Round   int     `json:"round"`
	Client  int     `json:"client"`
	Weight  float64 `json:"weight"`
	Device  string  `json:"device,omitempty"`
	Config  []byte  `json:"config"`
	Timed   bool    `json:"timed"`
	Model   string  `json:"model"` // the ids of its tensors are this, a dot, and 0, 1, …; empty without one
	Receipt []byte  `json:"receipt"`
	Rows    []byte  `json:"rows,omitempty"`  // in use, of tensors whose length varies
	Drain   bool    `json:"drain,omitempty"` // the worker empties its cache first

	Pool     *store.SlabRef `json:"pool,omitempty"`     // where some or all of the model's tensors lie
	Runs     []run          `json:"runs,omitempty"`     // which, and where in the pool
	Fallback string         `json:"fallback,omitempty"` // why the others do not
	Update   store.Handle   `json:"update,omitempty"`   // where the update goes, in the lane's slab
}

func (t transport) Listen(ctx context.Context, e *driver.Endpoint, o driver.Options) (driver.Server, error) {
	m, err := manifestsOf(o)
	if err != nil {
		return nil, err
	}
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails: ids of two sessions differ
	s := &server{
		e: e, o: o, c: t.config(o), manifests: m, prefix: "model-" + hex.EncodeToString(nonce[:]) + "-",
		seated:  map[*driver.Conn]*lane{},
		scratch: sync.Pool{New: func() any { return new([]byte) }}, copied: o.Rec.Counter(phase.Copied),
	}
	if err := s.place(); err != nil {
		return nil, err
	}
	s.listener, err = e.Listen(ctx, s.c.network, o, driver.Protocol{Name: "http/1.1", Refuse: exchange.Goodbye})
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.handler = exchange.NewHandler(exchange.Options{
		Patience: s.c.patience, Rec: o.Rec, Whose: s.whose, Admits: s.admits,
	}, s.endpoints())
	s.http = &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: time.Duration(s.c.patience), // bodies have deadlines of their own; an idle connection is a worker that trains
		MaxHeaderBytes:    exchange.MaxHead,
		ErrorLog:          log.New(io.Discard, "", 0), // what goes wrong is answered, or seen by the lane
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState:         s.follow,
	}
	s.serving.Go(s.serve)
	if s.c.clone {
		return slab.Cloning(s, o), nil
	}
	return s, nil
}

func (s *server) endpoints() []exchange.Endpoint {
	return append(s.store.Endpoints(),
		exchange.Endpoint{Pattern: "GET /v1/ping", Name: "ping", Serve: (*exchange.Exchange).ReplyEmpty},
		exchange.Endpoint{Pattern: "GET /v1/stats", Name: "stats", Serve: s.stats},
		exchange.Endpoint{Pattern: "POST /v1/drain", Name: "drain", Serve: s.drain},
		exchange.Endpoint{Pattern: "POST /v1/lanes/{lane}", Name: "join", Serve: s.laned(s.join)},
		exchange.Endpoint{Pattern: "POST /v1/lanes/{lane}/local", Name: "prove", Serve: s.laned(s.prove)},
		exchange.Endpoint{Pattern: "DELETE /v1/lanes/{lane}", Name: "leave", Serve: s.laned(s.leave)},
		exchange.Endpoint{Pattern: "GET /v1/jobs/{lane}", Name: "jobs", Serve: s.laned(s.jobs)},
		exchange.Endpoint{Pattern: "POST /v1/results/{lane}", Name: "results", Serve: s.laned(s.results)})
}

// serve accepts connections until Shutdown. If they cannot be accepted any more
// it fails all lanes: workers could not come back, and would only be waited for.
func (s *server) serve() {
	err := s.http.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return
	}
	for _, l := range s.lanes {
		l.mu.Lock()
		l.fail(fmt.Errorf("no connection can be accepted any more: %w", err))
		l.mu.Unlock()
	}
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// connOf returns the connection that a request came on.
func connOf(q *http.Request) *driver.Conn { return q.Context().Value(connKey{}).(*driver.Conn) }

// follow is called when a connection changes its state. A connection that is closed
// means that the lane's worker is gone: net/http closes it as soon as it reads its end,
// or after the answer to a request that was going on.
func (s *server) follow(c net.Conn, is http.ConnState) {
	switch is {
	case http.StateNew:
		s.serving.Add(1)
	case http.StateClosed:
		s.seat(c.(*driver.Conn), nil)
		s.serving.Done()
	}
}

// seat notes whose worker is at the other end of c, if it is anybody's. The lane that
// it had before has lost it.
func (s *server) seat(c *driver.Conn, l *lane) {
	s.mu.Lock()
	before := s.seated[c]
	if delete(s.seated, c); l != nil {
		s.seated[c] = l
	}
	s.mu.Unlock()
	if before != nil && before != l {
		before.lost(c)
	}
}

// whose returns whose work a request belongs to, as far as it is known.
func (s *server) whose(q *http.Request) phase.ID {
	s.mu.Lock()
	l := s.seated[connOf(q)]
	s.mu.Unlock()
	if l != nil {
		if o, _ := l.mail.Order(); o != nil {
			return o.id
		}
	}
	return phase.ID{Lane: -1, Round: -1, Client: -1}
}

// place makes the memory of models, updates and tensors that are put.
func (s *server) place() (err error) {
	room := max(64<<20, s.o.Down.Size()) // for tensors that are put, apart from the model
	o := store.Options{Room: room, Answer: room + s.o.Down.Payload(), Model: s.manifests.down, Prefix: s.prefix, SlabSize: room}
	if s.memory, o.Slab, err = newMemory(s.o, s.c); err != nil {
		return err
	}
	if s.c.pool > 0 {
		o.SlabSize = s.c.pool
	}
	switch {
	case s.c.missing > 0:
		s.fallback = store.Missing
	case s.c.shm:
		s.fallback = store.Full
	case s.c.local:
		s.fallback, o.Reason = store.Off, store.Off
	}
	s.store = store.New(o)
	for n, slab := range s.memory.lanes {
		s.lanes = append(s.lanes, newLane(n, s.o, slab))
	}
	return nil
}

// release gives all shared memory up that is not lent.
func (s *server) release() error { return errors.Join(s.store.Close(), s.memory.close()) }

func (s *server) Reserve() (*tensor.Package, error) {
	models := s.memory.models
	s.store.Retire(models.both[models.next].p) // before it is written to
	return models.reserve()
}

func (s *server) Publish(ctx context.Context, p *tensor.Package) error {
	if err := checkReceipt("receipt", p.Receipt); err != nil {
		return err
	}
	s.seq++
	name := s.prefix + strconv.Itoa(s.seq)
	if err := s.memory.models.publish(name); err != nil {
		return err
	}
	s.store.Publish(name, p)
	if s.c.drain {
		s.drainCaches()
	}
	return nil
}

func (s *server) Dispatch(ctx context.Context, n int, model *tensor.Package, j driver.Job) error {
	if err := checkReceipt("configuration", j.Config); err != nil {
		return err
	}
	a := s.memory.models.offer(model)
	a.Fallback = s.fallback
	a.Round, a.Client, a.Weight, a.Device, a.Config, a.Timed = j.Round, j.Client, j.Weight, j.Device, j.Config, j.Timed
	return s.lanes[n].dispatch(j, a)
}

func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	p, d, err := s.lanes[n].mail.Collect(ctx)
	return p, d, s.explain(n, err)
}

// explain adds to the error of a wait for lane n why it may have no worker.
func (s *server) explain(n int, err error) error {
	l := s.lanes[n]
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || l.seat.taken {
		return err
	}
	return s.listener.Explain(err)
}

func (s *server) Settle(ctx context.Context) error {
	for n, l := range s.lanes {
		if err := s.explain(n, l.mail.Settle(ctx)); err != nil {
			return fmt.Errorf("lane %d: %w", n, err)
		}
	}
	return nil
}

// Shutdown answers every worker's next request for a job with the end of the
// session, and waits until each has heard it or is gone.
func (s *server) Shutdown(ctx context.Context) (err error) {
	for _, l := range s.lanes {
		l.close()
	}
	for _, l := range s.lanes {
		err = errors.Join(err, l.awaitLeave(ctx))
	}
	err = errors.Join(err, s.http.Close()) // wakes handlers that read or write
	s.serving.Wait()
	return errors.Join(err, s.release())
}

// statsAnswer is what the server knows of the store and of the workers' caches.
type statsAnswer struct {
	store.Stats
	Served map[string]int64   `json:"served"` // requests by endpoint
	Caches []store.CacheStats `json:"caches"` // of each lane, as its last result said
	Open   int                `json:"connections"`
}

func (s *server) stats(x *exchange.Exchange) error {
	a := statsAnswer{Stats: s.store.Stats(), Served: s.handler.Served(), Open: s.listener.Count()}
	for _, l := range s.lanes {
		l.mu.Lock()
		a.Caches = append(a.Caches, l.cached)
		l.mu.Unlock()
	}
	return x.ReplyJSON(http.StatusOK, a)
}

// drainCaches makes every worker empty its cache before it works on its next job.
func (s *server) drainCaches() {
	for _, l := range s.lanes {
		l.mu.Lock()
		l.drain = true
		l.mu.Unlock()
	}
}

func (s *server) drain(x *exchange.Exchange) error {
	s.drainCaches()
	return x.ReplyEmpty()
}
