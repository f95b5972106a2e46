package bench

import (
	"slices"
	"testing"
)

// TestThin: of many clients the times of some are kept, in every round the same ones,
// and a result may hold those or all.
func TestThin(t *testing.T) {
	for clients, want := range map[int]int{1: 1, 128: 128, 129: 65, 200: 100, 1000: 125, 2000: 125, 100_000: 128} {
		b := Block{Round: []int64{1, 1}}
		for _, times := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
			for i := range 2 * clients {
				*times = append(*times, int64(i%clients))
			}
		}
		if err := b.validate(clients); err != nil {
			t.Errorf("%d clients, all of them: %v", clients, err)
		}
		b.thin(clients)
		if err := b.validate(clients); err != nil {
			t.Errorf("%d clients: %v", clients, err)
		}
		first, second := b.Up[:len(b.Up)/2], b.Up[len(b.Up)/2:]
		if len(first) != want || !slices.Equal(first, second) || first[0] != 0 || first[want-1] < int64(clients-clients/want-1) {
			t.Errorf("of %d clients %d are kept, the last is %d: want %d, from the first to the last", clients, len(first), first[len(first)-1], want)
		}
	}
}
