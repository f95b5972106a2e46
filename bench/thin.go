package bench

// keptClients is how many clients of a round a result holds the times of, at most.
// More say little more of how long a client takes, not even of the slowest one in a
// hundred, and a file of 2,000 clients would be sixteen times as large.
const keptClients = 128

// stride returns k, where the times of every k-th client are kept.
func stride(clients int) int { return (clients + keptClients - 1) / keptClients }

// kept returns of how many clients of a round the times are kept.
func kept(clients int) int { return (clients + stride(clients) - 1) / stride(clients) }

// thin leaves the times of the first client of each round, and of every k-th after it.
func (b *Block) thin(clients int) {
	k := stride(clients)
	if k == 1 {
		return
	}
	for _, times := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
		thinned := make([]int64, 0, len(b.Round)*kept(clients))
		for i, ns := range *times {
			if i%clients%k == 0 {
				thinned = append(thinned, ns)
			}
		}
		*times = thinned
	}
}
