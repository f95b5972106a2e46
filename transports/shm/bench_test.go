package shm

import (
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// BenchmarkHandOff measures a job and its update without training. With ends=together both
// ends run on one goroutine and never wait; with ends=apart the worker is another process.
func BenchmarkHandOff(b *testing.B) {
	o := options()
	o.Down = drivertest.Vectors(b, tensor.F32, 10)
	o.Up = o.Down
	for _, name := range variants {
		b.Run("transport="+name+"/ends=together", func(b *testing.B) {
			s := open(b, name, o)
			for b.Loop() {
				check.Must(b, s.Together(driver.Job{Device: "cpu"}))
			}
		})
		b.Run("transport="+name+"/ends=apart", func(b *testing.B) {
			s := listen(b, name, options()) // the options of the worker process
			spawn(b, s.Remote())
			for b.Loop() {
				check.Must(b, s.Server.Dispatch(b.Context(), 0, driver.Job{Device: "cpu"}))
				p := check.Value(s.Server.Collect(b.Context(), 0))(b)
				p.Release()
			}
		})
	}
}
