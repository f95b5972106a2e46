package batched

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// These benchmarks move a model down and an update up, with both ends in this
// process and nobody who trains. They compare ways of using gRPC with each other;
// what a round costs is what ipcbench run says.

func histology(b *testing.B) *tensor.Layout {
	b.Helper()
	m, err := models.Parse("histology")
	check.Must(b, err)
	return m.Layout
}

// BenchmarkExchange is the three transports, as they are and with what generated
// code costs.
func BenchmarkExchange(b *testing.B) {
	for _, name := range []string{"grpc-tensor", "grpc-tensor:marshal=generated", "grpc-batch", "grpc-batch:marshal=generated",
		"grpc-stream", "grpc-stream:marshal=generated", "grpc-stream:network=tcp"} {
		b.Run(name, func(b *testing.B) { exchange(b, name, histology(b), nil) })
	}
}

// BenchmarkEncoded is as many bytes that a codec could have made, of which nobody knows
// before what is said of them: of a model, and of 4,000 small tensors, beside the same
// without a codec.
func BenchmarkEncoded(b *testing.B) {
	var small []tensor.Spec
	for i := range 4000 {
		small = append(small, tensor.Spec{Name: fmt.Sprintf("layer%d.weight", i), DType: tensor.F32, Shape: []int{16, 16}})
	}
	for what, l := range map[string]*tensor.Layout{"histology": histology(b), "small": drivertest.Layout(b, small...)} {
		wire := wireLayout(b, l)
		for _, name := range []string{"grpc-batch", "grpc-stream"} {
			b.Run(what+"/"+name+"/codec=none", func(b *testing.B) { exchange(b, name, l, nil) })
			b.Run(what+"/"+name+"/codec=some", func(b *testing.B) {
				exchange(b, name, wire, func(p *tensor.Package) {
					p.Plain, p.Coding = p, p.Coding[:0]
					for i := range l.Len() {
						p.Coding = append(p.Coding, tensor.Coding{Spec: l.Spec(i), Steps: []string{"sparse", "zstd"}, Lossless: true, Base: 1})
					}
				})
			})
		}
	}
}

// BenchmarkChunk is the curve from which the default chunk was chosen.
func BenchmarkChunk(b *testing.B) {
	for size := 16 << 10; size <= 16<<20; size *= 2 {
		name := tensor.FormatBytes(size)
		b.Run(name, func(b *testing.B) { exchange(b, "grpc-stream:chunk="+name, histology(b), nil) })
	}
}

// exchange moves packages of layout l, which encode has told about, if there is such.
func exchange(b *testing.B, name string, l *tensor.Layout, encode func(*tensor.Package)) {
	r := drivertest.Listen(b, variant(b, name), driver.Options{Down: l, Up: l, Clients: 1, Depth: 1})
	w := r.Dial(0)
	m, err := r.Server.Reserve()
	check.Must(b, err)
	tensor.Fill(m, 1)
	if encode != nil {
		encode(m)
	}
	_, err = r.Server.Publish(b.Context(), m)
	check.Must(b, err)
	served := make(chan error, 1)
	go func() {
		served <- drivertest.Serve(context.Background(), w.Worker, func(_ driver.Job, _, update *tensor.Package) error {
			if encode != nil {
				encode(update)
			}
			return nil
		})
	}()
	turn := func() {
		check.Must(b, r.Server.Dispatch(b.Context(), 0, driver.Job{}))
		p, err := r.Server.Collect(b.Context(), 0)
		check.Must(b, err)
		p.Release()
	}
	turn()
	turn() // every buffer has been used
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

// processorTime returns what this process has used so far, in ns. It is steadier
// than the time that passes when a machine has other things to do.
func processorTime(b *testing.B) float64 {
	var u unix.Rusage
	check.Must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano() + u.Stime.Nano())
}
