package batched

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/tap"

	"ipcbench/phase"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/mailbox"
)

// Limits of a connection, which all lanes may share. Each worker makes one request at a
// time; the spare streams are for requests of broken calls.
const (
	spareStreams  = 8
	maxHeaderList = 16 << 10 // bytes
)

// parkFor limits the wait for a task. A worker without a task after it asks again.
const parkFor = time.Hour

// A server is the aggregator. Its handlers are in serve.go.
type server struct {
	cfg      config
	e        *endpoint.Endpoint
	o        driver.Options
	header   *pb.MessageHeader // expected in every request; its sender is empty
	down, up *catalog
	models   *driver.HeapPair
	takes    atomic.Uint32 // a takes, for results
	lanes    []*lane
	frames   framePool
	slots    *slots
	served   methods
	copied   *phase.Counter
	grpc     *grpc.Server
	listener *endpoint.Listener
	serving  chan error    // the result of Serve
	changed  chan struct{} // signals Shutdown that a worker may have left
}

func newServer(cfg config, e *endpoint.Endpoint, o driver.Options) *server {
	s := &server{
		cfg: cfg, e: e, o: o,
		header:  &pb.MessageHeader{Receiver: aggregator, FederationId: e.Name()},
		down:    newCatalog(o.Down, modelTag),
		up:      newCatalog(o.Up, updateTag),
		models:  driver.NewPair(o),
		slots:   newSlots(cfg.threads, cfg.hold, o.Lanes, o.Rec),
		served:  newMethods(o.Rec, phase.Served),
		copied:  o.Rec.Counter(phase.Copied),
		serving: make(chan error, 1),
		changed: make(chan struct{}, 1),
	}
	for i := range o.Lanes {
		s.lanes = append(s.lanes, &lane{
			index: i,
			s:     s,
			reply: &pb.MessageHeader{Sender: aggregator, Receiver: endpoint.LaneName(i), FederationId: s.header.FederationId},
			mail:  mailbox.NewLane[task](),
			bank:  driver.NewBank(o),
		})
	}
	return s
}

func (s *server) listen(ctx context.Context) (*endpoint.Listener, error) {
	accepted := s.o.Rec.Counter(phase.Accepted)
	return s.e.Listen(ctx, s.cfg.network, s.o.Session(), endpoint.Protocol{
		Name: "h2",
		Wrap: func(c *endpoint.Conn) net.Conn {
			accepted.Add(1)
			return &conn{Conn: c}
		},
	})
}

// start starts to serve the connections that l accepts.
func (s *server) start(l *endpoint.Listener) {
	s.listener = l
	s.grpc = grpc.NewServer(append(s.cfg.serverBuffers(&s.frames),
		grpc.Creds(secured{insecure.NewCredentials()}),
		grpc.ForceServerCodecV2(newCodec(s.down.requestLimit())),
		grpc.MaxConcurrentStreams(uint32(s.o.Lanes+spareStreams)),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.MaxRecvMsgSize(min(s.cfg.chunk+chunkRoom(s.cfg.chunk)+maxReceipt, maxMessage)),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.WaitForHandlers(true), // handlers use memory of the server
		grpc.InTapHandle(s.tap),
	)...)
	s.grpc.RegisterService(&service, s)
	go func() {
		err := s.grpc.Serve(l)
		if errors.Is(err, grpc.ErrServerStopped) {
			err = nil // Shutdown came before Serve
		}
		s.serving <- err
	}()
}

// tap is called for every request before any of its message is read, because a message
// may be large. It refuses requests without the right secret.
func (s *server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	shown := info.Header.Get(secretKey)
	c := connOf(ctx)
	if len(shown) != 1 || !s.e.Authorizes(shown[0]) {
		err := refuse(noSecret, "metadata %s must be \"Bearer \" and the session's secret", secretKey)
		if c != nil {
			c.Refused(err)
		}
		return nil, err
	}
	if c != nil {
		c.Admit()
	}
	return s.bound(ctx, c, info.FullMethodName), nil
}

// bound limits every request to the server's deadline, if it has one. A client that has not read its
// response by then loses its connection, which frees the response.
func (s *server) bound(ctx context.Context, c *conn, method string) context.Context {
	limit := s.cfg.deadline
	if method == pb.Federation_GetTasks_FullMethodName {
		limit = parkFor
	}
	if d, ok := ctx.Deadline(); limit == 0 || ok && time.Until(d) <= limit {
		return ctx // the case for this package's workers
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	context.AfterFunc(ctx, func() { // gRPC ends ctx with the request, so this always runs
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && c != nil {
			c.Close()
		}
		cancel()
	})
	return ctx
}

// Reserve implements driver.Server.
func (s *server) Reserve() (*tensor.Package, error) { return s.models.Reserve() }

// Publish implements driver.Server. It encodes nothing: messages are encoded for each
// client's fetch.
func (s *server) Publish(_ context.Context, p *tensor.Package) error {
	if p.Coding != nil {
		s.takes.Store(uint32(encoded))
	}
	s.models.Publish()
	return nil
}

// Dispatch implements driver.Server. It also borrows memory for the job's update from
// the lane's bank, and fails if none is free.
func (s *server) Dispatch(_ context.Context, n int, model *tensor.Package, j driver.Job) error {
	l := s.lanes[n]
	update, err := l.bank.Lend()
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.update = update
	l.mu.Unlock()
	l.tasks++
	return l.mail.Dispatch(task{Job: j, id: l.tasks, model: model, beside: s.models.Published(model).Beside})
}

// Collect implements driver.Server.
func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	p, d, err := s.lanes[n].mail.Collect(ctx)
	return p, d, s.explain(n, err)
}

// explain adds to err, the error of a wait for lane n, why the lane may have no worker.
func (s *server) explain(n int, err error) error {
	if err == nil || s.lanes[n].present() {
		return err
	}
	return s.listener.Explain(err)
}

// Settle implements driver.Server.
func (s *server) Settle(ctx context.Context) error {
	for i, l := range s.lanes {
		if err := s.explain(i, l.mail.Settle(ctx)); err != nil {
			return fmt.Errorf("lane %d: %w", i, err)
		}
	}
	return nil
}

// Shutdown implements driver.Server.
func (s *server) Shutdown(ctx context.Context) error {
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
	s.listener.Dismiss()                        // GracefulStop would wait for clients that have sent nothing yet
	stop := context.AfterFunc(ctx, s.grpc.Stop) // makes GracefulStop return
	s.grpc.GracefulStop()
	stop()
	return errors.Join(errs, <-s.serving)
}

// present returns the number of workers that have joined and not left.
func (s *server) present() int {
	n := 0
	for _, l := range s.lanes {
		if l.present() {
			n++
		}
	}
	return n
}

// notify makes Shutdown check again which workers are present.
func (s *server) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
