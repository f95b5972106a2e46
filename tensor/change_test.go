package tensor

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

var changes = []string{"100%", "0.5%", "2%", "30%", "50%", "70%", "99.9999%", "5%/rows", "60%/rows"}

func mustChange(t testing.TB, text string) Change {
	t.Helper()
	return check.Value(ParseChange(text))(t)
}

// TestParseChange: a written change is read again, and any other text is an error that shows the possible forms.
func TestParseChange(t *testing.T) {
	for _, text := range append(changes, "0.0001%", "12.3456%", "dense:0.1%", "dense:100%") {
		check.Equal(t, mustChange(t, text).String(), text)
	}
	for text, want := range map[string]Change{"100%": {}, "100.0%/rows": {}, "2.50%": {parts: 25_000}, "02%/rows": {parts: 20_000, rows: true}, "dense:0.10%": {parts: 1000, dense: true}} {
		check.Equal(t, mustChange(t, text), want, text)
	}
	for _, text := range []string{"", "%", "0%", "0.0%", "101%", "100.0001%", "2", "-2%", "+2%", "2 %", "2.%", ".5%", "1e1%", "0.00001%", "2%/row", "2%/rows/rows", "/rows",
		"99999999999999999999%", "0x2%", "2%%", "1_0%", "NaN%", "dense:", "dense:2%/rows", "dense:dense:2%", "Dense:2%"} {
		c, err := ParseChange(text)
		check.That(t, err != nil && strings.Contains(err.Error(), "2%/rows"), "%q is %v, error %v", text, c, err)
	}
}

// chosen returns a 1 for each element that changes.
func (c Change) chosen(rows, elems int, stream uint64) []byte {
	chosen := make([]byte, elems)
	r := c.runs(rows, elems, stream)
	for from, to, more := r.next(); more; from, to, more = r.next() {
		for i := from; i < to; i++ {
			chosen[i] = 1
		}
	}
	return chosen
}

// special returns a model of one tensor with -0, a denormal, infinities and a NaN in it.
func special(t testing.TB, d DType, shape ...int) *Package {
	p := Alloc(mustLayout(t, []Spec{{Name: "x", DType: d, Shape: shape}}))
	Fill(p, 1)
	for i, w := range map[DType][]uint64{
		F16: {0x8000, 1, 0x7c00, 0xfc00, 0x7d01}, BF16: {0x8000, 1, 0x7f80, 0xff80, 0x7f81},
		F32: {1 << 31, 1, 0x7f800000, 0xff800000, 0x7f800001}, F64: {1 << 63, 1, 0x7ff << 52, 0xfff << 52, 0x7ff<<52 | 1},
	}[d] {
		for at := i; at < p.Elements()/3; at += 11 {
			copy(p.View(0)[at*d.Size():], binary.LittleEndian.AppendUint64(nil, w)[:d.Size()])
		}
	}
	return p
}

// TestChangeDensity: K clients that choose independently change 1 - (1-P)^K of many elements, within 0.2 percentage
// points, or 0.35 if runs are slightly longer than two elements. One client changes exactly P (guard 23).
func TestChangeDensity(t *testing.T) {
	const n = 1 << 20
	for _, text := range []string{"0.5%", "1%", "2%", "10%", "30%", "37%", "49%", "50%", "70%", "90%", "99%", "2%/rows", "70%/rows"} {
		c := mustChange(t, text)
		within := 0.002
		if text == "49%" {
			within = 0.0035
		}
		changed := make([]byte, n)
		for k := range 8 {
			rows := n
			if c.rows {
				rows = n / 4
			}
			chosen := c.chosen(rows, n, Key{Seed: 5, Client: k}.stream(0))
			for i := range chosen {
				changed[i] |= chosen[i]
			}
			one, sum := bytes.Count(chosen, []byte{1}), bytes.Count(changed, []byte{1})
			want := c.Share() * n
			check.That(t, math.Abs(float64(one)-want) <= 8, "%s: one client changes %d words of %d, want %v", text, one, n, want)
			got, all := float64(sum)/n, 1-math.Pow(1-c.Share(), float64(k+1))
			check.That(t, math.Abs(got-all) <= within, "%s: %d clients change %.4f of the words, want %.4f", text, k+1, got, all)
		}
	}
}

// TestChangeOfSmallTensors: even tensors that are too small for one chosen element each have their share on average.
func TestChangeOfSmallTensors(t *testing.T) {
	for _, text := range []string{"2%", "70%", "2%/rows"} {
		for _, elems := range []int{1, 3, 64} {
			c, sum := mustChange(t, text), 0
			const tensors = 20_000
			for i := range tensors {
				sum += bytes.Count(c.chosen(elems, elems, Key{Seed: 1}.stream(i)), []byte{1})
			}
			got := float64(sum) / float64(tensors*elems)
			check.That(t, math.Abs(got-c.Share()) <= 0.01, "%s of tensors of %d words: %.4f", text, elems, got)
		}
	}
}

// TestChosenWordsChange: Train and Advance change exactly the chosen elements, and each keeps its kind: number,
// infinity, NaN or bool.
func TestChosenWordsChange(t *testing.T) {
	for _, d := range DTypes() {
		for _, text := range changes[1:] {
			for _, n := range []int{0, 1, 7, 1000} {
				model := special(t, d, n, 3)
				update, next := Alloc(model.Layout()), Alloc(model.Layout())
				c := mustChange(t, text)
				key := Key{Seed: 3, Round: 1, Client: 2, Change: c}
				check.Must(t, Train(update, model, key))
				average := Alloc(vector(t, F32, 5))
				check.Must(t, Advance(next, model, average, c))
				for p, stream := range map[*Package]uint64{update: key.stream(0), next: mix(digest(average), 0)} {
					for i, chosen := range c.chosen(n, 3*n, stream) {
						was, is := element(model.View(0), i, d), element(p.View(0), i, d)
						check.Need(t, (was != is) == (chosen == 1) && kind(d, was) == kind(d, is),
							"%s of %s: element %d was %x and is %x, chosen %v", text, d, i, was, is, chosen)
					}
				}
			}
		}
	}
}

func element(data []byte, i int, d DType) uint64 {
	return binary.LittleEndian.Uint64(append(bytes.Clone(data[i*d.Size():(i+1)*d.Size()]), make([]byte, 8)...))
}

// kind distinguishes numbers, infinities and NaNs, and bools from invalid bools.
func kind(d DType, w uint64) string {
	f := accessors[d].get(binary.LittleEndian.AppendUint64(nil, w), 0)
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return "infinity"
	case d == Bool && f > 1:
		return "no bool"
	}
	return "number"
}

// TestDense: a dense change moves every float by about its share, within the factor 1.5 that a number of bits allows, and
// keeps sign and exponent. Types with few bits change by what the lowest one is worth. An update is proved, and a wrong
// bit is found.
func TestDense(t *testing.T) {
	model := Alloc(check.Value(NewLayout([]Spec{{Name: "w", DType: F32, Shape: []int{1 << 16}}, {Name: "d", DType: F64, Shape: []int{1 << 12}},
		{Name: "h", DType: F16, Shape: []int{1 << 12}}, {Name: "b", DType: BF16, Shape: []int{1 << 12}}}))(t))
	FillNormal(model, 1)
	update := Alloc(model.Layout())
	for text, share := range map[string]float64{"dense:0.1%": 0.001, "dense:0.01%": 0.0001, "dense:5%": 0.05, "dense:0.0001%": 1e-6} {
		key := Key{Seed: 3, Round: 1, Client: 2, Change: mustChange(t, text)}
		check.Must(t, Train(update, model, key))
		check.OK(t, Prove(update, model, key), text)
		check.Equal(t, key.Change.Share(), 1.0, text)
		was, is := Slice[float32](model.View(0)), Slice[float32](update.View(0))
		moved, same := 0.0, 0
		for i := range was {
			moved += math.Abs(float64(is[i]/was[i]) - 1)
			if is[i] == was[i] {
				same++
			}
			check.Need(t, math.Float32bits(is[i])>>23 == math.Float32bits(was[i])>>23, "%s: %v became %v", text, was[i], is[i])
		}
		moved /= float64(len(was))
		check.That(t, moved > share/1.5 && moved < share*1.5 && same < len(was)/8, "%s: values moved by %v, and %d not", text, moved, same)
		check.That(t, Differing(update, model) > model.Layout().Len(), "%s: %d elements differ", text, Differing(update, model))
		update.View(3)[5] ^= 1
		check.Fails(t, Prove(update, model, key), `"b"`)
	}
}

// TestDifferencesKeepBits: an element that no client changes keeps its bits. For f32, the share of elements that differ
// in the next version is 1 - (1-P)^K within 0.2 percentage points (guard 23).
func TestDifferencesKeepBits(t *testing.T) {
	const n = 1 << 18
	for _, d := range DTypes() {
		model := special(t, d, n)
		for _, text := range []string{"2%", "10%", "2%/rows"} {
			c := mustChange(t, text)
			for _, clients := range []int{1, 4} {
				next := round(t, model, Key{Seed: 3, Round: clients, Change: c}, []float64{1, 2, 3, 1}[:clients]...)
				touched := make([]byte, n)
				for client := range clients {
					for i, chosen := range c.chosen(n, n, Key{Seed: 3, Round: clients, Client: client}.stream(0)) {
						touched[i] |= chosen
					}
				}
				differ := 0
				for i := range touched {
					if was, is := element(model.View(0), i, d), element(next.View(0), i, d); was != is {
						differ++
						check.Need(t, touched[i] == 1, "%s of %v: element %d was %x and is %x, and no client has changed it", text, d, i, was, is)
					}
				}
				want := 1 - math.Pow(1-c.Share(), float64(clients))
				got := float64(differ) / n
				check.That(t, d != F32 || math.Abs(got-want) <= 0.002, "%s of %d clients: %.4f of the words differ, want %.4f", text, clients, got, want)
			}
		}
	}
}

// TestFillNormal: floats have a mean of 0 and a deviation of 0.02, and two thirds are within one deviation. Three
// exponents hold most of them.
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
		mean, deviation, within := sum/n, math.Sqrt(squares/n), float64(near)/n
		check.That(t, math.Abs(mean) <= 0.0002 && math.Abs(deviation-0.0202) <= 0.0001, "%v: mean %v, deviation %v", d, mean, deviation)
		check.That(t, math.Abs(within-0.67) <= 0.01, "%v: %.3f lie within one deviation", d, within) // 0.683 for a normal distribution
		most := exponents[-5] + exponents[-6] + exponents[-7]
		check.That(t, most >= n*7/10, "%v: three exponents hold %d of %d", d, most, n)
		other := Alloc(p.Layout())
		FillNormal(other, 2)
		check.That(t, string(other.View(0)) != string(p.View(0)), "%v: another seed gives the same", d)
	}
}
