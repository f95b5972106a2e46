package inproc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/mailbox"
	"ipcbench/transports/internal/slab"
)

var errLeft = errors.New("the lane's worker has left")

type server struct {
	o      driver.Options
	addr   string
	forget func() // takes the server out of the transport's map
	models *slab.Models
	lanes  []*lane
	ledger tensor.Ledger
	attest attest
	closed atomic.Bool

	receipt []byte // of the published model; written by Publish, when no job is out
}

func newServer(o driver.Options) (*server, error) {
	size, err := sizes(o)
	if err != nil {
		return nil, err
	}
	s := &server{o: o, attest: newAttest(o.Rec)}
	mem, err := slab.Anonymous(size.models)
	if err != nil {
		return nil, err
	}
	if s.models, err = slab.NewModels(mem, o.Down); err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	for n := range o.Lanes {
		mem, err := slab.Anonymous(size.updates)
		if err != nil {
			return nil, errors.Join(err, s.release())
		}
		u, err := slab.NewUpdates(mem, o.Up, &s.ledger)
		if err != nil {
			return nil, errors.Join(err, mem.Close(), s.release())
		}
		s.lanes = append(s.lanes, &lane{n: n, mail: mailbox.NewLane(), updates: u})
	}
	return s, nil
}

func (s *server) Addr() string { return s.addr }

func (s *server) Reserve() (*tensor.Package, error) {
	p, err := s.models.Reserve()
	if err != nil {
		return nil, fmt.Errorf("inproc: reserve: %w", err)
	}
	return p, nil
}

func (s *server) Publish(ctx context.Context, p *tensor.Package) error {
	if p == nil {
		return errors.New("inproc: publish: no model")
	}
	s.receipt = append(s.receipt[:0], p.Receipt...)
	if err := s.models.Publish(p); err != nil {
		return fmt.Errorf("inproc: publish: %w", err)
	}
	return nil
}

func (s *server) Dispatch(ctx context.Context, n int, j driver.Job) error {
	l := s.lanes[n]
	if err := s.dispatch(ctx, l, j); err != nil {
		return fmt.Errorf("inproc: lane %d: dispatch: %w", n, err)
	}
	return nil
}

func (s *server) dispatch(ctx context.Context, l *lane, j driver.Job) error {
	switch {
	case s.closed.Load():
		return errors.New("the server is shut down")
	case l.left.Load():
		return errLeft
	}
	model, _, err := s.models.Current()
	if err != nil {
		return err
	}
	update, _, err := l.updates.Reserve()
	if err != nil {
		return err
	}
	l.model, l.modelReceipt, l.update = model, s.receipt, update
	s.attest.count(s.o.Down)
	return l.mail.Dispatch(ctx, j)
}

func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, error) {
	l := s.lanes[n]
	p, err := l.mail.Collect(ctx)
	if err != nil && l.left.Load() {
		err = errLeft
	}
	if err != nil {
		return nil, fmt.Errorf("inproc: lane %d: collect: %w", n, err)
	}
	return p, nil
}

func (s *server) Shutdown(ctx context.Context) error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.forget()
	for _, l := range s.lanes {
		l.mail.Close()
	}
	err := s.release()
	if out := s.ledger.Out(); out > 0 {
		err = errors.Join(err, fmt.Errorf("%d updates are still out", out))
	}
	if err != nil {
		return fmt.Errorf("inproc: shutdown: %w", err)
	}
	return nil
}

// release gives all memory up. What is lent lives until it is released.
func (s *server) release() error {
	err := s.models.Close()
	for _, l := range s.lanes {
		err = errors.Join(err, l.updates.Close())
	}
	return err
}
