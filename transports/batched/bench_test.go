package batched

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// These benchmarks move a model down and an update up, with both ends in this process and
// no training. They compare ways of using gRPC; ipcbench run measures a round's cost.

// BenchmarkExchange compares the three transports, with ipcbench's own encoding and with
// generated code.
func BenchmarkExchange(b *testing.B) {
	m := check.Value(models.Parse("histology"))(b)
	for _, name := range []string{"grpc-tensor", "grpc-tensor:marshal=generated", "grpc-batch", "grpc-batch:marshal=generated",
		"grpc-stream", "grpc-stream:marshal=generated", "grpc-stream:network=tcp"} {
		b.Run(name, func(b *testing.B) { exchange(b, name, m.Layout) })
	}
}

// exchange benchmarks jobs of a transport whose model and update have layout l.
func exchange(b *testing.B, name string, l *tensor.Layout) {
	r := drivertest.Listen(b, variant(b, name), driver.Options{Down: l, Up: l, Clients: 1, Depth: 1})
	w := r.Dial(0)
	r.Publish(1)
	served := make(chan error, 1)
	go func() {
		nothing := func(driver.Job, *tensor.Package, *tensor.Package) error { return nil }
		served <- drivertest.Serve(context.Background(), w.Worker, nothing)
	}()
	turn := func() {
		check.Must(b, r.Server.Dispatch(b.Context(), 0, driver.Job{}))
		p := check.Value(r.Server.Collect(b.Context(), 0))(b)
		p.Release()
	}
	turn()
	turn() // now every buffer has been used
	b.SetBytes(int64(2 * l.Payload()))
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		turn()
	}
	b.StopTimer()
	b.ReportMetric((processorTime(b)-before)/float64(b.N), "cpu-ns/op")
	check.Must(b, errors.Join(r.Server.Shutdown(context.Background()), <-served))
}

// processorTime returns the CPU time of this process in ns. It varies less than elapsed
// time on a busy machine.
func processorTime(b *testing.B) float64 {
	var u unix.Rusage
	check.Must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano() + u.Stime.Nano())
}
