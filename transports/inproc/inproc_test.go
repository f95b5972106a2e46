package inproc_test

import (
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/inproc"
)

func TestMain(m *testing.M) { drivertest.Main(m, inproc.New()) }

func TestConformance(t *testing.T) { drivertest.Run(t, inproc.New) }

func options(t testing.TB) driver.Options {
	t.Helper()
	l, err := tensor.NewLayout([]tensor.Spec{
		{Name: "w", DType: tensor.F32, Shape: []int{1000, 100}},
		{Name: "b", DType: tensor.F32, Shape: []int{100}},
	})
	check.Must(t, err)
	return driver.Options{Down: l, Up: l, Lanes: 1, Clients: 1, Depth: 2, Settings: driver.Settings{}}
}

// open returns a session of one lane, with its worker.
func open(t *testing.T, o driver.Options) (*transports.Server, *transports.Worker) {
	t.Helper()
	v, e := transports.Variant{Transport: inproc.New()}, driver.NewEndpoint("")
	s, err := transports.Listen(t.Context(), v, e, o)
	check.Must(t, err)
	w, err := transports.Dial(t.Context(), v, e, 0, o)
	check.Must(t, err)
	if _, err := transports.Dial(t.Context(), v, e, 0, o); err == nil || !strings.Contains(err.Error(), "inproc: lane 0: dial: the lane has a worker") {
		t.Errorf("a second worker on the lane: got %v", err)
	}
	other := transports.Variant{Transport: inproc.New()}
	if _, err := transports.Dial(t.Context(), other, e, 0, o); err == nil || !strings.Contains(err.Error(), "goroutines of the server's process") {
		t.Errorf("through another value: got %v, want an error that says where workers have to be", err)
	}
	return s, w
}

// A worker that leaves is noticed while a job is out.
func TestWorkerLeaves(t *testing.T) {
	s, w := open(t, options(t))
	model, err := s.Reserve()
	if err == nil {
		_, err = s.Publish(t.Context(), model)
	}
	if err == nil {
		err = s.Dispatch(t.Context(), 0, driver.Job{})
	}
	if err == nil {
		err = w.Close()
	}
	check.Must(t, err)
	if _, err := s.Collect(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "has left") {
		t.Errorf("collect: got %v, want that the worker has left", err)
	}
	check.Fails(t, s.Dispatch(t.Context(), 0, driver.Job{}), "has left", "dispatch")
	check.OK(t, s.Shutdown(t.Context()))
}

func TestSteadyRoundAllocatesNothing(t *testing.T) {
	s, w := open(t, options(t))
	ctx := t.Context()
	round := func() error {
		model, err := s.Reserve()
		if err != nil {
			return err
		}
		model.Receipt = append(model.Receipt[:0], "receipt"...)
		if _, err := s.Publish(ctx, model); err != nil {
			return err
		}
		if err := s.Dispatch(ctx, 0, driver.Job{Client: 1, Device: "cpu"}); err != nil {
			return err
		}
		_, _, err = w.Receive(ctx)
		if err != nil {
			return err
		}
		update, err := w.Reserve()
		if err != nil {
			return err
		}
		update.Receipt = append(update.Receipt[:0], "receipt"...)
		if err := w.Submit(ctx, update); err != nil {
			return err
		}
		p, err := s.Collect(ctx, 0)
		if err != nil {
			return err
		}
		p.Release()
		return nil
	}
	n := testing.AllocsPerRun(100, func() {
		check.Must(t, round())
	})
	check.That(t, n == 0, "a steady round makes %v allocations, want none", n)
	check.OK(t, w.Close())
	check.OK(t, s.Shutdown(t.Context()))
}
