package shm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// A store is where the tensors of a session lie, as the server sees it.
type store interface {
	reserve() (*tensor.Package, error)
	publish(p *tensor.Package) error

	// current returns the handle of the published model.
	current() (slab.Handle, error)

	// issue returns the handle of the memory for the update of lane n's next job.
	issue(n int) (slab.Handle, error)

	// lend returns the update of lane n, which the worker says is h.
	lend(ctx context.Context, n int, h slab.Handle) (*tensor.Package, error)

	// welcome returns what the worker of lane n needs to find the tensors.
	welcome(n int) (string, []*os.File)

	// ready is called when that worker has mapped what it needs.
	ready(n int) error

	// passed takes a packet with descriptors that lane n's worker sent.
	passed(n int, packet []byte, files []*os.File) error

	// left is called when lane n's worker is gone.
	left(n int)

	// close gives the memory up, except for updates that are lent.
	close() error
}

type server struct {
	o        driver.Options
	name     string
	hello    hello // what a worker must say
	store    store
	lanes    []*lane
	listener *net.UnixListener
	ledger   *tensor.Ledger

	tensors, bytes *phase.Counter
	sent, received *phase.Counter

	receipt []byte // of the published model; written by Publish, when no job is out

	closed atomic.Bool
	peers  sync.WaitGroup // accept and the connections' goroutines

	mu    sync.Mutex
	conns map[*net.UnixConn]*lane // guarded by mu: open connections; nil until the worker has its lane
}

// lane is the server's end of one lane.
type lane struct {
	n    int
	up   *slab.Memory // the worker's control area
	in   *inbox
	out  *outbox
	left atomic.Bool // the worker was here and is gone
	why  error       // and this is the reason if the server gave it up; set before left is

	mu   sync.Mutex // held by Dispatch and Collect, and to take their memory away
	busy bool       // guarded by mu: a job is out
	id   phase.ID   // guarded by mu: of that job

	taken bool // guarded by the server's mu: a worker has or had this lane
}

func listen(ctx context.Context, name string, o driver.Options, ledger *tensor.Ledger, st store) (*server, error) {
	s := &server{
		o: o, name: name, store: st, ledger: ledger, hello: helloOf(name, 0, o),
		tensors: o.Rec.Counter(phase.HandleTensors), bytes: o.Rec.Counter(phase.HandleBytes),
		sent: o.Rec.Counter(phase.WireSent), received: o.Rec.Counter(phase.WireReceived),
		conns: map[*net.UnixConn]*lane{},
	}
	for n := range o.Lanes {
		l, err := newLane(n, o)
		if err != nil {
			return nil, errors.Join(err, s.release())
		}
		s.lanes = append(s.lanes, l)
	}
	var id [4]byte
	rand.Read(id[:]) // never fails
	addr := &net.UnixAddr{Net: network, Name: filepath.Join(o.Dir, "shm-"+hex.EncodeToString(id[:])+".sock")}
	var err error
	if s.listener, err = net.ListenUnix(network, addr); err != nil {
		return nil, errors.Join(err, s.release())
	}
	if err := os.Chmod(addr.Name, 0o600); err != nil { // besides, the directory is private
		return nil, errors.Join(err, s.listener.Close(), s.release())
	}
	s.peers.Go(s.accept)
	return s, nil
}

func newLane(n int, o driver.Options) (*lane, error) {
	spin := spins(o.Settings)
	down, err := slab.Memfd(fmt.Sprintf("ipcbench-down-%d", n), controlSize(o.Down.Len()), slab.Touched)
	if err != nil {
		return nil, err
	}
	up, err := slab.Memfd(fmt.Sprintf("ipcbench-up-%d", n), controlSize(o.Up.Len()), slab.Touched)
	if err != nil {
		return nil, errors.Join(err, down.Close())
	}
	l := &lane{n: n, up: up}
	err = errors.Join(down.Freeze(), up.Protect())
	if err == nil {
		l.out, err = newOutbox(down, !spin)
	}
	if err == nil {
		l.in, err = newInbox(up, spin)
	}
	if err != nil {
		return nil, errors.Join(err, down.Close(), up.Close())
	}
	return l, nil
}

// accept lets workers in until the listener is closed.
func (s *server) accept() {
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, say: the worker's Dial ends with its context
			timer := time.NewTimer(10 * time.Millisecond)
			<-timer.C
			continue
		}
		s.mu.Lock()
		s.conns[c] = nil
		if s.closed.Load() { // Shutdown may have looked at the connections already
			c.Close()
		}
		s.mu.Unlock()
		s.peers.Go(func() {
			s.serve(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			c.Close()
		})
	}
}

// serve is the life of a worker's connection.
func (s *server) serve(c *net.UnixConn) {
	k := newLink(c, s.o.Rec)
	c.SetDeadline(time.Now().Add(helloTimeout))
	l, err := s.admit(k, c)
	if err != nil {
		k.refuse(err)
		return
	}
	// How long it may take to map its memory is up to whoever called Dial, and with
	// many workers it takes long. It has a lane now, so its end is noticed.
	c.SetDeadline(time.Time{})
	err = s.attend(k, c, l)
	if !parted(err) {
		l.why = err
	}
	l.left.Store(true)
	s.store.left(l.n)
	l.in.abandon()
	k.refuse(err)
}

// attend has a worker join its lane, and takes what it sends until it goes, or
// does what it should not.
func (s *server) attend(k *link, c *net.UnixConn, l *lane) error {
	text, files := s.store.welcome(l.n)
	if err := k.send(append([]byte{welcomed}, text...), append([]*os.File{l.out.mem.File(), l.up.File()}, files...)...); err != nil {
		return err
	}
	_, extra, err := k.receive() // the worker's ready
	if closeAll(extra); err == nil && len(extra) > 0 {
		err = fmt.Errorf("ready with descriptors: %w", errMessage)
	}
	// The worker has its writable mappings. From now on nobody gets another one.
	if err == nil {
		err = l.up.Freeze()
	}
	if err == nil {
		err = s.store.ready(l.n)
	}
	if err == nil {
		err = k.send([]byte(agreed))
	}
	for err == nil {
		var packet []byte
		var files []*os.File
		if packet, files, err = k.receive(); err == nil {
			err = s.store.passed(l.n, packet, files)
		}
	}
	return err
}

// gone adds to err why the lane's worker is gone.
func (l *lane) gone(err error) error {
	if !l.left.Load() {
		return err
	}
	return because(err, l.why)
}

// admit reads a worker's hello and gives it its lane.
func (s *server) admit(k *link, c *net.UnixConn) (*lane, error) {
	b, files, err := k.receive()
	closeAll(files)
	if err != nil {
		return nil, err
	}
	h, err := decodeHello(b)
	if err != nil {
		return nil, err
	}
	if err := h.check(s.hello, len(s.lanes)); err != nil {
		return nil, err
	}
	l := s.lanes[h.lane]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed.Load():
		return nil, errOver
	case l.taken:
		return nil, fmt.Errorf("lane %d has had a worker already", l.n)
	}
	l.taken, s.conns[c] = true, l
	return l, nil
}

// Addr implements [driver.Server].
func (s *server) Addr() string { return s.listener.Addr().String() }

// Reserve implements [driver.Server].
func (s *server) Reserve() (*tensor.Package, error) {
	if s.closed.Load() {
		return nil, s.wrap("reserve", errOver)
	}
	p, err := s.store.reserve()
	return p, s.wrap("reserve", err)
}

// Publish implements [driver.Server].
func (s *server) Publish(ctx context.Context, p *tensor.Package) error {
	if s.closed.Load() {
		return s.wrap("publish", errOver)
	}
	if p == nil {
		return s.wrap("publish", errors.New("no model"))
	}
	s.receipt = append(s.receipt[:0], p.Receipt...)
	return s.wrap("publish", s.store.publish(p))
}

// Dispatch implements [driver.Server].
func (s *server) Dispatch(ctx context.Context, n int, j driver.Job) error {
	l := s.lanes[n]
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := s.dispatch(l, j); err != nil {
		return fmt.Errorf("%s: lane %d: dispatch: %w", s.name, n, l.gone(err))
	}
	return nil
}

func (s *server) dispatch(l *lane, j driver.Job) error {
	switch {
	case s.closed.Load():
		return errOver
	case l.left.Load():
		return errGone
	case l.busy:
		return fmt.Errorf("the update of client %d was not collected", l.id.Client)
	}
	t := task{job: j, receipt: s.receipt}
	var err error
	if t.model, err = s.store.current(); err != nil {
		return err
	}
	if t.update, err = s.store.issue(l.n); err != nil {
		return err
	}
	l.busy, l.id = true, phase.ID{Lane: l.n, Round: j.Round, Client: j.Client}
	size, err := t.put(l.out.message)
	if err != nil {
		return err
	}
	s.tensors.Add(s.o.Down.Len())
	s.bytes.Add(s.o.Down.Payload())
	s.sent.Add(size)
	return l.out.post(size)
}

// Collect implements [driver.Server].
func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, error) {
	l := s.lanes[n]
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := s.collect(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("%s: lane %d: collect: %w", s.name, n, l.gone(err))
	}
	return p, nil
}

func (s *server) collect(ctx context.Context, l *lane) (*tensor.Package, error) {
	switch {
	case s.closed.Load():
		return nil, errOver
	case !l.busy:
		return nil, errors.New("no job is out")
	}
	wait := s.o.Rec.Begin(phase.Wait, l.id)
	b, err := l.in.fetch(ctx)
	wait.End()
	if err != nil {
		return nil, err
	}
	s.received.Add(len(b))
	var r result
	if err := r.parse(b); err != nil {
		return nil, err
	}
	p, err := s.store.lend(ctx, l.n, r.update)
	if err != nil {
		return nil, err
	}
	p.Receipt = append(p.Receipt[:0], r.receipt...)
	l.busy = false
	return p, nil
}

// Shutdown implements [driver.Server].
func (s *server) Shutdown(ctx context.Context) error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	var err error
	for _, l := range s.lanes {
		err = errors.Join(err, l.out.end())
	}
	err = errors.Join(err, s.listener.Close())
	s.mu.Lock()
	for c, l := range s.conns {
		if l == nil { // has not said who it is
			c.Close()
		}
	}
	s.mu.Unlock()

	// Workers leave when they have seen the end. Those that do not in time are
	// left to themselves: they have mappings of their own.
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.peers.Wait()
	}()
	select {
	case <-gone:
	case <-ctx.Done():
		err = errors.Join(err, s.sever(context.Cause(ctx)))
		<-gone
	}
	for _, l := range s.lanes {
		l.in.abandon() // a Collect that is still waiting
	}
	err = errors.Join(err, s.release())
	if out := s.ledger.Out(); out > 0 {
		err = errors.Join(err, fmt.Errorf("%d updates are still out", out))
	}
	return s.wrap("shutdown", err)
}

// sever closes all connections, which ends the goroutines that serve them.
func (s *server) sever(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
	return fmt.Errorf("%d workers have not left: %w", len(s.conns), cause)
}

// release gives up all memory but that of updates that are lent.
func (s *server) release() error {
	var err error
	for _, l := range s.lanes {
		l.mu.Lock() // whoever waited in Collect has returned
		err = errors.Join(err, l.out.mem.Close(), l.up.Close())
		l.mu.Unlock()
	}
	return errors.Join(err, s.store.close())
}

func (s *server) wrap(act string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %s: %w", s.name, act, err)
	}
	return nil
}
