package bench

import (
	"slices"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// TestThin: if there are many clients, times are kept for some of them, the same ones in every round. A result may hold
// these or all.
func TestThin(t *testing.T) {
	for of, want := range map[[3]int]int{
		{2, 1, 1}: 1, {2, 64, 1}: 64, {2, 65, 1}: 33, {2, 200, 1}: 50, {2, 1000, 1}: 63, {2, 2000, 1}: 63, {2, 100_000, 1}: 64,
		{2, 200, 2}: 67, {2, 500, 4}: 72, {2, 1000, 8}: 67, {2, 2000, 16}: 65, {2, 2000, 2000}: 65, {6, 200, 200}: 67,
		{100, 1, 1}: 1, {100, 8, 4}: 8, {100, 31, 1}: 31, {100, 50, 1}: 17, {8, 100, 4}: 34, {100, 100, 8}: 20,
	} {
		rounds, clients, workers := of[0], of[1], of[2]
		b := result.Block{Round: slices.Repeat([]int64{1}, max(1, rounds))}
		for _, times := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
			for i := range len(b.Round) * clients {
				*times = append(*times, int64(i%clients))
			}
		}
		check.OK(t, b.Validate(clients), clients, "clients, all of them")
		thin(&b, clients, workers)
		check.OK(t, b.Validate(clients), clients, "clients")
		n := len(b.Up) / len(b.Round)
		first, last := b.Up[:n], b.Up[len(b.Up)-n:]
		lanes := map[int64]bool{} // with a codec, clients go to lanes in turn
		for _, client := range first {
			lanes[client%int64(max(1, workers))] = true
		}
		check.That(t, len(lanes) == min(workers, len(first)) || workers <= 0,
			"of %d clients on %d workers, those of %d workers are kept", clients, workers, len(lanes))
		check.That(t, len(first) == want && slices.Equal(first, last) && first[0] == 0 && first[want-1] >= int64(clients-clients/want-1),
			"of %d clients %d are kept, the last is %d: want %d, from the first to the last", clients, len(first), first[len(first)-1], want)
	}
}
