package http

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
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
	"ipcbench/transports/internal/door"
	"ipcbench/transports/internal/lend"
)

type server struct {
	o         driver.Options
	c         config
	addr      string
	withdraw  func() error // removes the file that holds addr
	nonce     string       // of this session, so that ids of two sessions differ
	manifests manifests
	count     serverCounters

	models  models
	slabs   *slabs // nil without shared memory
	store   *store.Store
	lanes   []*lane
	ledgers []tensor.Ledger // of each lane's updates

	seq   int       // of the model published last; Publish alone uses it
	offer jobAnswer // what every job with that model says

	handler  *exchange.Handler
	http     *http.Server
	listener *door.Listener
	serving  sync.WaitGroup // the accept loop
	scratch  sync.Pool      // of *[]byte, for manifests
	shutdown sync.Once
}

// models is where the server's two models lie: lend.Model or slabModels.
type models interface {
	Reserve() (*tensor.Package, error)
	Publish(p *tensor.Package) error
}

// manifests are those of the two layouts of a session.
type manifests struct{ down, up store.Manifest }

func manifestsOf(o driver.Options) (m manifests, err error) {
	if m.down, err = store.ManifestOf(o.Down); err == nil {
		m.up, err = store.ManifestOf(o.Up)
	}
	return m, err
}

type serverCounters struct {
	bodyTensors, bodyBytes, handleTensors, handleBytes, copied *phase.Counter
	fallback                                                   fallbacks
}

// jobAnswer is what a parked request is answered with.
type jobAnswer struct {
	Round   int     `json:"round"`
	Client  int     `json:"client"`
	Weight  float64 `json:"weight"`
	Device  string  `json:"device,omitempty"`
	Config  []byte  `json:"config"`
	Timed   bool    `json:"timed"`
	Model   string  `json:"model"` // the ids of its tensors are this, a dot, and 0, 1, …
	Receipt []byte  `json:"receipt"`
	Rows    []byte  `json:"rows,omitempty"`  // in use, of tensors whose length varies
	Drain   bool    `json:"drain,omitempty"` // the worker empties its cache first

	Pool     *store.SlabRef `json:"pool,omitempty"`     // where some or all of the model's tensors lie
	Runs     []run          `json:"runs,omitempty"`     // which, and where in the pool
	Fallback string         `json:"fallback,omitempty"` // why the others do not
	Update   store.Handle   `json:"update,omitempty"`   // where the update goes, in the lane's slab
}

func newServer(ctx context.Context, o driver.Options, c config) (s *server, err error) {
	m, err := manifestsOf(o)
	if err != nil {
		return nil, err
	}
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails
	s = &server{
		o: o, c: c, manifests: m, nonce: hex.EncodeToString(nonce[:]),
		count: serverCounters{
			bodyTensors: o.Rec.Counter(phase.BodyTensors), bodyBytes: o.Rec.Counter(phase.BodyBytes),
			handleTensors: o.Rec.Counter(phase.HandleTensors), handleBytes: o.Rec.Counter(phase.HandleBytes),
			copied: o.Rec.Counter(phase.Copied), fallback: newFallbacks(o.Rec, c.local),
		},
		scratch: sync.Pool{New: func() any { return new([]byte) }},
		ledgers: make([]tensor.Ledger, o.Lanes),
	}
	if err := s.place(); err != nil {
		return nil, err
	}
	l, where, err := listen(ctx, c.network, o.Dir)
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	secret := rand.Text() // at least 128 bits
	s.addr = where + "#" + secret
	if s.withdraw, err = door.Announce(o.Dir, addressFile, s.addr); err != nil {
		return nil, errors.Join(err, l.Close(), s.release())
	}
	s.handler = exchange.NewHandler(exchange.Options{
		Patience: c.patience, Rec: o.Rec, Admits: admits(secret), Whose: func(q *http.Request) phase.ID { return connOf(q).id() },
		Secret: "what stands behind the # in " + addressFile + " in the session's directory",
	}, s.endpoints())
	s.http = &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: time.Duration(c.patience), // bodies have deadlines of their own; an idle connection is a worker that trains
		MaxHeaderBytes:    exchange.MaxHead,
		ErrorLog:          log.New(io.Discard, "", 0), // what goes wrong is answered, or seen by the lane
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	s.listener = door.New(l, o.Lanes, time.Duration(c.patience), o.Rec, newConn)
	s.serving.Go(s.serve)
	return s, nil
}

// admits returns a function that reports whether a request shows the secret.
func admits(secret string) func(*http.Request) bool {
	want := []byte(exchange.Bearer(secret))
	return func(q *http.Request) bool {
		if subtle.ConstantTimeCompare([]byte(q.Header.Get("Authorization")), want) == 0 {
			return false
		}
		connOf(q).Admit()
		return true
	}
}

func (s *server) endpoints() []exchange.Endpoint {
	return append(s.store.Endpoints(),
		exchange.Endpoint{Pattern: "GET /v1/ping", Name: "ping", Serve: (*exchange.Exchange).ReplyEmpty},
		exchange.Endpoint{Pattern: "GET /v1/stats", Name: "stats", Serve: s.stats},
		exchange.Endpoint{Pattern: "POST /v1/drain", Name: "drain", Serve: s.drain},
		exchange.Endpoint{Pattern: "POST /v1/lanes/{lane}", Name: "join", Serve: s.join},
		exchange.Endpoint{Pattern: "POST /v1/lanes/{lane}/local", Name: "prove", Serve: s.prove},
		exchange.Endpoint{Pattern: "DELETE /v1/lanes/{lane}", Name: "leave", Serve: s.leave},
		exchange.Endpoint{Pattern: "GET /v1/jobs/{lane}", Name: "jobs", Serve: s.jobs},
		exchange.Endpoint{Pattern: "POST /v1/results/{lane}", Name: "results", Serve: s.results})
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

// place makes the memory of models, updates and tensors that are put.
func (s *server) place() (err error) {
	room := storeRoom(s.o)
	o := store.Options{Room: room, Answer: room + s.o.Down.Payload(), Model: s.manifests.down, Prefix: s.modelPrefix()}
	switch {
	case s.c.shm:
		if s.slabs, err = newSlabs(s.o, s.c, s.ledgers); err != nil {
			return err
		}
		s.models = s.slabs.models
		o.Slab, o.SlabSize = s.slabs.store()
		s.offer.Pool, s.offer.Fallback = s.slabs.models.ref, store.Full
	case s.c.local:
		o.Reason, s.offer.Fallback = store.Off, store.Off
		fallthrough
	default:
		s.models = lend.NewModel(s.o.Down)
	}
	s.store = store.New(o)
	for n := range s.o.Lanes {
		var slab *laneSlab
		if s.slabs != nil {
			slab = &s.slabs.lanes[n]
		}
		s.lanes = append(s.lanes, newLane(n, s.o, &s.ledgers[n], slab))
	}
	return nil
}

// release gives all shared memory up that is not lent.
func (s *server) release() error {
	err := s.store.Close()
	if s.slabs != nil {
		err = errors.Join(err, s.slabs.close())
	}
	return err
}

// storeRoom returns how many bytes of tensors may be put, apart from the model.
func storeRoom(o driver.Options) int { return max(64<<20, o.Down.Size()) }

// modelPrefix is what the ids of all models of the session start with, the future
// ones included.
func (s *server) modelPrefix() string { return "model-" + s.nonce + "-" }

func (s *server) Addr() string { return s.addr }

func (s *server) Reserve() (*tensor.Package, error) {
	p, err := s.models.Reserve()
	if err != nil {
		return nil, fmt.Errorf("%s: reserve: %w", s.c.name, err)
	}
	p.Receipt = nil
	return p, nil
}

func (s *server) Publish(ctx context.Context, p *tensor.Package) error {
	if p == nil || p.Layout() != s.o.Down {
		return fmt.Errorf("%s: publish: no package of the model's layout", s.c.name)
	}
	if len(p.Receipt) > maxReceipt {
		return fmt.Errorf("%s: publish: receipt of %d bytes, want %d at most", s.c.name, len(p.Receipt), maxReceipt)
	}
	if err := s.models.Publish(p); err != nil {
		return fmt.Errorf("%s: publish: %w", s.c.name, err)
	}
	s.seq++
	s.offer.Model = s.modelPrefix() + strconv.Itoa(s.seq)
	s.offer.Receipt = append(s.offer.Receipt[:0], p.Receipt...)
	s.offer.Rows = p.AppendRows(s.offer.Rows[:0])
	if s.slabs != nil {
		s.offer.Runs = s.slabs.models.runs()
	}
	// What lay in the model before is written to after the next Reserve, at the
	// earliest: by then it has retired.
	s.store.Publish(s.offer.Model, p)
	return nil
}

func (s *server) Dispatch(ctx context.Context, n int, j driver.Job) (err error) {
	a := s.offer
	a.Round, a.Client, a.Weight, a.Device, a.Config, a.Timed = j.Round, j.Client, j.Weight, j.Device, j.Config, j.Timed
	switch {
	case a.Model == "":
		err = errors.New("no model was published")
	case len(j.Config) > maxReceipt:
		err = fmt.Errorf("configuration of %d bytes, want %d at most", len(j.Config), maxReceipt)
	default:
		err = s.lanes[n].dispatch(ctx, j, a)
	}
	if err != nil {
		return fmt.Errorf("%s: dispatch to lane %d: %w", s.c.name, n, err)
	}
	return nil
}

func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, error) {
	p, err := s.lanes[n].mail.Collect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: collect from lane %d: %w", s.c.name, n, err)
	}
	return p, nil
}

// Settle implements driver.Settler.
func (s *server) Settle(ctx context.Context) error {
	for i, l := range s.lanes {
		if err := l.mail.Settle(ctx); err != nil {
			return fmt.Errorf("%s: settle: lane %d: %w", s.c.name, i, err)
		}
	}
	return nil
}

// Shutdown answers every worker's next request for a job with the end of the
// session, and waits until each has heard it or is gone.
func (s *server) Shutdown(ctx context.Context) (err error) {
	s.shutdown.Do(func() {
		for _, l := range s.lanes {
			l.close()
		}
		for _, l := range s.lanes {
			err = errors.Join(err, l.awaitLeave(ctx))
		}
		s.handler.Refuse()
		err = errors.Join(err, s.http.Close(), s.withdraw()) // wakes handlers that read or write
		s.serving.Wait()
		s.handler.Wait()
		err = errors.Join(err, s.release())
		out := 0
		for i := range s.ledgers {
			out += s.ledgers[i].Out()
		}
		if out > 0 {
			err = errors.Join(err, fmt.Errorf("%d updates are still out", out))
		}
		if err != nil {
			err = fmt.Errorf("%s: shutdown: %w", s.c.name, err)
		}
	})
	return err
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

// drain makes every worker empty its cache before it works on its next job.
func (s *server) drain(x *exchange.Exchange) error {
	for _, l := range s.lanes {
		l.mu.Lock()
		l.drain = true
		l.mu.Unlock()
	}
	return x.ReplyEmpty()
}
