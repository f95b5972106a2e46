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
	s := drivertest.Open(t, transports.Variant{Transport: inproc.New()}, drivertest.Vectors(t, tensor.F32, 100_000, 100), 1)
	s.Publish(1)
	return s
}

// A lane has one worker, which was dialled through its server's transport.
func TestDialRefuses(t *testing.T) {
	s := open(t)
	other := transports.Variant{Transport: inproc.New()}
	for want, v := range map[string]transports.Variant{
		"inproc: lane 0: dial: the lane has a worker": s.Variant, "goroutines of the server's process": other,
	} {
		_, err := drivertest.Dial(t.Context(), v, s.At(0), 0, s.Options)
		check.Fails(t, err, want)
	}
}

// A worker that leaves is noticed while a job is out.
func TestWorkerLeaves(t *testing.T) {
	s := open(t)
	check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
	check.Must(t, s.Workers[0].Close())
	_, err := s.Server.Collect(t.Context(), 0)
	check.Fails(t, err, "has left", "collect")
	check.Fails(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}), "has left", "dispatch")
	check.OK(t, s.Server.Shutdown(t.Context()))
}

func TestSteadyRoundAllocatesNothing(t *testing.T) {
	s := open(t)
	n := testing.AllocsPerRun(100, func() {
		model, err := s.Server.Reserve()
		check.Must(t, err)
		model.Receipt = append(model.Receipt[:0], "receipt"...)
		_, err = s.Server.Publish(t.Context(), model)
		check.Must(t, err)
		check.Must(t, s.Together(driver.Job{Client: 1, Device: "cpu"}))
	})
	check.Equal(t, n, 0, "allocations of a steady round")
}
