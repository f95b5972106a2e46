package transports

import (
	"context"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// A hooked driver lets a test fail an act before it happens, and see or change the package
// after it. Acts are named as in errors, except that a worker's reserve is "reserve
// update".
type hooked struct {
	driver.Transport
	before func(act string) error
	after  func(act string, lane int, p *tensor.Package, d *driver.Delivered)
}

func (h hooked) fails(act string) error {
	if h.before == nil {
		return nil
	}
	return h.before(act)
}

func (h hooked) done(act string, lane int, p *tensor.Package, d *driver.Delivered, err error) {
	if h.after != nil && err == nil && p != nil {
		h.after(act, lane, p, d)
	}
}

func (h hooked) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
	if err := h.fails("listen"); err != nil {
		return nil, err
	}
	s, err := h.Transport.Listen(ctx, e, o)
	return hookedServer{s, h}, err
}

func (h hooked) Dial(ctx context.Context, e *endpoint.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	if err := h.fails("dial"); err != nil {
		return nil, err
	}
	w, err := h.Transport.Dial(ctx, e, lane, o)
	return hookedWorker{w, h, lane}, err
}

type hookedServer struct {
	driver.Server
	h hooked
}

func (s hookedServer) Reserve() (*tensor.Package, error) {
	if err := s.h.fails("reserve"); err != nil {
		return nil, err
	}
	return s.Server.Reserve()
}

func (s hookedServer) Publish(ctx context.Context, p *tensor.Package) error {
	if err := s.h.fails("publish"); err != nil {
		return err
	}
	s.h.done("publish", -1, p, nil, nil)
	return s.Server.Publish(ctx, p)
}

func (s hookedServer) Dispatch(ctx context.Context, lane int, model *tensor.Package, j driver.Job) error {
	if err := s.h.fails("dispatch"); err != nil {
		return err
	}
	return s.Server.Dispatch(ctx, lane, model, j)
}

func (s hookedServer) Collect(ctx context.Context, lane int) (p *tensor.Package, d driver.Delivered, err error) {
	if err = s.h.fails("collect"); err == nil {
		p, d, err = s.Server.Collect(ctx, lane)
		s.h.done("collect", lane, p, &d, err)
	}
	return p, d, err
}

func (s hookedServer) Settle(ctx context.Context) error {
	if err := s.h.fails("settle"); err != nil {
		return err
	}
	return s.Server.Settle(ctx)
}

func (s hookedServer) Shutdown(ctx context.Context) error {
	if err := s.Server.Shutdown(ctx); err != nil {
		return err
	}
	return s.h.fails("shutdown")
}

type hookedWorker struct {
	driver.Worker
	h    hooked
	lane int
}

func (w hookedWorker) Receive(ctx context.Context) (j driver.Job, p *tensor.Package, d driver.Delivered, err error) {
	if err = w.h.fails("receive"); err == nil {
		j, p, d, err = w.Worker.Receive(ctx)
		w.h.done("receive", w.lane, p, &d, err)
	}
	return j, p, d, err
}

func (w hookedWorker) Reserve() (*tensor.Package, error) {
	if err := w.h.fails("reserve update"); err != nil {
		return nil, err
	}
	return w.Worker.Reserve()
}

func (w hookedWorker) Submit(ctx context.Context, p *tensor.Package) error {
	if err := w.h.fails("submit"); err != nil {
		return err
	}
	return w.Worker.Submit(ctx, p)
}

func (w hookedWorker) Ping(ctx context.Context) error {
	if err := w.h.fails("ping"); err != nil {
		return err
	}
	return w.Worker.Ping(ctx)
}

func (w hookedWorker) Close(cause error) error {
	if err := w.Worker.Close(cause); err != nil {
		return err
	}
	return w.h.fails("close")
}
