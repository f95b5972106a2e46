package pickle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/gobs"
)

// A conn is one end of a lane's connection, with its coders.
type conn struct {
	net.Conn
	enc *gobs.Encoder
	dec *gobs.Decoder
}

func newConn(c net.Conn, o driver.Options) *conn {
	elems := o.Settings.On("elems")
	return &conn{Conn: c, enc: gobs.NewEncoder(c, o.Rec, elems), dec: gobs.NewDecoder(c, o.Rec, elems)}
}

func (c *conn) send(ctx context.Context, id phase.ID, h gobs.Header, p *tensor.Package) error {
	return endpoint.During(ctx, c, func() error { return c.enc.Encode(id, h, p) })
}

// receive waits for a message. It returns io.EOF when the session has ended.
func (c *conn) receive(ctx context.Context, id phase.ID, h *gobs.Header, p *tensor.Package) error {
	c.dec.Await()
	err := endpoint.During(ctx, c, func() error { return c.dec.Decode(id, h, p) })
	if err == nil && h.End {
		err = io.EOF
	}
	return err
}

// A server is the common part of both transports' servers.
type server struct {
	o       driver.Options
	workers *endpoint.Lanes
	lanes   []lane
	models  *driver.HeapPair
}

// A lane is the server's end of one worker's connection.
type lane struct {
	*conn   // nil until the first job
	updates *driver.HeapBank
	job     driver.Job
	out     bool // the job was dispatched and its update has not been collected
}

func listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (*server, error) {
	s := &server{o: o, models: driver.NewPair(o)}
	for range o.Lanes {
		s.lanes = append(s.lanes, lane{updates: driver.NewBank(o)})
	}
	var err error
	s.workers, err = e.ListenLanes(ctx, o.Settings.Get("network"), o.Session())
	return s, err
}

func (s *server) Reserve() (*tensor.Package, error) { return s.models.Reserve() }

func (s *server) Publish(context.Context, *tensor.Package) error {
	s.models.Publish()
	return nil
}

// dispatch makes j the job of lane n, after waiting for its worker. The caller must send j.
func (s *server) dispatch(ctx context.Context, n int, j driver.Job) (*lane, error) {
	l := &s.lanes[n]
	if l.conn == nil {
		c, err := s.workers.Conn(ctx, n)
		if err != nil {
			return nil, err
		}
		l.conn = newConn(c, s.o)
	}
	l.job, l.out = j, true
	return l, nil
}

// collect lends the update of lane n's current job, which receive must read into p.
func (s *server) collect(n int, receive func(l *lane, id phase.ID, h *gobs.Header, p *tensor.Package) error) (*tensor.Package, driver.Delivered, error) {
	l := &s.lanes[n]
	p, err := l.updates.Lend()
	if err != nil {
		return nil, driver.Delivered{}, err
	}
	var h gobs.Header
	err = receive(l, l.job.ID(n), &h, p)
	if err == nil && (h.Job.Round != l.job.Round || h.Job.Client != l.job.Client) {
		err = fmt.Errorf("received the update of round %d, client %d instead", h.Job.Round, h.Job.Client)
	}
	if err != nil {
		p.Release()
		return nil, driver.Delivered{}, err
	}
	l.out = false
	return p, allMoved(p), nil
}

// Settle does nothing, because workers do not request jobs.
func (s *server) Settle(context.Context) error { return nil }

// Shutdown sends an end message to every connected worker without a job. A worker with a
// job sees its connection close.
func (s *server) Shutdown(ctx context.Context) error {
	return s.workers.Shutdown(ctx, func(n int, c *endpoint.Conn) error {
		l := &s.lanes[n]
		switch {
		case l.out:
			return errors.New("the worker has not finished its job")
		case l.conn == nil:
			l.conn = newConn(c, s.o)
		}
		return l.send(ctx, phase.OfRound(-1), gobs.Header{End: true}, nil)
	})
}

// A worker is the common part of both transports' workers.
type worker struct {
	o             driver.Options
	lane          int
	conn          *conn
	model, update *tensor.Package
	job           driver.Job // the current job
}

func dial(ctx context.Context, e *endpoint.Endpoint, n int, o driver.Options) (*worker, error) {
	w := &worker{o: o, lane: n, model: o.Alloc(o.Down), update: o.Alloc(o.Up)} // before connecting, because touching memory may take long
	c, err := e.DialLane(ctx, n, o.Session())
	if err != nil {
		return nil, err
	}
	w.conn = newConn(c, o)
	return w, nil
}

// unknownJob returns the ID for samples of a job that is not known yet.
func (w *worker) unknownJob() phase.ID { return phase.ID{Lane: w.lane, Round: -1, Client: -1} }

// accepted makes the job in h current and returns the results of Receive.
func (w *worker) accepted(h gobs.Header, err error) (driver.Job, *tensor.Package, driver.Delivered, error) {
	if err != nil {
		return driver.Job{}, nil, driver.Delivered{}, err
	}
	w.job = h.Job
	if h.Bare {
		return h.Job, nil, driver.Delivered{}, nil
	}
	return h.Job, w.model, allMoved(w.model), nil
}

func (w *worker) Reserve() (*tensor.Package, error) { return w.update, nil }

// submitted returns the header of the message with update p.
func (w *worker) submitted(p *tensor.Package) gobs.Header {
	return gobs.Header{Job: driver.Job{Round: w.job.Round, Client: w.job.Client}, Receipt: p.Receipt}
}

// Ping is never called, because these transports make no calls.
func (w *worker) Ping(context.Context) error { return nil }

func (w *worker) Close(error) error { return w.conn.Close() }

// allMoved counts all of p as delivered in bytes.
func allMoved(p *tensor.Package) driver.Delivered { return driver.Delivered{Body: driver.All(p)} }
