package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/gobs"
	"ipcbench/transports/internal/slab"
)

// With pass=pickle, models are in segments, and updates are serialized through a socket of the
// lane, as BlazeFL did before it had shared memory. A worker gets its end with the welcome. It
// sends an update after its result, so that the server knows when to read.
type (
	picklingServer struct {
		*modelServer
		streams []stream // by lane
	}
	stream struct {
		endpoint.Counted
		from    *gobs.Decoder
		updates *driver.HeapBank
	}
	picklingWorker struct {
		*modelWorker
		stream endpoint.Counted
		to     *gobs.Encoder
		update *tensor.Package
	}
)

func newPicklingServer(models *modelServer) (*picklingServer, error) {
	s := &picklingServer{modelServer: models}
	for _, l := range s.lanes {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return s, fmt.Errorf("socket for updates: %w", err)
		}
		l.stream = os.NewFile(uintptr(fds[1]), "stream of updates")
		s.own(func() error {
			_ = l.stream.Close() // attend has closed it, unless no worker came
			return nil
		})
		c, err := endpoint.FileConn(os.NewFile(uintptr(fds[0]), "stream of updates"), s.o.Rec)
		if err != nil {
			return s, err
		}
		s.own(c.Close)
		s.streams = append(s.streams, stream{c, gobs.NewDecoder(c, s.o.Rec, false), driver.NewBank(s.o)})
	}
	return s, nil
}

func (s *picklingServer) Dispatch(_ context.Context, n int, model *tensor.Package, j driver.Job) error {
	return s.post(n, s.order(model, j, slab.Handle{})) // the update has no memory that the server knows
}

func (s *picklingServer) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	r, err := s.fetch(ctx, n)
	if err != nil {
		return collected(r, nil, err)
	}
	p, err := s.streams[n].updates.Lend()
	if err == nil {
		if err = s.read(ctx, n, p); err != nil {
			p.Release()
		}
	}
	p, delivered, err := collected(r, p, err)
	delivered.Body, delivered.Handle = delivered.Handle, driver.Amount{}
	return p, delivered, err
}

// read reads the update of lane n into p.
func (s *picklingServer) read(ctx context.Context, n int, p *tensor.Package) error {
	var h gobs.Header
	err := endpoint.During(ctx, s.streams[n], func() error { return s.streams[n].from.Decode(s.lanes[n].id, &h, p) })
	if errors.Is(err, io.ErrUnexpectedEOF) { // the end of the link has the reason
		select {
		case <-s.lanes[n].gone:
			return s.lanes[n].explain(errGone)
		case <-ctx.Done():
		}
	}
	return err
}

// newPicklingWorker takes ownership of f, the worker's end of the socket.
func newPicklingWorker(models *modelWorker, f *os.File) (*picklingWorker, error) {
	c, err := endpoint.FileConn(f, models.o.Rec)
	if err != nil {
		return nil, fmt.Errorf("socket for updates: %w", err)
	}
	models.own(c.Close)
	return &picklingWorker{models, c, gobs.NewEncoder(c, models.o.Rec, false), models.o.Alloc(models.o.Up)}, nil
}

func (w *picklingWorker) Reserve() (*tensor.Package, error) { return w.update, nil }

func (w *picklingWorker) Submit(ctx context.Context, p *tensor.Package) error {
	err := w.unmap()
	if err == nil {
		err = w.post(p)
	}
	if err != nil {
		return err
	}
	return endpoint.During(ctx, w.stream, func() error {
		return w.to.Encode(w.order.job.ID(w.n), gobs.Header{}, p)
	})
}
