package codec

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// The benchmarks pack and unpack a model of 64 MiB of which 2 % of the elements changed, on one core. BenchmarkCopy
// is the baseline. wire-% is the ratio in percent.

func BenchmarkCopy(b *testing.B) {
	from, to := models()[tensor.F32].base, make([]byte, benchSize)
	b.SetBytes(benchSize)
	for b.Loop() {
		copy(to, from)
	}
}

func BenchmarkStage(b *testing.B) {
	for _, s := range steps() {
		benchmark(b, "stage="+s.String(), func(b *testing.B, d tensor.DType) (pack, unpack packer) {
			st, in := s.make(s.value), words{d, benchSize}
			if _, err := st.accepts(in); err != nil {
				b.Skip(err)
			}
			pack = func(dst, base, cur []byte) (int, error) { return st.encode(dst, base, cur, in) }
			unpack = func(dst, base, src []byte) (int, error) { return st.decode(dst, base, src, in) }
			return pack, unpack
		})
	}
}

func BenchmarkPipeline(b *testing.B) {
	for _, text := range []string{"shuffle+zstd", "xor+shuffle+zstd", "gaps+zstd"} {
		benchmark(b, "codec="+text, func(b *testing.B, d tensor.DType) (pack, unpack packer) {
			c := mustParse(b, text).NewCoder()
			s := tensor.Spec{Name: "t", DType: d, Shape: []int{benchSize / d.Size()}}
			mode := Plain
			pack = func(dst, base, cur []byte) (n int, err error) {
				mode, n, err = c.Pack(dst, base, cur, s)
				return n, err
			}
			unpack = func(dst, base, src []byte) (int, error) { return 0, c.Unpack(mode, dst, base, src, s) }
			return pack, unpack
		})
	}
}

const benchSize = 64 << 20

type packer func(dst, base, src []byte) (int, error)

// A model is one version of a tensor and the next one.
type model struct{ base, cur []byte }

// models returns the models of all benchmarks, cached because making one takes as long as packing ten.
var models = sync.OnceValue(func() map[tensor.DType]model {
	m := map[tensor.DType]model{}
	for _, d := range []tensor.DType{tensor.F32, tensor.BF16} {
		base, cur := altered(d, benchSize)
		m[d] = model{base, cur}
	}
	return m
})

func benchmark(b *testing.B, name string, start func(b *testing.B, d tensor.DType) (pack, unpack packer)) {
	for _, d := range []tensor.DType{tensor.F32, tensor.BF16} {
		b.Run(fmt.Sprintf("%s/dtype=%v", name, d), func(b *testing.B) {
			pack, unpack := start(b, d)
			m := models()[d]
			dst, out := make([]byte, benchSize+benchSize/64), slices.Clone(m.base)
			n := check.Value(pack(dst, m.base, m.cur))(b)
			each := func(name string, f func() (int, error)) {
				b.Run(name, func(b *testing.B) {
					b.SetBytes(benchSize)
					for b.Loop() {
						check.Must(b, check.Err(f()))
					}
					b.ReportMetric(100*float64(n)/benchSize, "wire-%")
				})
			}
			each("pack", func() (int, error) { return pack(dst, m.base, m.cur) })
			each("unpack", func() (int, error) { return unpack(out, out, dst[:n]) })
		})
	}
}

// altered returns n bytes of weights, and a copy with 2 % of the elements changed.
func altered(d tensor.DType, n int) (base, cur []byte) {
	base, cur = drift(d, n/d.Size(), 0)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n / d.Size() {
		if r.IntN(50) == 0 {
			cur[i*d.Size()] ^= byte(1 + r.IntN(127))
		}
	}
	return base, cur
}
