package tensor

import "ipcbench/internal/kernel"

// FillNormal writes seeded numbers to every tensor of p. Floats are distributed almost
// normally, with mean 0 and standard deviation 0.02, like trained weights: their
// exponents repeat, and their other bits do not. Each is a sum of integers, so it has the
// same bits on every machine and in every language. Other types are as in [Fill].
func FillNormal(p *Package, seed uint64) {
	for t := range p.Len() {
		stream := Key{Seed: seed, Round: -1, Client: -1}.stream(t)
		data := p.View(t)
		switch p.Layout().Spec(t).DType {
		case F16:
			fillNormal(Slice[uint16](data), stream, kernel.Float32ToF16)
		case BF16:
			fillNormal(Slice[uint16](data), stream, kernel.Float32ToBF16)
		case F32:
			fillNormal(Slice[float32](data), stream, func(x float32) float32 { return x })
		case F64:
			words := Slice[float64](data)
			for i := range words {
				words[i] = normal(stream, i)
			}
		default:
			fill(p, t, stream)
		}
	}
}

func fillNormal[T uint16 | float32](words []T, stream uint64, of func(float32) T) {
	for i := range words {
		words[i] = of(float32(normal(stream, i)))
	}
}

// normal returns number i of a stream: the sum of five integers of 60 bits, minus half of
// the largest sum, scaled to a standard deviation of 0.0202.
func normal(stream uint64, i int) float64 {
	const terms, size = 5, 60
	sum := -int64(terms << (size - 1))
	for k := range uint64(terms) {
		sum += int64(scatter(stream+(uint64(i)*terms+k+1)*golden) >> (64 - size))
	}
	return float64(sum) * 0x1p-65
}
