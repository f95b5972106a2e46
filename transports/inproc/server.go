package inproc

import (
	"context"
	"errors"
	"sync/atomic"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/mailbox"
	"ipcbench/transports/internal/slab"
)

// lane is the state that the server and a worker share.
type lane struct {
	mail    *mailbox.Lane[order]
	updates *slab.Updates
	taken   atomic.Bool           // a worker has or had the lane
	left    atomic.Pointer[error] // why the worker closed the lane; nil if it has not, or the session was over
}

type server struct {
	o      driver.Options
	forget func()         // removes the server from the transport's map
	places *slab.Packages // memory of the models
	models *driver.Pair[slab.Handle]
	lanes  []*lane
}

func newServer(o driver.Options) (*server, error) {
	models, updates, err := slab.Sizes(o.Down, o.Up, o.Lanes, o.Depth)
	if err != nil {
		return nil, err
	}
	s := &server{o: o}
	mem, err := slab.Anonymous(models, o.Pages)
	if err != nil {
		return nil, err
	}
	s.places = slab.NewPackages(mem, o.Down)
	s.models = s.places.Pair()
	for range o.Lanes {
		mem, err := slab.Anonymous(updates, o.Pages)
		if err != nil {
			return nil, errors.Join(err, s.release())
		}
		s.lanes = append(s.lanes, newLane(slab.NewUpdates(mem, o.Up, o.Out)))
	}
	return s, nil
}

func (s *server) Reserve() (*tensor.Package, error) { return s.models.Reserve() }

func (s *server) Publish(context.Context, *tensor.Package) error {
	s.models.Publish()
	return nil
}

func (s *server) Dispatch(_ context.Context, n int, model *tensor.Package, j driver.Job) error {
	l := s.lanes[n]
	m := s.models.Published(model)
	t := order{job: j, bare: model == nil, model: m.Memory, beside: m.Beside}
	var err error
	if t.update, err = l.updates.Reserve(); err == nil {
		err = l.mail.Dispatch(t)
	}
	return l.explain(err)
}

func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	l := s.lanes[n]
	p, d, err := l.mail.Collect(ctx)
	return p, d, l.explain(err)
}

// explain returns the reason why the lane's worker has left, if there is one, instead of
// err.
func (l *lane) explain(err error) error {
	if left := l.left.Load(); err != nil && left != nil {
		return *left
	}
	return err
}

// Settle does nothing: a worker has counted a job before it takes the next one.
func (s *server) Settle(context.Context) error { return nil }

func (s *server) Shutdown(context.Context) error {
	s.forget()
	for _, l := range s.lanes {
		l.mail.Close()
	}
	return s.release()
}

// release frees all memory, except that of lent updates, which their release frees.
func (s *server) release() error {
	err := s.places.Close()
	for _, l := range s.lanes {
		err = errors.Join(err, l.updates.Close())
	}
	return err
}
