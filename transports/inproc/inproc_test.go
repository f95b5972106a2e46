package inproc_test

import (
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

func open(t *testing.T) *drivertest.Session {
	t.Helper()
	s := drivertest.Open(t, transports.Variant{Subject: inproc.New()}, drivertest.Vectors(t, tensor.F32, 100_000, 100), 1)
	s.Publish(1)
	return s
}

// TestDialRefuses: a lane accepts one worker, and only through its server's transport.
func TestDialRefuses(t *testing.T) {
	s := open(t)
	other := transports.Variant{Subject: inproc.New()}
	for want, v := range map[string]transports.Variant{
		"inproc: lane 0: dial: the lane has a worker": s.Variant, "goroutines of the server's process": other,
	} {
		check.Fails(t, check.Err(drivertest.Dial(t.Context(), v, s.At(0), 0, s.Options)), want)
	}
}

// TestWorkerLeaves: if a worker leaves during a job, Collect and Dispatch say so.
func TestWorkerLeaves(t *testing.T) {
	s := open(t)
	check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
	check.Must(t, s.Workers[0].Close())
	check.Fails(t, check.Err(s.Server.Collect(t.Context(), 0)), "has left", "collect")
	check.Fails(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}), "has left", "dispatch")
	check.OK(t, s.Server.Shutdown(t.Context()))
}

func TestSteadyRoundAllocatesNothing(t *testing.T) {
	s := open(t)
	n := testing.AllocsPerRun(100, func() {
		model := check.Value(s.Server.Reserve(0))(t)
		model.Receipt = append(model.Receipt[:0], "receipt"...)
		check.Must(t, check.Err(s.Server.Publish(t.Context(), 0, model)))
		check.Must(t, s.Together(driver.Job{Client: 1, Device: "cpu"}))
	})
	check.Equal(t, n, 0, "allocations of a steady round")
}
