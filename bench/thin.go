package bench

// How many times of clients a result holds: of a round at most, and of a block as long as
// some of each round are left. More say little more of how long a client takes, not even
// of the slowest one in a hundred, and a file of 2,000 clients would be thirty times as
// large.
const (
	keptARound = 64
	keptABlock = 320
	keptAtAll  = 16
)

// stride returns k, where the times of every k-th client are kept. It has no factor in
// common with the number of workers: clients may go to them in turn, and those of all
// workers are kept.
func stride(rounds, clients, workers int) int {
	k := max(1, (clients+keptARound-1)/keptARound, min((rounds*clients+keptABlock-1)/keptABlock, clients/keptAtAll))
	for workers > 0 && k > 1 && k < clients && common(k, workers) > 1 {
		k++
	}
	return k
}

// common returns the greatest common divisor.
func common(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// thin leaves the times of the first client of each round, and of every k-th after it.
func thin(b *Block, clients, workers int) {
	k := stride(len(b.Round), clients, workers)
	if k == 1 {
		return
	}
	for _, times := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
		var thinned []int64
		for i, ns := range *times {
			if i%clients%k == 0 {
				thinned = append(thinned, ns)
			}
		}
		*times = thinned
	}
}
