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
	"sync"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/internal/lend"
)

type server struct {
	o         transports.Options
	addr      string
	models    *lend.Model
	store     *store
	lanes     []*lane
	tables    tables
	out       tensor.Ledger // updates lent to the caller, or about to be
	nonce     string        // of this session, so that ids of two sessions differ
	count     serverCounters
	endpoints []endpoint

	seq     int    // of the model published last; Publish alone uses it
	receipt []byte // of that model

	http    *http.Server
	serving sync.WaitGroup // the accept loop
	scratch sync.Pool      // of *scratch

	mu       sync.Mutex
	closing  bool           // guarded by mu: no handler starts any more
	handlers sync.WaitGroup // running; added to with mu held
	shutdown sync.Once
}

// tables are the two layouts of a session as they are spelt on the wire.
type tables struct{ down, up table }

func tablesOf(o transports.Options) (t tables, err error) {
	if t.down, err = tableOf(o.Down); err == nil {
		t.up, err = tableOf(o.Up)
	}
	return t, err
}

type serverCounters struct {
	tensors, bytes, copied *phase.Counter
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
}

func newServer(ctx context.Context, o transports.Options, c config) (*server, error) {
	t, err := tablesOf(o)
	if err != nil {
		return nil, err
	}
	var nonce [8]byte
	rand.Read(nonce[:])
	s := &server{
		o: o, models: lend.NewModel(o.Down), store: newStore(storeRoom(o)), tables: t,
		nonce: hex.EncodeToString(nonce[:]),
		count: serverCounters{
			tensors: o.Rec.Counter(phase.BodyTensors), bytes: o.Rec.Counter(phase.BodyBytes),
			copied: o.Rec.Counter(phase.Copied),
		},
		endpoints: endpoints(),
		scratch:   sync.Pool{New: func() any { return &scratch{} }},
	}
	for n := range o.Lanes {
		s.lanes = append(s.lanes, newLane(n, o, &s.out))
	}
	l, addr, err := listen(ctx, c.network, o.Dir)
	if err != nil {
		return nil, err
	}
	s.addr = addr
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: patience, // bodies have deadlines of their own; an idle connection is a worker that trains
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // what goes wrong is answered, or seen by the lane
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	counted := &listener{
		Listener: l, limit: int64(4*o.Lanes + 64),
		sent: o.Rec.Counter(phase.WireSent), received: o.Rec.Counter(phase.WireReceived),
	}
	s.serving.Go(func() { _ = s.http.Serve(counted) }) // returns when Shutdown closes it
	return s, nil
}

// storeRoom returns how many bytes of tensors may be put, apart from the model.
func storeRoom(o transports.Options) int { return max(64<<20, o.Down.Size()) }

// connKey is the key of a request's connection in its context.
type connKey struct{}

func (s *server) Addr() string { return s.addr }

func (s *server) Reserve() (*tensor.Package, error) {
	p, err := s.models.Reserve()
	if err != nil {
		return nil, fmt.Errorf("http: reserve: %w", err)
	}
	p.Receipt = nil
	return p, nil
}

func (s *server) Publish(ctx context.Context, p *tensor.Package) error {
	if p == nil || p.Layout() != s.o.Down {
		return errors.New("http: publish: no package of the model's layout")
	}
	if len(p.Receipt) > maxReceipt {
		return fmt.Errorf("http: publish: receipt of %d bytes, want %d at most", len(p.Receipt), maxReceipt)
	}
	s.seq++
	s.receipt = append(s.receipt[:0], p.Receipt...)
	s.store.publish(&modelSet{
		name: fmt.Sprintf("model-%s-%d", s.nonce, s.seq), p: p, table: s.tables.down,
	})
	if err := s.models.Publish(p); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	return nil
}

func (s *server) Dispatch(ctx context.Context, n int, j transports.Job) error {
	m, err := s.store.current()
	if err == nil && len(j.Config) > maxReceipt {
		err = fmt.Errorf("configuration of %d bytes, want %d at most", len(j.Config), maxReceipt)
	}
	if err == nil {
		err = s.lanes[n].dispatch(ctx, j, jobAnswer{
			Round: j.Round, Client: j.Client, Weight: j.Weight, Device: j.Device, Config: j.Config, Timed: j.Timed,
			Model: m.name, Receipt: s.receipt,
		})
	}
	if err != nil {
		return fmt.Errorf("http: dispatch to lane %d: %w", n, err)
	}
	return nil
}

func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, error) {
	p, err := s.lanes[n].mail.Collect(ctx)
	if err != nil {
		return nil, fmt.Errorf("http: collect from lane %d: %w", n, err)
	}
	return p, nil
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
		err = errors.Join(err, s.http.Close()) // wakes handlers that read or write
		s.serving.Wait()
		s.handlers.Wait()
		if n := s.out.Out(); n > 0 {
			err = errors.Join(err, fmt.Errorf("%d updates are still out", n))
		}
		if err != nil {
			err = fmt.Errorf("http: shutdown: %w", err)
		}
	})
	return err
}
