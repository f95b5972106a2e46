package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// lossless are pipelines whose tensors arrive unchanged, bit for bit.
var lossless = []string{
	"sparse", "gaps", "xor+shuffle+zstd", "zstd", "shuffle+zstd", "xor+zstd", "sparse+zstd", "gaps+zstd",
}

func mustParse(t testing.TB, text string) *Pipeline {
	t.Helper()
	return check.Value(Parse(text))(t)
}

// specials are bit patterns that arithmetic does not preserve: NaNs with payloads, quiet and signalling, both zeros,
// infinities and denormals of each float type, and the extremes of integers.
var specials = []uint64{
	0, 1, 0x7f, 0x80, 0xff, 0x8000, 0x7fff, 0x7f81, 0xff80, 0x7c01, 0xfe55, 0x0001, 0xffff,
	0x80000000, 0x7f800001, 0xffc12345, 0x00000001, 0x7f800000,
	0x8000000000000000, 0x7ff0000000000001, 0xfff8000000abcdef, 0x000fffffffffffff, 0x7ff0000000000000,
}

// pair returns a tensor of n elements, and its base, from which about the given share of elements differs.
func pair(r *rand.Rand, d tensor.DType, n int, share float64) (base, cur []byte, s tensor.Spec) {
	size := d.Size()
	base = make([]byte, n*size)
	for i := range n {
		v := r.Uint64()
		if r.IntN(4) == 0 {
			v = specials[r.IntN(len(specials))]
		}
		put8(base[i*size:], v, size)
	}
	cur = slices.Clone(base)
	for i := range n {
		if r.Float64() < share {
			put8(cur[i*size:], specials[r.IntN(len(specials))], size)
		}
	}
	return base, cur, tensor.Spec{Name: fmt.Sprintf("%v of %d", d, n), DType: d, Shape: []int{n}}
}

func put8(dst []byte, v uint64, size int) {
	var b [8]byte
	little.PutUint64(b[:], v)
	copy(dst[:size], b[:])
}

// TestRoundTrip: a lossless pipeline restores the packed tensor bit for bit, in fresh memory and over the base (O16:
// the receiver's result equals the full model). It does so for all types, and for sizes around the special cases of the
// code. Unchanged tensors cost nothing.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 2, 3, 7, 8, 9, 31, 511, 512, 513, 1023, 4095, 4096, 4097, 5000, 3*4096 + 5}
	for _, text := range lossless {
		coder := mustParse(t, text).NewCoder()
		for _, d := range tensor.DTypes() {
			for _, n := range sizes {
				for _, share := range []float64{0, 0.001, 0.02, 0.3, 1} {
					base, cur, s := pair(r, d, n, share)
					if n == 1 {
						s.Shape = nil // a scalar
					}
					trip(t, coder, base, cur, s)
					trip(t, coder, nil, cur, s)
				}
			}
		}
	}
}

// trip is arrives for lossless pipelines: it also checks that the tensor arrives unchanged.
func trip(t *testing.T, c *Coder, base, cur []byte, s tensor.Spec) (Mode, int) {
	t.Helper()
	got, m, n := arrives(t, c, base, cur, s)
	check.Need(t, bytes.Equal(got, cur), "%s: %v does not arrive as it was", s.Name, m)
	check.Need(t, m == Coded && n < len(cur) || m == Unchanged && n == 0 || m == Plain && n == len(cur), "%s: %d bytes %v, of %d", s.Name, n, m, len(cur))
	check.Need(t, c.base == 0 || base == nil || (m == Unchanged) == bytes.Equal(base, cur), "%s: went %v", s.Name, m)
	return m, n
}

// TestParse: pipelines are selected by name (O14). If stages are in an impossible order, the error lists the possible
// ones.
func TestParse(t *testing.T) {
	for _, text := range lossless {
		p := mustParse(t, text)
		check.That(t, p.String() == text && !p.Lossy(), "%s is %v, lossy %v", text, p, p.Lossy())
	}
	none, err := Parse("none")
	check.That(t, none == nil && err == nil && none.String() == "none" && !none.Lossy() && !none.Base(), "none is %v, %v", none, err)
	p := mustParse(t, "xor+shuffle")
	check.That(t, p.String() == "xor+shuffle+zstd" && p.Base(), "xor+shuffle is %v, with a base: %v", p, p.Base())
	for _, c := range []struct{ text, want string }{
		{"", "use none, sparse"},
		{"zst", "zstd, "},
		{"none+zstd", "use none"},
		{"sparse=3", "sparse has no parameter"},
		{"kc", "must be a whole number from 2 to 256, such as kc=16"},
		{"kc=1", "must be a whole number from 2"},
		{"kc=2.5", "must be a whole number"},
		{"kc=NaN", "must be a whole number"},
		{"topk", "must be a percentage above 0% and up to 100%, such as topk=1%"},
		{"topk=0%", "must be a percentage"},
		{"topk=101%", "must be a percentage"},
		{"topk=1", "must be a percentage"},
		{"topk=NaN%", "must be a percentage"},
		{"zstd+shuffle", "shuffle cannot follow zstd: the order is topk"},
		{"sparse+shuffle", "shuffle cannot follow sparse"},
		{"sparse+xor", "xor cannot follow sparse"},
		{"xor+xor", "xor cannot follow xor"},
	} {
		check.Fails(t, check.Err(Parse(c.text)), c.want, c.text)
	}
}

// TestSizes: differences are small (O14, O16). If 2 % of a bf16 tensor's elements changed, sparse sends 6.0 % of its
// bytes and gaps at most 3.5 %. An unchanged tensor costs nothing.
func TestSizes(t *testing.T) {
	base, cur := altered(tensor.BF16, 1<<20)
	s := specOf(tensor.BF16, 1<<19)
	for _, c := range []struct {
		codec       string
		least, most float64
	}{
		{"sparse", 5.9, 6.1},
		{"gaps", 2.9, 3.5},
		{"gaps+zstd", 2.3, 2.7},
		{"xor+shuffle+zstd", 2.5, 3.2},
	} {
		coder := mustParse(t, c.codec).NewCoder()
		m, n := trip(t, coder, base, cur, s)
		percent := 100 * float64(n) / (1 << 20)
		check.That(t, m == Coded && percent >= c.least && percent <= c.most, "%s: %v with %.2f %%, want %v to %v", c.codec, m, percent, c.least, c.most)
		m, n = trip(t, coder, base, base, s)
		check.That(t, m == Unchanged && n == 0, "%s: a tensor that is its base went %v, with %d bytes", c.codec, m, n)
	}
}

// TestGapsForm: gaps uses the shorter of its two forms.
func TestGapsForm(t *testing.T) {
	const count = 8000
	for every, form := range map[int]byte{1: byBitmap, 7: byBitmap, 8: byGaps, 100: byGaps, 200: byGaps} {
		base, cur, dst := make([]byte, 4*count), make([]byte, 4*count), make([]byte, 5*count)
		for i := every - 1; i < count; i += every {
			cur[4*i] = 1
		}
		n, at := count/every, count/8
		if form == byGaps {
			at = n * len(binary.AppendUvarint(nil, uint64(every)))
		}
		got, err := (&gaps{}).encode(dst, base, cur, words{tensor.F32, 4 * count})
		check.That(t, err == nil && dst[0] == form && got == headLen+at+4*n,
			"every word of %d: form %d in %d bytes, want %d in %d: %v", every, dst[0], got, form, headLen+at+4*n, err)
	}
}

// TestSteady: once a Coder has coded a model, it allocates no memory in proportion to the model, and a lossy one none
// at all.
func TestSteady(t *testing.T) {
	for _, p := range pipelines(t) {
		for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
			const elems = 1 << 17
			s := specOf(d, elems)
			base, cur := drift(d, elems, 0.3)
			c, dst, out := p.NewCoder(), make([]byte, len(cur)), make([]byte, len(cur))
			once := func() {
				m, n, err := c.Pack(dst, base, cur, s)
				if err == nil {
					err = c.Unpack(m, out, base, dst[:n], s)
				}
				check.Must(t, err)
			}
			once()
			var n float64
			grown := check.Allocated(func() { n = testing.AllocsPerRun(5, once) }) / 6
			check.That(t, grown <= 4096 && (n == 0 || !p.Lossy()),
				"%v of %v: %v allocations and %d bytes each time, for a tensor of %d", p, d, n, grown, len(cur))
		}
	}
}

// steps returns one step of each kind of stage.
func steps() (all []step) {
	for _, k := range kinds {
		s := step{kind: k, value: 1}
		if k.arg == "N" {
			s.value = 16
		}
		all = append(all, s)
	}
	return all
}

// pipelines returns a pipeline for each stage, and all lossless pipelines.
func pipelines(t testing.TB) (all []*Pipeline) {
	for _, s := range steps() {
		all = append(all, mustParse(t, s.String()))
	}
	for _, text := range lossless {
		all = append(all, mustParse(t, text))
	}
	return all
}

// TestSameBytes: the bytes that a Coder makes of a tensor, and whether it sends the tensor plain, do not depend on
// earlier tensors. So two processes with a lossy codec lose the same bits, whatever each has packed before.
func TestSameBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	used := map[string]*Coder{}
	for range 40 {
		d := tensor.DTypes()[r.IntN(len(tensor.DTypes()))]
		base, cur, s := pair(r, d, 1+r.IntN(200_000), []float64{0.001, 0.02, 0.5}[r.IntN(3)])
		if r.IntN(2) == 0 && (d == tensor.F32 || d == tensor.BF16) {
			base, cur = drift(d, len(base)/d.Size(), 0)
			cur[r.IntN(len(cur))] ^= 1
		}
		for _, p := range pipelines(t) {
			c := used[p.String()]
			if c == nil {
				c = p.NewCoder()
				used[p.String()] = c
			}
			got, want := make([]byte, len(cur)), make([]byte, len(cur))
			m, n, err := c.Pack(got, base, cur, s)
			m2, n2, err2 := p.NewCoder().Pack(want, base, cur, s)
			check.Need(t, err == nil && err2 == nil && m == m2 && n == n2 && bytes.Equal(got[:n], want[:n]),
				"%v of %s: %v in %d bytes, and with a new coder %v in %d: %v, %v", p, s.Name, m, n, m2, n2, err, err2)
		}
	}
}
