package batched

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"

	"ipcbench/phase"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/door"
	"ipcbench/transports/internal/lend"
	"ipcbench/transports/internal/mailbox"
)

// What a connection may ask for: workers make one request at a time, also if all
// lanes share a connection; the others are those that a broken call leaves behind.
const (
	spareStreams  = 8
	maxHeaderList = 16 << 10
)

// parkFor is how long a request for a task may wait. A worker that nobody needed
// for so long asks again.
const parkFor = time.Hour

// A server is the aggregator. Its handlers are in serve.go.
type server struct {
	name       string // of the transport
	cfg        config
	o          driver.Options
	addr       address
	federation string
	down, up   *catalog
	model      *lend.Model
	current    atomic.Pointer[edition]
	lanes      []*lane
	ledger     tensor.Ledger // updates that Collect returned
	frames     framePool
	slots      slots
	served     methods
	bodies     bodies
	grpc       *grpc.Server
	listener   *door.Listener
	withdraw   func() error // removes the file that holds the address
	serving    chan error   // what Serve returned
	changed    chan struct{}
	closeOnce  sync.Once
}

// An edition is what a task says of the model that was published last. It never
// changes: the handler of a request that was given up may still read an old one.
type edition struct {
	version uint64 // publishes so far
	receipt []byte // a copy: the package's own is the caller's
}

// A lane is the server's end of one worker.
type lane struct {
	index int
	s     *server
	reply *pb.MessageHeader // of every response to this worker
	mail  *mailbox.Lane
	bank  *lend.Bank

	mu        sync.Mutex
	task      uint64          // guarded by mu: id of the job that was dispatched last
	update    *tensor.Package // guarded by mu: where its results go; nil once they are here
	uploading bool            // guarded by mu: a handler writes to update
	closed    bool            // guarded by mu
	joined    bool            // guarded by mu: the worker is there
	left      bool            // guarded by mu: and has gone, or was told to
	conns     int             // guarded by mu
}

func socketAddress(cfg config, o driver.Options) address {
	if cfg.network == "tcp" {
		return address{network: "tcp", at: "127.0.0.1:0"}
	}
	return address{network: "unix", at: filepath.Join(o.Dir, "grpc.sock")}
}

// newFederation returns a new id, which nobody can guess.
func newFederation() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

func newServer(name string, cfg config, o driver.Options, federation string) (*server, error) {
	s := &server{
		name: name, cfg: cfg, o: o, federation: federation,
		addr:    socketAddress(cfg, o),
		down:    newCatalog(o.Down, modelTag),
		up:      newCatalog(o.Up, updateTag),
		model:   lend.NewModel(o.Down),
		slots:   newSlots(cfg.threads),
		served:  newMethods(o.Rec, phase.Served),
		bodies:  newBodies(o.Rec),
		serving: make(chan error, 1),
		changed: make(chan struct{}, 1),
	}
	s.current.Store(&edition{})
	s.addr.federation = s.federation
	for i := range o.Lanes {
		s.lanes = append(s.lanes, &lane{
			index: i,
			s:     s,
			reply: &pb.MessageHeader{Sender: aggregator, Receiver: laneName(i), FederationId: s.federation},
			mail:  mailbox.NewLane(),
			bank:  lend.NewBank(fmt.Sprintf("updates of lane %d", i), o.Up, o.Depth, &s.ledger),
		})
	}
	l, err := listenAt(s.addr, o.Lanes, o.Rec)
	if err != nil {
		return nil, err
	}
	if s.addr.network == "tcp" {
		s.addr.at = l.Addr().String()
	}
	if s.withdraw, err = door.Announce(o.Dir, addressFile, s.Addr()); err != nil {
		l.Close()
		return nil, err
	}
	s.start(l)
	return s, nil
}

// start serves what comes in through l.
func (s *server) start(l *door.Listener) {
	s.listener = l
	s.grpc = grpc.NewServer(append(s.cfg.serverBuffers(&s.frames),
		grpc.ForceServerCodecV2(newCodec(s.down.requestLimit())),
		grpc.MaxConcurrentStreams(uint32(s.o.Lanes+spareStreams)),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.MaxRecvMsgSize(min(s.cfg.chunk+chunkRoom(s.cfg.chunk)+maxReceipt, maxMessage)),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.WaitForHandlers(true), // they hold memory of ours
		grpc.InTapHandle(s.tap),
	)...)
	s.grpc.RegisterService(&service, s)
	go func() {
		err := s.grpc.Serve(l)
		if errors.Is(err, grpc.ErrServerStopped) {
			err = nil // Shutdown was faster
		}
		s.serving <- err
	}()
}

// tap sees every request before a byte of its message is taken, and refuses those
// of whoever does not know the federation: a message may be large.
func (s *server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	ids := info.Header.Get(federationKey)
	if len(ids) != 1 || subtle.ConstantTimeCompare([]byte(ids[0]), []byte(s.federation)) == 0 {
		return nil, refuse(wrongFederation, "metadata %s does not name this federation", federationKey)
	}
	c := connOf(ctx)
	if c != nil {
		c.Admit()
	}
	return s.bound(ctx, c, info.FullMethodName), nil
}

// bound gives every request a deadline, whatever its client says. One that does
// not read its response in time loses its connection, and with it all that the
// response holds.
func (s *server) bound(ctx context.Context, c *conn, method string) context.Context {
	limit := s.cfg.deadline
	if method == pb.Federation_GetTasks_FullMethodName {
		limit = parkFor
	}
	if d, ok := ctx.Deadline(); ok && time.Until(d) <= limit {
		return ctx // as those of our workers
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	context.AfterFunc(ctx, func() { // runs at the latest when the request has ended
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && c != nil {
			c.Close()
		}
		cancel()
	})
	return ctx
}

// Addr implements driver.Server.
func (s *server) Addr() string { return s.addr.String() }

// Reserve implements driver.Server.
func (s *server) Reserve() (*tensor.Package, error) {
	p, err := s.model.Reserve()
	return p, s.wrap("reserve", err)
}

// Publish implements driver.Server. Nothing is encoded here: every client
// fetches for itself.
func (s *server) Publish(_ context.Context, p *tensor.Package) error {
	if err := s.model.Publish(p); err != nil {
		return s.wrap("publish", err)
	}
	s.current.Store(&edition{s.current.Load().version + 1, bytes.Clone(p.Receipt)})
	return nil
}

// wrap and wrapLane say in which transport, and on which lane, act failed.
func (s *server) wrap(act string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", s.name, act, err)
	}
	return err
}

func (s *server) wrapLane(n int, act string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: lane %d: %s: %w", s.name, n, act, err)
	}
	return err
}

// lane returns lane n.
func (s *server) lane(n int) (*lane, error) {
	if n < 0 || n >= len(s.lanes) {
		return nil, fmt.Errorf("no such lane: the session has %d", len(s.lanes))
	}
	return s.lanes[n], nil
}

// Dispatch implements driver.Server.
func (s *server) Dispatch(ctx context.Context, n int, j driver.Job) error {
	l, err := s.lane(n)
	if err == nil {
		_, err = s.model.Current()
	}
	if err == nil {
		err = l.dispatch(ctx, j)
	}
	return s.wrapLane(n, "dispatch", err)
}

// Collect implements driver.Server.
func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, error) {
	l, err := s.lane(n)
	if err != nil {
		return nil, s.wrapLane(n, "collect", err)
	}
	p, err := l.mail.Collect(ctx)
	return p, s.wrapLane(n, "collect", err)
}

// Settle implements driver.Settler.
func (s *server) Settle(ctx context.Context) error {
	for i, l := range s.lanes {
		if err := l.mail.Settle(ctx); err != nil {
			return s.wrapLane(i, "settle", err)
		}
	}
	return nil
}

// Shutdown implements driver.Server.
func (s *server) Shutdown(ctx context.Context) error {
	var err error
	s.closeOnce.Do(func() { err = s.shutdown(ctx) })
	return s.wrap("shutdown", err)
}

func (s *server) shutdown(ctx context.Context) error {
	for _, l := range s.lanes {
		l.close()
	}
	var errs error
	for waiting := s.present(); waiting > 0; waiting = s.present() {
		select {
		case <-s.changed:
			continue
		case <-ctx.Done():
			errs = fmt.Errorf("%d workers have not left: %w", waiting, context.Cause(ctx))
		}
		break
	}
	s.listener.Dismiss()                        // gRPC's own stop waits for whoever has not said a word yet
	stop := context.AfterFunc(ctx, s.grpc.Stop) // which makes GracefulStop return
	s.grpc.GracefulStop()
	stop()
	if err := <-s.serving; err != nil {
		errs = errors.Join(errs, err)
	}
	errs = errors.Join(errs, s.withdraw())
	if n := s.ledger.Out(); n > 0 {
		errs = errors.Join(errs, fmt.Errorf("%d updates are still out", n))
	}
	return errs
}

// present returns how many workers are there that do not know of the end.
func (s *server) present() int {
	n := 0
	for _, l := range s.lanes {
		if l.present() {
			n++
		}
	}
	return n
}

// notify makes Shutdown look again.
func (s *server) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// dispatch reserves the memory of the job's update and puts the job in.
func (l *lane) dispatch(ctx context.Context, j driver.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.New("the session is over")
	}
	if l.update == nil { // else the job before has failed, or is still out
		p, err := l.bank.Lend()
		if err != nil {
			return fmt.Errorf("client %d: %w", j.Client, err)
		}
		l.update = p
	}
	if err := l.mail.Dispatch(ctx, j); err != nil {
		return err
	}
	l.task++ // nobody sees the job before its id: id waits for mu
	return nil
}

// id returns the id of the job that was dispatched last.
func (l *lane) id() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.task
}

// begin gives the memory of the update to a handler, and end takes it back.
// There is one at a time: a worker that comes back while the handler of its
// broken connection is still there has to wait.
func (l *lane) begin() (*tensor.Package, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, refuse(closing, "the session is over")
	case l.uploading:
		return nil, refuse(busy, "results of %s are coming in already", l.reply.Receiver)
	case l.update == nil:
		return nil, refuse(duplicateResults, "the results are here")
	}
	l.uploading = true
	return l.update, nil
}

// end delivers the update if whole, and otherwise keeps it for the next attempt.
func (l *lane) end(whole bool) error {
	l.mu.Lock()
	p, keep := l.update, !whole && !l.closed
	l.uploading = false
	if !keep {
		l.update = nil
	}
	l.mu.Unlock()
	switch {
	case whole:
		return l.mail.Deliver(mailbox.Update{Package: p}) // which releases what nobody waits for
	case !keep:
		p.Release()
	}
	return nil
}

// close ends the lane: nothing is given or taken any more.
func (l *lane) close() {
	l.mail.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && !l.uploading && l.update != nil {
		l.update.Release()
		l.update = nil
	}
	l.closed = true
}

// connected counts the lane's connections. A worker that keeps its connection
// and has none is gone.
func (l *lane) connected(n int) {
	l.mu.Lock()
	l.conns += n
	l.mu.Unlock()
	l.s.notify()
}

// join and leave say whether the worker is there.
func (l *lane) join() {
	l.mu.Lock()
	l.joined, l.left = true, false
	l.mu.Unlock()
}

func (l *lane) leave() {
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
	l.s.notify()
}

func (l *lane) present() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.joined && !l.left && (l.conns > 0 || l.s.cfg.perCall)
}
