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

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

type server struct {
	e         *endpoint.Endpoint
	o         driver.Options
	c         config
	manifests manifests
	prefix    string // of the ids of all models of the session

	memory *memory
	store  *store.Store
	lanes  []*lane

	models   *driver.Pair[*model]
	fallback string // why tensors of a model are not in the slab; empty for the transport http

	handler  *exchange.Handler
	http     *http.Server
	listener *endpoint.Listener
	serving  sync.WaitGroup // counts the accept loop and all connections
	scratch  sync.Pool      // *[]byte for manifests
	copied   *phase.Counter

	mu     sync.Mutex
	seated map[*endpoint.Conn]*lane // guarded by mu: the lane whose worker has the connection
}

type manifests struct{ down, up store.Manifest }

func manifestsOf(o driver.Options) (m manifests, err error) {
	if m.down, err = store.ManifestOf(o.Down); err == nil {
		m.up, err = store.ManifestOf(o.Up)
	}
	return m, err
}

// A jobAnswer is the answer to a request for a job.
type jobAnswer struct {
	Round   int     `json:"round"`
	Client  int     `json:"client"`
	Weight  float64 `json:"weight"`
	Device  string  `json:"device,omitempty"`
	Config  []byte  `json:"config"`
	Timed   bool    `json:"timed"`
	Model   string  `json:"model"` // ids of its tensors are MODEL.0, MODEL.1, …; empty if the job has no model
	Receipt []byte  `json:"receipt"`
	Rows    []byte  `json:"rows,omitempty"`  // rows in use, of tensors of varying length
	Drain   bool    `json:"drain,omitempty"` // the worker must empty its cache first

	Pool     *store.SlabRef `json:"pool,omitempty"`     // slab of the model's tensors that are shared
	Runs     []run          `json:"runs,omitempty"`     // locations of those tensors in Pool
	Fallback string         `json:"fallback,omitempty"` // why the other tensors are not in Pool
	Update   store.Handle   `json:"update,omitempty"`   // where to put the update in the lane's slab; empty if it must be sent as a body
}

func (t transport) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
	m, err := manifestsOf(o)
	if err != nil {
		return nil, err
	}
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails; makes ids of two sessions differ
	s := &server{
		e: e, o: o, c: t.config(o), manifests: m, prefix: "model-" + hex.EncodeToString(nonce[:]) + "-",
		seated:  map[*endpoint.Conn]*lane{},
		scratch: sync.Pool{New: func() any { return new([]byte) }}, copied: o.Rec.Counter(phase.Copied),
	}
	if err := s.place(); err != nil {
		return nil, err
	}
	s.listener, err = e.Listen(ctx, s.c.network, o.Session(), endpoint.Protocol{Name: "http/1.1"})
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.handler = exchange.NewHandler(exchange.Options{
		Rec: o.Rec, JobOf: s.jobOf, Admits: s.admits,
	}, s.endpoints())
	s.http = &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: t.headLimit, // not of bodies, because a network may be slow, and connections idle while workers train
		MaxHeaderBytes:    exchange.MaxHead,
		ErrorLog:          log.New(io.Discard, "", 0), // errors are answered, or fail the lane
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
		exchange.Endpoint{Pattern: "POST /v1/lanes/{lane}", Name: "join", Serve: s.forLane(s.join)},
		exchange.Endpoint{Pattern: "POST /v1/lanes/{lane}/local", Name: "prove", Serve: s.forLane(s.prove)},
		exchange.Endpoint{Pattern: "DELETE /v1/lanes/{lane}", Name: "leave", Serve: s.forLane(s.leave)},
		exchange.Endpoint{Pattern: "GET /v1/jobs/{lane}", Name: "jobs", Serve: s.forLane(s.jobs)},
		exchange.Endpoint{Pattern: "POST /v1/results/{lane}", Name: "results", Serve: s.forLane(s.results)})
}

// serve accepts connections until Shutdown. If accepting fails, it fails all lanes,
// because workers could not return and the server would wait for them in vain.
func (s *server) serve() {
	err := s.http.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return
	}
	for _, l := range s.lanes {
		l.mu.Lock()
		l.fail(fmt.Errorf("the server can no longer accept connections: %w", err))
		l.mu.Unlock()
	}
}

type connKey struct{}

func connOf(q *http.Request) *endpoint.Conn { return q.Context().Value(connKey{}).(*endpoint.Conn) }

// follow is called by net/http when a connection changes its state. A closed connection
// means that its worker is gone. net/http closes it when it reads the peer's end, or
// after the answer to a request in progress.
func (s *server) follow(c net.Conn, is http.ConnState) {
	switch is {
	case http.StateNew:
		s.serving.Add(1)
	case http.StateClosed:
		s.assign(c.(*endpoint.Conn), nil)
		s.serving.Done()
	}
}

// assign records l as the lane whose worker has the connection c, or that no worker has it
// if l is nil. The lane recorded before loses its worker.
func (s *server) assign(c *endpoint.Conn, l *lane) {
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

// jobOf returns the job of a request; fields that are not known are -1.
func (s *server) jobOf(q *http.Request) phase.ID {
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

// place makes the lanes, the store, and the memory of models, updates and tensors that
// are put.
func (s *server) place() (err error) {
	room := max(64<<20, s.o.Down.Size()) // bytes for tensors that are put
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
	s.models = driver.PairOf(s.renew, s.memory.models.model(), s.memory.models.model())
	for n, slab := range s.memory.lanes {
		s.lanes = append(s.lanes, newLane(n, s.o, slab))
	}
	return nil
}

// release gives up all shared memory that is not lent.
func (s *server) release() error {
	models := s.models.Memories()
	return errors.Join(s.store.Close(), s.memory.close(models[:]...))
}

func (s *server) renew(old *model) (*tensor.Package, *model, error) {
	s.store.Retire(old.p) // before it is overwritten
	err := s.memory.models.renew(old)
	return old.p, old, err
}

func (s *server) Reserve() (*tensor.Package, error) { return s.models.Reserve() }

// name returns the first part of the ids of the tensors of m, which is published.
func (s *server) name(m driver.Model[*model]) string {
	return s.prefix + strconv.FormatUint(m.Serial, 10)
}

func (s *server) Publish(ctx context.Context, p *tensor.Package) error {
	if err := checkReceipt("receipt", p.Receipt); err != nil {
		return err
	}
	if err := s.memory.models.publish(s.models.Published(p).Memory); err != nil {
		return err
	}
	s.models.Publish()
	s.store.Publish(s.name(s.models.Published(p)), p)
	if s.c.drain {
		s.drainCaches()
	}
	return nil
}

func (s *server) Dispatch(ctx context.Context, n int, model *tensor.Package, j driver.Job) error {
	if err := checkReceipt("configuration", j.Config); err != nil {
		return err
	}
	a := jobAnswer{Round: j.Round, Client: j.Client, Weight: j.Weight, Device: j.Device, Config: j.Config, Timed: j.Timed, Fallback: s.fallback}
	if model != nil {
		m := s.models.Published(model)
		a.Model, a.Receipt, a.Rows, a.Pool, a.Runs = s.name(m), m.Receipt, m.Rows, s.memory.models.ref, m.Memory.runs
	}
	return s.lanes[n].dispatch(j, a)
}

func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	p, d, err := s.lanes[n].mail.Collect(ctx)
	return p, d, s.explain(n, err)
}

// explain adds to err, of a wait for lane n, why the lane may have no worker.
func (s *server) explain(n int, err error) error {
	l := s.lanes[n]
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || l.holder.taken {
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

// Shutdown answers every worker's next request for a job with the end of the session. It
// waits until each worker has got that answer or is gone.
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

// statsAnswer is the answer to GET /v1/stats.
type statsAnswer struct {
	store.Stats
	Served map[string]int64   `json:"served"` // number of requests by endpoint
	Caches []store.CacheStats `json:"caches"` // one per lane, as reported with its last update
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

// drainCaches makes every worker empty its cache before its next job.
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
