package codec

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// lossy are pipelines whose tensors may arrive changed.
var lossy = []string{"bf16", "int8", "topk=1%", "kc=8", "stc=1%", "skc"}

var floatTypes = []tensor.DType{tensor.F16, tensor.BF16, tensor.F32, tensor.F64}

// TestPipelinesByName: "each pipeline selectable by name; ratio and max error reported; lossy flag correct" (O14). The
// tensor has 64 Ki weights, 2 % of them changed.
func TestPipelinesByName(t *testing.T) {
	for _, test := range []struct {
		text, whole string
		d           tensor.DType
		least, most float64 // ratio, in percent
		wrong       float64 // largest error, in standard deviations of the weights
	}{
		{"bf16", "bf16", tensor.F32, 50, 50, 0.01},
		{"bf16", "bf16", tensor.F64, 25, 25, 0.01},
		{"bf16+gaps", "bf16+gaps", tensor.F32, 0, 2.5, 0.01},
		{"int8", "int8", tensor.F32, 25.02, 25.03, 0.02},
		{"int8", "int8", tensor.BF16, 50.04, 50.06, 0.04},
		{"topk=1%", "topk=1%+gaps", tensor.F32, 1, 1.6, 0.15},
		{"topk=1%+sparse", "topk=1%+sparse", tensor.F32, 1.9, 2.1, 0.15},
		{"kc=8", "kc=8+zstd", tensor.F32, 8, 12.6, 4},
		{"kc=256", "kc=256+zstd", tensor.F32, 20, 26, 0.6},
		{"stc=1%", "stc=1%+zstd", tensor.F32, 0.2, 0.5, 0.8},
		{"skc", "skc+zstd", tensor.F32, 0.4, 1, 0.5},
	} {
		p := mustParse(t, test.text)
		check.That(t, p.String() == test.whole && p.Lossy(), "%s is %v, lossy %v", test.text, p, p.Lossy())
		base, cur := drift(test.d, 64<<10, 0.02)
		got, m, n := arrives(t, p.NewCoder(), base, cur, specOf(test.d, 64<<10))
		ratio, worst := 100*float64(n)/float64(len(cur)), 0.0
		sent := elements(cur, test.d)
		for i, x := range elements(got, test.d) {
			worst = max(worst, math.Abs(x-sent[i])/0.05)
		}
		check.That(t, m == Coded && ratio >= test.least && ratio <= test.most && worst <= test.wrong && worst > 0,
			"%s of %v: %v, %.3f %% travels, want %v to %v, and the largest error is %v, want at most %v",
			test.text, test.d, m, ratio, test.least, test.most, worst, test.wrong)
	}
}

// TestRefusals: a tensor that a stage does not support is rejected by Takes and sent plain.
func TestRefusals(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, text := range lossy {
		p, wants := mustParse(t, text), "floats"
		if text == "bf16" {
			wants = "f32 or f64"
		}
		for _, d := range tensor.DTypes() {
			base, cur, s := pair(r, d, 100, 1)
			err := p.Takes(s)
			if d.Float() && (text != "bf16" || d.Size() > 2) {
				check.OK(t, err, text, "of", d)
				continue
			}
			check.Fails(t, err, fmt.Sprintf("%s needs %s, not %v", text, wants, d), text, "of", d)
			b, ok := p.Bound(d)
			check.That(t, ok && b == (Bound{}), "%s of %v, which go plain: bound %v, %v", text, d, b, ok)
			got, m, _ := arrives(t, p.NewCoder(), base, cur, s)
			check.That(t, m == Plain && bytes.Equal(got, cur), "%s of %v goes %v", text, d, m)
		}
	}
}

// TestGoPlain: tensors with values that a stage cannot represent are sent plain, bit for bit.
func TestGoPlain(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		text string
		d    tensor.DType
		x    float64
	}{
		{"int8", tensor.F32, nan}, {"int8", tensor.F32, -inf}, {"int8", tensor.F16, nan}, {"int8", tensor.BF16, inf},
		{"int8", tensor.F64, 1e39}, {"int8", tensor.F32, math.MaxFloat32},
		{"bf16", tensor.F32, math.MaxFloat32}, {"bf16", tensor.F64, -1e300},
		{"kc=4", tensor.F32, nan}, {"kc=4", tensor.BF16, -inf}, {"kc=4", tensor.F64, 1e39},
		{"stc=1%", tensor.F32, nan}, {"stc=1%", tensor.F16, inf}, {"skc", tensor.F64, -inf}, {"skc", tensor.F32, nan},
	} {
		base, cur := drift(test.d, 10000, 0.1)
		putFloat(cur[5000*test.d.Size():], test.x, test.d)
		got, m, _ := arrives(t, mustParse(t, test.text).NewCoder(), base, cur, specOf(test.d, 10000))
		check.That(t, m == Plain && bytes.Equal(got, cur), "%s of %v with %v goes %v", test.text, test.d, test.x, m)
	}
}

// TestBound: no value arrives with an error above its codec's bound, whatever the value is.
func TestBound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, text := range []string{"bf16", "int8", "bf16+gaps", "int8+zstd"} {
		p := mustParse(t, text)
		c := p.NewCoder()
		for _, d := range floatTypes {
			bound, ok := p.Bound(d)
			check.Need(t, ok && (bound == Bound{}) == (p.Takes(tensor.Spec{DType: d}) != nil),
				"%s of %v: bound %v, %v", text, d, bound, ok)
			coded := 0
			for trial := range 400 {
				n := []int{1, 7, 300, scaleBlock - 1, scaleBlock, scaleBlock + 1, 2*scaleBlock + 3}[trial%7]
				base, cur := make([]byte, n*d.Size()), make([]byte, n*d.Size())
				awkward(r, cur, d, trial)
				got, m, _ := arrives(t, c, base, cur, specOf(d, n))
				if m == Coded {
					coded++
				}
				i := bound.exceeded(got, cur, d)
				check.Need(t, i < 0, "%s of %v, trial %d: element %d has a larger error than %v", text, d, trial, i, bound)
			}
			check.That(t, p.Takes(tensor.Spec{DType: d}) != nil || coded >= 100,
				"%s of %v: only %d trials say something", text, d, coded)
		}
	}
	for _, text := range []string{"topk=1%", "kc=8", "stc=1%", "skc", "topk=1%+bf16"} {
		b, ok := mustParse(t, text).Bound(tensor.F32)
		check.That(t, !ok, "%s has bound %v", text, b)
	}
	b, ok := mustParse(t, "sparse").Bound(tensor.F32)
	check.That(t, ok && b.String() == "exact", "sparse has bound %v, %v", b, ok)
}

// awkward fills data with floats: of one or many magnitudes, close to 0, halfway between two steps of int8, or any
// bits.
func awkward(r *rand.Rand, data []byte, d tensor.DType, trial int) {
	n := len(data) / d.Size()
	scale := math.Ldexp(1+r.Float64(), r.IntN(274)-148)
	for i := range n {
		x := scale * r.NormFloat64()
		switch trial % 5 {
		case 1:
			x = math.Ldexp(2*r.Float64()-1, r.IntN(274)-148)
		case 2:
			x = scale * (float64(r.IntN(254)) - 126.5) / 127
			if i == 0 {
				x = scale
			}
		case 3:
			x = math.Ldexp(float64(r.IntN(2000)-1000), -149)
		case 4:
			put8(data[i*d.Size():], r.Uint64(), d.Size())
			continue
		}
		putFloat(data[i*d.Size():], x, d)
	}
}

func putFloat(dst []byte, x float64, d tensor.DType) {
	if d == tensor.F64 {
		little.PutUint64(dst, math.Float64bits(x))
	} else {
		tensor.Narrow(dst[:d.Size()], []float32{float32(x)}, d)
	}
}

// TestBF16Nearest: each float becomes the nearest bf16, of two the even one. Tried are bf16s, which are unchanged, even
// NaNs, and floats between, halfway between and beside them.
func TestBF16Nearest(t *testing.T) {
	float := func(h uint32) float64 { return float64(math.Float32frombits(h << 16)) }
	all := make([]byte, 2<<16)
	for h := range uint32(1 << 16) {
		little.PutUint16(all[2*h:], uint16(h))
		here, next := float(h), float(h+1)
		middle := (here + next) / 2
		beside := []float64{math.Nextafter(middle, here), math.Nextafter(middle, next)}
		for _, low := range []uint32{0, 1, 0x7f, 0x7fff, 0x8000, 0x8001, 0xffff} {
			beside = append(beside, float64(math.Float32frombits(h<<16|low)))
		}
		for _, x := range beside {
			want := uint16(h)
			if below, above := math.Abs(x-here), math.Abs(next-x); above < below || above == below && h&1 == 1 {
				want++
			}
			got, narrowed := bf16Of(t, x, tensor.F64), bf16Of(t, x, tensor.F32)
			if x == x && float64(float32(x)) != x { // x is not exact as a float32
				narrowed = got
			}
			switch {
			case x != x:
				check.Need(t, float(uint32(got)) != float(uint32(got)) && float(uint32(narrowed)) != float(uint32(narrowed)),
					"NaN %x becomes %04x, and from f32 %04x", math.Float64bits(x), got, narrowed)
			case !math.IsInf(next, 0) || math.Abs(x) < math.Abs(here)*(1+1./512): // otherwise it is sent plain, see TestGoPlain
				check.Need(t, got == want && narrowed == want, "%v becomes %04x, and from f32 %04x, want %04x", x, got, narrowed, want)
			}
		}
	}
	for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
		wide, back := make([]byte, d.Size()<<16), make([]byte, 2<<16)
		widen(wide, all, d)
		check.That(t, narrow(back, wide, d) && bytes.Equal(back, all), "bf16s do not stay what they are as %v", d)
	}
}

// bf16Of narrows x, and checks that its position among other values does not matter.
func bf16Of(t *testing.T, x float64, d tensor.DType) uint16 {
	t.Helper()
	src, dst := little.AppendUint64(nil, math.Float64bits(x)), make([]byte, 14)
	if d == tensor.F32 {
		src = little.AppendUint32(nil, math.Float32bits(float32(x)))
	}
	narrow(dst, bytes.Repeat(src, 7), d)
	check.Need(t, bytes.Equal(dst, bytes.Repeat(dst[:2], 7)), "%v becomes % x", x, dst)
	return little.Uint16(dst)
}

// TestTopKSelects: topk keeps the elements that a sort would select, the first ones of equals. Other elements keep the
// base's values.
func TestTopKSelects(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, d := range floatTypes {
		for _, n := range []int{1, 2, 100, 5000, 40000} {
			for _, percent := range []float64{0.01, 1, 33.3, 100} {
				base, cur := drift(d, n, 0.7)
				if r.IntN(2) == 0 { // many equal differences
					for i := range n {
						copy(cur[i*d.Size():(i+1)*d.Size()], cur[i%7*d.Size():])
						copy(base[i*d.Size():(i+1)*d.Size()], base[i%3*d.Size():])
					}
				}
				put8(cur, specials[r.IntN(len(specials))], d.Size())
				got, st := make([]byte, len(cur)), newTopK(percent)
				check.Must(t, check.Err(st.encode(got, base, cur, words{d, len(cur)})))
				want := slices.Clone(base)
				for _, i := range sorted(base, cur, d, share(percent, n)) {
					copy(want[i*d.Size():(i+1)*d.Size()], cur[i*d.Size():])
				}
				check.That(t, bytes.Equal(got, want), "%v%% of %d %v: not what a sort chooses", percent, n, d)
			}
		}
	}
}

// sorted returns the k indices of the largest differences, in increasing order.
func sorted(base, cur []byte, d tensor.DType, k int) []int {
	old, now := elements(base, d), elements(cur, d)
	var at []int
	size := func(i int) float32 { return float32(math.Abs(now[i] - old[i])) }
	for i := range now {
		if !bytes.Equal(base[i*d.Size():(i+1)*d.Size()], cur[i*d.Size():(i+1)*d.Size()]) && size(i) != 0 {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(i, j int) int {
		a, b := size(i), size(j)
		if a != a || b != b { // cmp orders NaNs first
			return cmp.Compare(a, b)
		}
		return cmp.Compare(b, a)
	})
	at = at[:min(k, len(at))]
	slices.Sort(at)
	return at
}

// TestTernary: stc moves the elements that changed most by the mean of their changes, and no others.
func TestTernary(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
		base, cur := drift(d, 30000, 0.1)
		got, _, _ := arrives(t, mustParse(t, "stc=1%").NewCoder(), base, cur, specOf(d, 30000))
		old, now, want := elements(base, d), elements(cur, d), slices.Clone(elements(base, d))
		at, sum := sorted(base, cur, d, 300), 0.0
		for _, i := range at {
			sum += math.Abs(float64(float32(now[i] - old[i])))
		}
		mean := float64(float32(sum / 300))
		for _, i := range at {
			want[i] += math.Copysign(mean, now[i]-old[i])
			if d == tensor.F32 {
				want[i] = float64(float32(want[i]))
			}
		}
		check.That(t, slices.Equal(elements(got, d), want), "%v: not the base and what a sort and a mean make of it", d)
	}
}

// TestClusters: for normal values, the error of kc is within a fifth of the smallest that any N values can have (J.
// Max, "Quantizing for Minimum Distortion", 1960, table I). A tensor with few distinct values arrives unchanged.
func TestClusters(t *testing.T) {
	_, cur := drift(tensor.F32, 100000, 0)
	for _, test := range []struct {
		n     int
		least float64 // mean square error, as a share of the variance
	}{{2, 0.3634}, {4, 0.1175}, {8, 0.03454}, {16, 0.009497}, {32, 0.002499}} {
		got, _, _ := arrives(t, mustParse(t, fmt.Sprintf("kc=%d", test.n)).NewCoder(), nil, cur, specOf(tensor.F32, 100000))
		sum, values, sent := 0.0, map[float64]bool{}, elements(cur, tensor.F32)
		for i, x := range elements(got, tensor.F32) {
			sum += (x - sent[i]) * (x - sent[i]) / 0.05 / 0.05
			values[x] = true
		}
		mean := sum / 100000
		check.That(t, len(values) <= test.n && mean <= 1.2*test.least && mean >= 0.95*test.least,
			"kc=%d: %d values, error %v, and %v can be had", test.n, len(values), mean, test.least)
	}
	few := make([]byte, 4000)
	for i := range 1000 {
		little.PutUint32(few[4*i:], math.Float32bits([]float32{-1, 0, 0.25, 1e4}[i*i%7%4]))
	}
	got, m, _ := arrives(t, mustParse(t, "kc=256").NewCoder(), nil, few, specOf(tensor.F32, 1000))
	check.That(t, m == Coded && bytes.Equal(got, few), "four values do not arrive as they were, %v", m)
}

// TestSameBits: server, workers, reference chain and other builds get the same bits, because nothing depends on map
// order or on a compiler's rounding.
func TestSameBits(t *testing.T) {
	want := map[string]uint64{
		"bf16": 0xcc9371651777d5f2, "int8": 0x0dd6d23442761234, "topk=1%": 0x9ec2e1708a4d93fd, "kc=8": 0x9587a85b96941fed,
		"stc=1%": 0xeb24ca9c3f86084e, "skc": 0x550fb752f7e33471, "kc=256": 0x89891d0e8cf108a6, "stc=30%": 0x3ffebbf23e095e9e,
	}
	for _, text := range append(lossy, "kc=256", "stc=30%") {
		h := xxh3.New()
		for _, d := range floatTypes {
			base, cur := drift(d, 20001, 0.3)
			got, _, _ := arrives(t, mustParse(t, text).NewCoder(), base, cur, specOf(d, 20001))
			h.Write(got)
		}
		check.Equal(t, fmt.Sprintf("%x", h.Sum64()), fmt.Sprintf("%x", want[text]), text)
	}
}

// TestBadInput: invalid input from a peer is an error that gives the reason.
func TestBadInput(t *testing.T) {
	f32 := func(x ...float32) (b []byte) {
		for _, x := range x {
			b = little.AppendUint32(b, math.Float32bits(x))
		}
		return b
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	zeros := func(n int) []byte { return make([]byte, n) }
	stc := func(changes byte, rest ...byte) []byte { return slices.Concat([]byte{changes}, f32(-1, 1), rest) }
	huge := bytes.Repeat([]byte{0xff}, 9)
	for _, test := range []struct {
		stage, want string
		src         []byte // for 10 elements of f32
	}{
		{"bf16", "19 bytes instead of 20", zeros(19)},
		{"bf16", "21 bytes instead of 20", zeros(21)},
		{"int8", "13 bytes instead of 14", zeros(13)},
		{"int8", "invalid scale NaN", append(f32(nan), zeros(10)...)},
		{"int8", "invalid scale +Inf", append(f32(inf), zeros(10)...)},
		{"int8", "invalid scale -1", append(f32(-1), zeros(10)...)},
		{"int8", "invalid scale 3e+38", append(f32(3e38), zeros(10)...)},
		{"kc", "14 bytes instead of 15", zeros(14)},
		{"kc", "value 1 of the table is NaN", append(f32(0, nan, 1), 0, 0, 0)},
		{"kc", "index 3 in a table of 3", append(f32(0, 1, 2), 0, 0xc0, 0)},
		{"stc", "0 changes in 10 elements", nil},
		{"stc", "0 changes in 10 elements", []byte{0x80}}, // a varint that is cut off
		{"stc", "11 changes in 10 elements", []byte{11}},
		{"stc", "changes in 10 elements", huge},
		{"stc", "8 bytes are too few for 3 changes", append([]byte{3}, zeros(7)...)},
		{"stc", "value 1 of the table is +Inf", append([]byte{0}, f32(1, inf)...)},
		{"skc", "index 7 in a table of 6", append(append([]byte{1}, f32(1, 2, 3, 4, 5, 6)...), 7, 0)},
		{"stc", "change 0 of 1", stc(1, 0)},
		{"stc", "change 1 of 2 is 8 elements after element 2 of 10", stc(2, 0, 1, 8)},
		{"stc", "change 0 of 1", append(stc(1, 0), huge...)},
		{"stc", "1 bytes after the last of 1 changes", stc(1, 0, 1, 8)},
	} {
		p := &Pipeline{steps: []step{{kindOf(test.stage), 3}}}
		err := p.NewCoder().Unpack(Coded, zeros(40), zeros(40), test.src, specOf(tensor.F32, 10))
		check.Fails(t, err, test.stage+": ", test.stage)
		check.Fails(t, err, test.want, test.stage)
	}
}

// fuzzStage fuzzes a stage without the zstd after it, because fuzzed bytes rarely pass zstd.
func fuzzStage(f *testing.F, name string, value float64) {
	fuzzPipeline(f, &Pipeline{steps: []step{{kindOf(name), value}}})
}

func FuzzBF16(f *testing.F) { fuzzStage(f, "bf16", 0) }
func FuzzInt8(f *testing.F) { fuzzStage(f, "int8", 0) }
func FuzzTopK(f *testing.F) { fuzzUnpack(f, "topk=5%") }
func FuzzKC(f *testing.F)   { fuzzStage(f, "kc", 3) }
func FuzzSTC(f *testing.F)  { fuzzStage(f, "stc", 5) }
func FuzzSKC(f *testing.F)  { fuzzStage(f, "skc", 0) }

// arrives packs cur, and returns the tensor unpacked from it, also over the base.
func arrives(t *testing.T, c *Coder, base, cur []byte, s tensor.Spec) ([]byte, Mode, int) {
	t.Helper()
	guard := bytes.Repeat([]byte{0xa5}, 16)
	dst, got := append(make([]byte, len(cur)), guard...), make([]byte, len(cur))
	m, n, err := c.Pack(dst[:len(cur)], base, cur, s)
	check.Must(t, err, s.Name)
	check.Need(t, bytes.Equal(dst[len(cur):], guard), "%s: written beyond its end", s.Name)
	unpacked := dst[:n:n]
	check.Must(t, c.Unpack(m, got, base, unpacked, s), s.Name, m)
	if base != nil {
		patched := slices.Clone(base)
		err := c.Unpack(m, patched, patched, unpacked, s)
		check.Need(t, err == nil && bytes.Equal(patched, got), "%s: %v over its base does not arrive as it was: %v", s.Name, m, err)
	}
	return got, m, n
}

func specOf(d tensor.DType, n int) tensor.Spec {
	return tensor.Spec{Name: "w", DType: d, Shape: []int{n}}
}

// drift returns n floats like weights, with a deviation of 0.05, and the same after a small change of the given share
// of them.
func drift(d tensor.DType, n int, share float64) (base, cur []byte) {
	r := rand.New(rand.NewPCG(3, 4))
	old, now := make([]float32, n), make([]float32, n)
	for i := range old {
		old[i] = float32(r.NormFloat64() * 0.05)
		now[i] = old[i]
		if r.Float64() < share {
			now[i] += float32(r.NormFloat64() * 0.01)
		}
	}
	base, cur = make([]byte, n*d.Size()), make([]byte, n*d.Size())
	tensor.Narrow(base, old, d)
	tensor.Narrow(cur, now, d)
	return base, cur
}

// TestVerify: a value beyond its tensor's bound is named with its tensor and element. NaNs, infinities and tensors that
// the codec does not accept must arrive as they were sent. A codec without a bound promises nothing.
func TestVerify(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	specs := []tensor.Spec{{Name: "a", DType: tensor.F32, Shape: []int{5000}}, {Name: "b", DType: tensor.F64, Shape: []int{3}}, {Name: "n", DType: tensor.I32, Shape: []int{2}}}
	l := check.Value(tensor.NewLayout(specs))(t)
	for _, test := range []struct {
		codec         string
		t, i          int
		sent, arrived float64
		want          string // "" if the promise is kept
	}{
		{"int8", 0, 0, 100, 100.39, ""},
		{"int8", 0, 0, 100, 100.4, `tensor 0 ("a" f32 [5000]): element 0 arrived as 100.4000015258789 instead of 100: the bound of codec int8 is 1/253 of the largest of 4096 values`},
		{"int8", 0, 4095, 0, 0.003, ""},                              // its block has a 1
		{"int8", 0, 4097, 0, 0.003, "element 4097 arrived as 0.003"}, // its block has zeros only
		{"bf16", 0, 7, 100, 100.39, ""},
		{"bf16", 0, 7, 100, 100.4, "element 7 arrived as 100.4"},
		{"bf16", 1, 2, nan, nan, ""},
		{"bf16", 1, 2, nan, 1, "element 2 arrived as 1 instead of NaN"},
		{"bf16", 1, 2, 1, nan, "element 2 arrived as NaN instead of 1"},
		{"bf16", 1, 1, inf, inf, ""},
		{"bf16", 1, 1, inf, 1e308, "element 1 arrived as 1e+308 instead of +Inf"},
		{"bf16", 1, 1, -inf, inf, "element 1 arrived as +Inf instead of -Inf"},
		{"int8", 1, 1, inf, 1, "element 1 arrived as 1 instead of +Inf"},
		{"int8", 2, 1, 7, 8, `tensor 2 ("n" i32 [2]): element 1 arrived as 08000000 instead of 07000000: the bound of codec int8 is exact`},
		{"topk=1%", 0, 0, 1, 2, ""},
		{"topk=1%", 2, 0, 1, 2, `tensor 2 ("n" i32 [2]): element 0`},
	} {
		sent, arrived := tensor.Alloc(l), tensor.Alloc(l)
		for p, x := range map[*tensor.Package]float64{sent: test.sent, arrived: test.arrived} {
			tensor.Slice[float32](p.View(0))[0] = 1
			switch test.t {
			case 0:
				tensor.Slice[float32](p.View(0))[test.i] = float32(x)
			case 1:
				tensor.Slice[float64](p.View(1))[test.i] = x
			default:
				tensor.Slice[int32](p.View(2))[test.i] = int32(x)
			}
		}
		err := mustParse(t, test.codec).Verify(arrived, sent)
		if test.want == "" {
			check.OK(t, err, test.codec, "of", test.sent, "as", test.arrived)
		} else {
			check.Fails(t, err, test.want, test.codec)
		}
	}
}
