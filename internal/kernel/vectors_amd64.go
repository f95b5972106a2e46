package kernel

import "golang.org/x/sys/cpu"

var vectors = cpu.X86.HasAVX2 && cpu.X86.HasF16C

var (
	loops32   = loops[float32, float32]{firstF32, nextF32, differencesF32, nil, nil}
	loops64   = loops[float64, float64]{firstF64, nextF64, differencesF64, nil, nil}
	loopsF16  = loops[float32, uint16]{firstF16, nextF16, differencesF16, finishF16, addedF16}
	loopsBF16 = loops[float32, uint16]{firstBF16, nextBF16, differencesBF16, finishBF16, addedBF16}
	loopsI8   = loops[float32, int8]{firstI8, nextI8, differencesI8, finishI8, addedI8}
	loopsI16  = loops[float32, int16]{firstI16, nextI16, differencesI16, finishI16, addedI16}
	loopsU8   = loops[float32, uint8]{firstU8, nextU8, differencesU8, finishU8, addedU8}
	loopsI32  = loops[float64, int32]{firstI32, nextI32, differencesI32, finishI32, addedI32}
	loopsI64  = loops[float64, int64]{firstI64, nextI64, differencesI64, finishI64, addedI64}
	loopsBool = loops[float64, uint8]{firstBool, nextBool, differencesBool, finishBool, addedBool}
)
