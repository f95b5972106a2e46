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
	"ipcbench/transports/internal/door"
	"ipcbench/transports/internal/lend"
)

type server struct {
	o         driver.Options
	name      string // of the transport, for errors
	addr      string
	withdraw  func() error // removes the file that holds addr
	bearer    []byte       // what a request has to show
	nonce     string       // of this session, so that ids of two sessions differ
	tables    tables
	endpoints []*endpoint
	patience  patience
	count     serverCounters

	models  models
	pools   *pools // nil without shared memory
	why     string // tensors of a model do not lie there; empty if nobody expects it
	store   *store
	lanes   []*lane
	ledgers []tensor.Ledger // of each lane's updates

	seq     int    // of the model published last; Publish alone uses it
	receipt []byte // of that model

	http     *http.Server
	listener *door.Listener
	serving  sync.WaitGroup // the accept loop
	scratch  sync.Pool      // of *scratchpad

	mu       sync.Mutex
	closing  bool           // guarded by mu: no handler starts any more
	handlers sync.WaitGroup // running; added to with mu held
	shutdown sync.Once
}

// models is where the server's two models lie: lend.Model or slabModels.
type models interface {
	Reserve() (*tensor.Package, error)
	Publish(p *tensor.Package) error
}

// tables are the two layouts of a session as they are spelt on the wire.
type tables struct{ down, up table }

func tablesOf(o driver.Options) (t tables, err error) {
	if t.down, err = tableOf(o.Down); err == nil {
		t.up, err = tableOf(o.Up)
	}
	return t, err
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
	Drain   bool    `json:"drain,omitempty"` // the worker empties its cache first

	Pool     *poolRef  `json:"pool,omitempty"`     // where some or all of the model's tensors lie
	Runs     []run     `json:"runs,omitempty"`     // which, and where in the pool
	Fallback string    `json:"fallback,omitempty"` // why the others do not
	Update   hexHandle `json:"update,omitempty"`   // where the update goes, in the lane's slab
}

func newServer(ctx context.Context, o driver.Options, c config) (s *server, err error) {
	t, err := tablesOf(o)
	if err != nil {
		return nil, err
	}
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails
	s = &server{
		o: o, name: c.name, tables: t, nonce: hex.EncodeToString(nonce[:]), endpoints: endpoints(o.Rec), patience: c.patience,
		count: serverCounters{
			bodyTensors: o.Rec.Counter(phase.BodyTensors), bodyBytes: o.Rec.Counter(phase.BodyBytes),
			handleTensors: o.Rec.Counter(phase.HandleTensors), handleBytes: o.Rec.Counter(phase.HandleBytes),
			copied: o.Rec.Counter(phase.Copied), fallback: newFallbacks(o.Rec, c.local),
		},
		scratch: sync.Pool{New: func() any { return &scratchpad{} }},
		ledgers: make([]tensor.Ledger, o.Lanes),
	}
	if err := s.place(c); err != nil {
		return nil, err
	}
	l, where, err := listen(ctx, c.network, o.Dir)
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	secret := rand.Text() // at least 128 bits
	s.addr, s.bearer = where+"#"+secret, []byte(bearer(secret))
	if s.withdraw, err = door.Announce(o.Dir, addressFile, s.addr); err != nil {
		return nil, errors.Join(err, l.Close(), s.release())
	}
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: time.Duration(c.patience), // bodies have deadlines of their own; an idle connection is a worker that trains
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // what goes wrong is answered, or seen by the lane
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	s.listener = door.New(l, o.Lanes, time.Duration(c.patience), o.Rec, newConn)
	s.serving.Go(s.serve)
	return s, nil
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
func (s *server) place(c config) (err error) {
	room := storeRoom(s.o)
	if c.shm {
		if s.pools, err = newPools(s.o, c, s.ledgers); err != nil {
			return err
		}
		s.models, s.store, s.why = s.pools.models, newStore(room, s.modelPrefix(), s.pools.stored), fallbackFull
	} else {
		if c.local {
			s.why = fallbackOff
		}
		s.models, s.store = lend.NewModel(s.o.Down), newStore(room, s.modelPrefix(), &storedPool{why: s.why})
	}
	for n := range s.o.Lanes {
		var pool *lanePool
		if s.pools != nil {
			pool = &s.pools.lanes[n]
		}
		s.lanes = append(s.lanes, newLane(n, s.o, &s.ledgers[n], pool))
	}
	return nil
}

// release gives all shared memory up that is not lent.
func (s *server) release() error {
	s.store.close()
	if s.pools == nil {
		return nil
	}
	return s.pools.close()
}

// storeRoom returns how many bytes of tensors may be put, apart from the model.
func storeRoom(o driver.Options) int { return max(64<<20, o.Down.Size()) }

// connKey is the key of a request's connection in its context.
type connKey struct{}

// modelPrefix is what the ids of all models of the session start with, the future
// ones included.
func (s *server) modelPrefix() string { return "model-" + s.nonce + "-" }

func (s *server) Addr() string { return s.addr }

func (s *server) Reserve() (*tensor.Package, error) {
	p, err := s.models.Reserve()
	if err != nil {
		return nil, fmt.Errorf("%s: reserve: %w", s.name, err)
	}
	p.Receipt = nil
	return p, nil
}

func (s *server) Publish(ctx context.Context, p *tensor.Package) error {
	if p == nil || p.Layout() != s.o.Down {
		return fmt.Errorf("%s: publish: no package of the model's layout", s.name)
	}
	if len(p.Receipt) > maxReceipt {
		return fmt.Errorf("%s: publish: receipt of %d bytes, want %d at most", s.name, len(p.Receipt), maxReceipt)
	}
	s.seq++
	s.receipt = append(s.receipt[:0], p.Receipt...)
	if err := s.models.Publish(p); err != nil {
		return fmt.Errorf("%s: publish: %w", s.name, err)
	}
	// What lay in the model before is written to after the next Reserve, at the
	// earliest: by then it has retired.
	m := &modelSet{name: s.modelPrefix() + strconv.Itoa(s.seq), p: p, table: s.tables.down}
	if s.pools != nil {
		m.pool, m.runs = s.pools.models.ref, s.pools.models.runs()
	}
	s.store.publish(m)
	return nil
}

func (s *server) Dispatch(ctx context.Context, n int, j driver.Job) error {
	m, err := s.store.current()
	if err == nil && len(j.Config) > maxReceipt {
		err = fmt.Errorf("configuration of %d bytes, want %d at most", len(j.Config), maxReceipt)
	}
	if err == nil {
		err = s.lanes[n].dispatch(ctx, j, jobAnswer{
			Round: j.Round, Client: j.Client, Weight: j.Weight, Device: j.Device, Config: j.Config, Timed: j.Timed,
			Model: m.name, Receipt: s.receipt, Pool: m.pool, Runs: m.runs, Fallback: s.why,
		})
	}
	if err != nil {
		return fmt.Errorf("%s: dispatch to lane %d: %w", s.name, n, err)
	}
	return nil
}

func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, error) {
	p, err := s.lanes[n].mail.Collect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: collect from lane %d: %w", s.name, n, err)
	}
	return p, nil
}

// Settle implements driver.Settler.
func (s *server) Settle(ctx context.Context) error {
	for i, l := range s.lanes {
		if err := l.mail.Settle(ctx); err != nil {
			return fmt.Errorf("%s: settle: lane %d: %w", s.name, i, err)
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
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
		err = errors.Join(err, s.http.Close(), s.withdraw()) // wakes handlers that read or write
		s.serving.Wait()
		s.handlers.Wait()
		err = errors.Join(err, s.release())
		out := 0
		for i := range s.ledgers {
			out += s.ledgers[i].Out()
		}
		if out > 0 {
			err = errors.Join(err, fmt.Errorf("%d updates are still out", out))
		}
		if err != nil {
			err = fmt.Errorf("%s: shutdown: %w", s.name, err)
		}
	})
	return err
}
