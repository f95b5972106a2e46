package tensor

import (
	"math"
	"strings"
	"testing"

	"ipcbench/internal/kernel"
	"ipcbench/internal/test/check"
)

var changes = []string{"100%", "0.5%", "2%", "30%", "50%", "70%", "99.9999%", "5%/rows", "60%/rows"}

func mustChange(t testing.TB, text string) Change {
	t.Helper()
	c, err := ParseChange(text)
	check.Must(t, err)
	return c
}

// TestParseChange: what is written is read again, and anything else is an error that
// says what is possible.
func TestParseChange(t *testing.T) {
	for _, text := range append(changes, "0.0001%", "12.3456%") {
		c := mustChange(t, text)
		check.That(t, c.String() == text, "%q is read as %q", text, c)
	}
	for text, want := range map[string]Change{"100%": {}, "100.0%/rows": {}, "2.50%": {25_000, false}, "02%/rows": {20_000, true}} {
		c := mustChange(t, text)
		check.That(t, c == want, "%q is %+v, want %+v", text, c, want)
	}
	for _, text := range []string{"", "%", "0%", "0.0%", "101%", "100.0001%", "2", "-2%", "+2%", "2 %", "2.%", ".5%", "1e1%", "0.00001%", "2%/row", "2%/rows/rows", "/rows",
		"99999999999999999999%", "0x2%", "2%%", "1_0%", "NaN%"} {
		c, err := ParseChange(text)
		check.That(t, err != nil && strings.Contains(err.Error(), "2%/rows"), "%q is %v, error %v", text, c, err)
	}
}

// TestChangeDensity: of many words, K clients that choose independently change
// 1 - (1-P)^K, within 0.2 points, and 0.35 where a stretch is a little more than two
// words; and one client changes exactly P (guard 23).
func TestChangeDensity(t *testing.T) {
	const n = 1 << 20
	for _, text := range []string{"0.5%", "1%", "2%", "10%", "30%", "37%", "49%", "50%", "70%", "90%", "99%", "2%/rows", "70%/rows"} {
		c := mustChange(t, text)
		within := 0.002
		if text == "49%" {
			within = 0.0035
		}
		changed := make([]bool, n)
		sum := 0
		for k := range 8 {
			rows := n
			if c.rows {
				rows = n / 4
			}
			one := 0
			r := c.runs(rows, n, Key{Seed: 5, Client: k}.stream(0))
			for from, to, more := r.next(); more; from, to, more = r.next() {
				for i := from; i < to; i++ {
					one++
					if !changed[i] {
						changed[i] = true
						sum++
					}
				}
			}
			want := c.Share() * n
			check.That(t, math.Abs(float64(one)-want) <= 8, "%s: one client changes %d words of %d, want %v", text, one, n, want)
			if got, want := float64(sum)/n, 1-math.Pow(1-c.Share(), float64(k+1)); math.Abs(got-want) > within {
				t.Errorf("%s: %d clients change %.4f of the words, want %.4f", text, k+1, got, want)
			}
		}
	}
}

// TestChangeOfSmallTensors: a tensor with fewer words than one of which is chosen has
// its share too.
func TestChangeOfSmallTensors(t *testing.T) {
	for _, text := range []string{"2%", "70%", "2%/rows"} {
		for _, elems := range []int{1, 3, 64} {
			c, sum := mustChange(t, text), 0
			const tensors = 20_000
			for i := range tensors {
				r := c.runs(elems, elems, Key{Seed: 1}.stream(i))
				for from, to, more := r.next(); more; from, to, more = r.next() {
					sum += to - from
				}
			}
			got := float64(sum) / float64(tensors*elems)
			check.That(t, math.Abs(got-c.Share()) <= 0.01, "%s of tensors of %d words: %.4f", text, elems, got)
		}
	}
}

// TestChosenWordsChange: exactly what is chosen changes, by Train and by Advance, and
// remains the kind of number that it was: -0, denormals, infinities and NaNs too.
func TestChosenWordsChange(t *testing.T) {
	special := map[DType][]uint64{
		F16: {0x8000, 1, 0x7c00, 0xfc00, 0x7e01}, BF16: {0x8000, 1, 0x7f80, 0xff80, 0x7f81},
		F32: {1 << 31, 1, 0x7f800000, 0xff800000, 0x7f800001}, F64: {1 << 63, 1, 0x7ff << 52, 0xfff << 52, 0x7ff<<52 | 1},
	}
	for _, d := range DTypes() {
		for _, text := range changes[1:] {
			for _, n := range []int{0, 1, 7, 1000} {
				l := mustLayout(t, []Spec{{Name: "x", DType: d, Shape: []int{n, 3}}})
				model, update, next := Alloc(l), Alloc(l), Alloc(l)
				Fill(model, 1)
				for i, w := range special[d] {
					for at := i; at < 3*n; at += 11 {
						copy(model.View(0)[at*d.Size():], littleEndian(w, d.Size()))
					}
				}
				c := mustChange(t, text)
				key := Key{Seed: 3, Round: 1, Client: 2, Change: c}
				check.Must(t, Train(update, model, key))
				average := Alloc(vector(t, F32, 5))
				check.Must(t, Advance(next, model, average, c))
				for p, stream := range map[*Package]uint64{update: key.stream(0), next: mix(digest(average), 0)} {
					chosen := make([]bool, 3*n)
					r := c.runs(n, 3*n, stream)
					for from, to, more := r.next(); more; from, to, more = r.next() {
						for i := from; i < to; i++ {
							chosen[i] = true
						}
					}
					for i := range chosen {
						was, is := element(model.View(0), i, d.Size()), element(p.View(0), i, d.Size())
						check.Need(t, (was != is) == chosen[i] && kind(d, was) == kind(d, is),
							"%s of %s: element %d was %x and is %x, chosen %v", text, d, i, was, is, chosen[i])
					}
				}
			}
		}
	}
}

func littleEndian(w uint64, size int) []byte {
	b := make([]byte, 8)
	setTail(b[:7], w)
	b[7] = byte(w >> 56)
	return b[:size]
}

func element(data []byte, i, size int) (w uint64) {
	for k := size - 1; k >= 0; k-- {
		w = w<<8 | uint64(data[i*size+k])
	}
	return w
}

// kind tells numbers, infinities and NaNs apart; and bools from what is none.
func kind(d DType, w uint64) string {
	var f float64
	switch d {
	case F16:
		f = float64(kernel.F16ToFloat32(uint16(w)))
	case BF16:
		f = float64(kernel.BF16ToFloat32(uint16(w)))
	case F32:
		f = float64(math.Float32frombits(uint32(w)))
	case F64:
		f = math.Float64frombits(w)
	case Bool:
		f = float64(w / 2)
	}
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return "infinity"
	case d == Bool && f != 0:
		return "no bool"
	}
	return "number"
}

// TestFillNormal: floats have a mean of 0 and a deviation of 0.02, and lie as those of a
// bell do; few exponents hold most of them, and their other bits are all there.
func TestFillNormal(t *testing.T) {
	for _, d := range []DType{F16, BF16, F32, F64} {
		const n = 1 << 18
		p := Alloc(vector(t, d, n))
		FillNormal(p, 1)
		var sum, squares float64
		near, exponents := 0, map[int]int{}
		for _, x := range elemsOf(p.View(0), d) {
			sum += x
			squares += x * x
			if math.Abs(x) < 0.0202 {
				near++
			}
			_, e := math.Frexp(x)
			exponents[e]++
		}
		if mean, deviation := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.0002 || math.Abs(deviation-0.0202) > 0.0001 {
			t.Errorf("%v: mean %v, deviation %v", d, mean, deviation)
		}
		if within := float64(near) / n; math.Abs(within-0.67) > 0.01 { // of a normal one 0.683
			t.Errorf("%v: %.3f lie within one deviation", d, within)
		}
		most := exponents[-5] + exponents[-6] + exponents[-7]
		check.That(t, most >= n*7/10, "%v: three exponents hold %d of %d", d, most, n)
		other := Alloc(p.Layout())
		FillNormal(other, 2)
		check.That(t, string(other.View(0)) != string(p.View(0)), "%v: another seed gives the same", d)
	}
}
