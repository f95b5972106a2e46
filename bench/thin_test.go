package bench

import (
	"slices"
	"testing"
)

// TestThin: of many clients the times of some are kept, in every round the same ones,
// and a result may hold those or all.
func TestThin(t *testing.T) {
	for of, want := range map[[2]int]int{
		{1, 1}: 1, {64, 1}: 64, {65, 1}: 33, {200, 1}: 50, {1000, 1}: 63, {2000, 1}: 63, {100_000, 1}: 64,
		{200, 2}: 40, {500, 4}: 56, {1000, 8}: 59, {2000, 16}: 61, {2000, 2000}: 61,
	} {
		clients, workers := of[0], of[1]
		b := Block{Round: []int64{1, 1}}
		for _, times := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
			for i := range 2 * clients {
				*times = append(*times, int64(i%clients))
			}
		}
		if err := b.validate(clients); err != nil {
			t.Errorf("%d clients, all of them: %v", clients, err)
		}
		b.thin(clients, workers)
		if err := b.validate(clients); err != nil {
			t.Errorf("%d clients: %v", clients, err)
		}
		first, second := b.Up[:len(b.Up)/2], b.Up[len(b.Up)/2:]
		lanes := map[int64]bool{} // with a codec, clients go to them in turn
		for _, client := range first {
			lanes[client%int64(workers)] = true
		}
		if len(lanes) != min(workers, len(first)) {
			t.Errorf("of %d clients on %d workers, those of %d workers are kept", clients, workers, len(lanes))
		}
		if len(first) != want || !slices.Equal(first, second) || first[0] != 0 || first[want-1] < int64(clients-clients/want-1) {
			t.Errorf("of %d clients %d are kept, the last is %d: want %d, from the first to the last", clients, len(first), first[len(first)-1], want)
		}
	}
}
