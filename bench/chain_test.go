package bench_test

import (
	"testing"

	"ipcbench/bench"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// TestChainLate: the reference chain is computed after a block, and only as far as the block needs, so workers start at
// once however many rounds are planned. Blocks are added until the cell has its rounds.
func TestChainLate(t *testing.T) {
	skip.Long(t)
	o := options(t, short(t, 400, 2), "pickle cnn")
	o.Plan.Samples = 1000 // room for some 60 rounds per block
	var first string
	chain := false
	o.Progress = func(p bench.Progress) {
		if first == "" {
			first = p.What
		}
		chain = chain || p.What == "reference chain of cnn, clients=1"
	}
	r := run(t, o)
	check.That(t, first != "reference chain of cnn, clients=1" && chain, "began with %q, chain shown: %v", first, chain)
	for _, c := range r.Cells {
		rounds := 0
		for _, b := range c.Blocks {
			rounds += len(b.Round)
			check.That(t, b.Proof.Hashed > len(b.Round),
				"%s: %d models of %d timed rounds were compared", c.Variant, b.Proof.Hashed, len(b.Round))
		}
		check.That(t, rounds >= 400 && len(c.Blocks) > 2 && c.Stopped == "rounds",
			"%s: %d rounds in %d blocks, stopped by %q, want 400 in several", c.Variant, rounds, len(c.Blocks), c.Stopped)
	}
}
