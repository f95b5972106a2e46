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
)

// A conn is one end of a lane's connection, with its coders.
type conn struct {
	net.Conn
	enc *encoder
	dec *decoder
}

func newConn(c net.Conn, o driver.Options) *conn {
	return &conn{Conn: c, enc: newEncoder(c, o), dec: newDecoder(c, o)}
}

func (c *conn) send(ctx context.Context, id phase.ID, h header, p *tensor.Package) error {
	return driver.During(ctx, c, func() error { return c.enc.encode(id, h, p) })
}

// receive waits for a message. io.EOF means that it is the end of the session.
func (c *conn) receive(ctx context.Context, id phase.ID, h *header, p *tensor.Package) error {
	c.dec.waiting = phase.Now()
	err := driver.During(ctx, c, func() error { return c.dec.decode(id, h, p) })
	if err == nil && h.End {
		err = io.EOF
	}
	return err
}

// A server is what the servers of both transports have in common.
type server struct {
	o       driver.Options
	workers *driver.Lanes
	lanes   []lane
	models  *driver.Pair
}

// A lane is the server's end of one worker's connection.
type lane struct {
	*conn   // nil until the first job
	updates *driver.Bank
	job     driver.Job
	out     bool // the job is, or has failed
}

func listen(ctx context.Context, e *driver.Endpoint, o driver.Options) (*server, error) {
	s := &server{o: o, models: driver.NewPair(o.Down)}
	for range o.Lanes {
		s.lanes = append(s.lanes, lane{updates: driver.NewBank(o.Up, o.Depth, o.Out)})
	}
	var err error
	s.workers, err = e.ListenLanes(ctx, o.Settings.Get("network"), o)
	return s, err
}

func (s *server) Reserve() (*tensor.Package, error) { return s.models.Reserve(), nil }

func (s *server) Publish(context.Context, *tensor.Package) error {
	s.models.Publish()
	return nil
}

// dispatch waits for the worker of lane n, which gets j.
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

// collect lends the update of the job that is out on lane n, which receive reads.
func (s *server) collect(n int, receive func(l *lane, id phase.ID, h *header, p *tensor.Package) error) (*tensor.Package, driver.Delivered, error) {
	l := &s.lanes[n]
	p, err := l.updates.Lend()
	if err != nil {
		return nil, driver.Delivered{}, err
	}
	var h header
	err = receive(l, l.job.ID(n), &h, p)
	if err == nil && (h.Job.Round != l.job.Round || h.Job.Client != l.job.Client) {
		err = fmt.Errorf("this is the update of round %d, client %d", h.Job.Round, h.Job.Client)
	}
	if err != nil {
		p.Release()
		return nil, driver.Delivered{}, err
	}
	l.out = false
	return p, moved(p), nil
}

// Settle does nothing: workers do not ask.
func (s *server) Settle(context.Context) error { return nil }

// Shutdown tells every connected worker that there are no more jobs. One that is in
// the middle of something sees its connection close.
func (s *server) Shutdown(ctx context.Context) error {
	return s.workers.Shutdown(ctx, func(n int, c *driver.Conn) error {
		l := &s.lanes[n]
		switch {
		case l.out:
			return errors.New("a job is out")
		case l.conn == nil:
			l.conn = newConn(c, s.o)
		}
		return l.send(ctx, phase.Whole(-1), header{End: true}, nil)
	})
}

// A worker is what the workers of both transports have in common.
type worker struct {
	o             driver.Options
	lane          int
	conn          *conn
	model, update *tensor.Package
	job           driver.Job // in hand
}

func dial(ctx context.Context, e *driver.Endpoint, n int, o driver.Options) (*worker, error) {
	w := &worker{o: o, lane: n, model: tensor.AllocTouched(o.Down), update: tensor.AllocTouched(o.Up)} // before the server waits for anything: touching memory may take long
	c, err := e.DialLane(ctx, n, o)
	if err != nil {
		return nil, err
	}
	w.conn = newConn(c, o)
	return w, nil
}

// nobody is the ID of a lane's work for a job that is not known yet.
func (w *worker) nobody() phase.ID { return phase.ID{Lane: w.lane, Round: -1, Client: -1} }

// inHand returns the job that h brought, and the model, if it came.
func (w *worker) inHand(h header, err error) (driver.Job, *tensor.Package, driver.Delivered, error) {
	if err != nil {
		return driver.Job{}, nil, driver.Delivered{}, err
	}
	w.job = h.Job
	if h.Bare {
		return h.Job, nil, driver.Delivered{}, nil
	}
	return h.Job, w.model, moved(w.model), nil
}

func (w *worker) Reserve() (*tensor.Package, error) { return w.update, nil }

// submitted is what the message with update p begins with.
func (w *worker) submitted(p *tensor.Package) header {
	return header{Job: driver.Job{Round: w.job.Round, Client: w.job.Client}, Receipt: p.Receipt}
}

// Ping is never called: these transports make no calls.
func (w *worker) Ping(context.Context) error { return nil }

func (w *worker) Close(error) error { return w.conn.Close() }

// moved says that the bytes of all of p were.
func moved(p *tensor.Package) driver.Delivered { return driver.Delivered{Body: driver.All(p)} }
