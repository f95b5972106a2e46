package codec

import "math"

// clusters is k-means in one dimension by Lloyd's algorithm ("Least squares quantization
// in PCM", 1957). It works on a histogram, so that fit reads each value only three times.
// The same values give the same bits on every machine.
type clusters struct {
	low, scale float64 // a value's bin is (value - low) × scale
	bins       [binCount]bin
	numbers    [binCount]uint8 // for each bin, the index of its centre
	centres    [256]float64    // ascending
}

type bin struct {
	sum, mean float64
	count     int
}

const (
	binCount = 4096
	rounds   = 10 // iterations of Lloyd's algorithm
)

// fit writes the centres of values to b.table. It returns false if values is empty or
// contains a NaN or an infinity.
func (c *clusters) fit(values []float32, b *book) bool {
	if len(values) == 0 || magnitude(values) >= inf32 {
		return false
	}
	low, high := values[0], values[0]
	for _, v := range values {
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
	}
	bins := c.bins[:min(binCount, len(values))]
	clear(bins)
	c.low, c.scale = float64(low), 0
	if high > low { // slightly less, so that the highest value is in the last bin
		c.scale = float64(len(bins)) * (1 - 0x1p-40) / (float64(high) - float64(low))
	}
	for _, v := range values {
		in := &c.bins[c.bin(v)]
		in.sum += float64(v)
		in.count++
	}
	c.spread(bins, b.size)
	for range rounds {
		c.move(bins, b.size)
	}
	for i := range b.size {
		b.table[i] = float32(c.centres[i])
	}
	return true
}

// number writes the index of each value's centre, in width bits. values must be those of
// the last fit, and dst must be 0.
func (c *clusters) number(dst []byte, values []float32, width int) {
	for i, v := range values {
		at := uint(i * width)
		dst[at/8] |= c.numbers[c.bin(v)] << (at % 8)
	}
}

func (c *clusters) bin(v float32) int {
	return int((float64(v)-c.low)*c.scale) & (binCount - 1) // the mask only saves a bounds check
}

// spread chooses n initial centres, denser where there are more values. A bin counts by
// the square root of its values, so that rare values get centres too.
func (c *clusters) spread(bins []bin, n int) {
	total := 0.0
	for i := range bins {
		total += math.Sqrt(float64(bins[i].count))
	}
	sum, k := 0.0, 0
	for i := range bins {
		b := &bins[i]
		if b.count == 0 {
			continue
		}
		b.mean = b.sum / float64(b.count)
		sum += math.Sqrt(float64(b.count))
		for ; k < n && sum*float64(2*n) >= total*float64(2*k+1); k++ {
			c.centres[k] = b.mean
		}
	}
}

// move assigns each bin to the centre nearest to the bin's mean, and moves each centre to
// the mean of its values.
func (c *clusters) move(bins []bin, n int) {
	var sums, counts [len(c.centres)]float64
	k := 0
	for i := range bins {
		b := &bins[i]
		if b.count == 0 {
			continue
		}
		for k < n-1 && b.mean > (c.centres[k]+c.centres[k+1])/2 {
			k++
		}
		c.numbers[i] = uint8(k)
		sums[k] += b.sum
		counts[k] += float64(b.count)
	}
	for k, count := range counts[:n] {
		if count > 0 {
			c.centres[k] = sums[k] / count
		}
	}
}
