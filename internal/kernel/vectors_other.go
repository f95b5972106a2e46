//go:build !amd64

package kernel

// Without loops in assembly, only twins run.
const vectors = false

var (
	loops32   loops[float32, float32]
	loops64   loops[float64, float64]
	loopsF16  loops[float32, uint16]
	loopsBF16 loops[float32, uint16]
	loopsI8   loops[float32, int8]
	loopsI16  loops[float32, int16]
	loopsU8   loops[float32, uint8]
	loopsI32  loops[float64, int32]
	loopsI64  loops[float64, int64]
	loopsBool loops[float64, uint8]
)

func maskLoop(*uint64, *uint64, int, uint64, uint64)        { panic("no loop") }
func fillLoop(*uint64, int, uint64, uint64, uint64)         { panic("no loop") }
func maskedLoop(*uint64, *uint64, int, uint64, uint64) bool { panic("no loop") }
func filledLoop(*uint64, int, uint64, uint64, uint64) bool  { panic("no loop") }
func digestLoop(*uint64, int, uint64) uint64                { panic("no loop") }
