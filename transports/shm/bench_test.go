package shm

import (
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// What a job and an update cost without training: with both ends on one
// goroutine, where nobody ever waits, and with the worker in another process.
func BenchmarkHandOff(b *testing.B) {
	one := check.Value(tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{10}}}))(b)
	for _, name := range variants {
		v, o := parse(b, name)
		o.Down, o.Up = one, one
		s, _ := listening(b, v, o)
		w := dialled(b, s)
		b.Run("transport="+name+"/ends=together", func(b *testing.B) {
			for b.Loop() {
				check.Must(b, exchange(s, w, driver.Job{Device: "cpu"}))
			}
		})
		v, o = parse(b, name)
		s, _ = listening(b, v, o)
		s.play("echo")
		b.Run("transport="+name+"/ends=apart", func(b *testing.B) {
			for b.Loop() {
				check.Must(b, s.Server.Dispatch(b.Context(), 0, driver.Job{Device: "cpu"}))
				p := check.Value(s.Server.Collect(b.Context(), 0))(b)
				p.Release()
			}
		})
	}
}
