package bench

import "ipcbench/bench/result"

// Limits for the client times that a result keeps: at most keptARound per round, and
// about keptABlock per block, as long as about keptAtAll per round remain. More add
// little precision, and a file with 2,000 clients would be 30 times as large.
const (
	keptARound = 64
	keptABlock = 320
	keptAtAll  = 16
)

// stride returns k if every k-th client's times are kept. It has no factor in common with
// the number of workers, so that no worker is left out if they take clients in turn.
func stride(rounds, clients, workers int) int {
	k := max(1, (clients+keptARound-1)/keptARound, min((rounds*clients+keptABlock-1)/keptABlock, clients/keptAtAll))
	for workers > 0 && k > 1 && gcd(k, workers) > 1 { // downwards, so that not fewer are kept
		k--
	}
	return k
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// thin keeps the times of the first client of each round, and of every k-th after it.
func thin(b *result.Block, clients, workers int) {
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
