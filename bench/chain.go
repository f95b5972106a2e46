package bench

import (
	"context"
	"fmt"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/phase"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// A chain is the reference of all cells that compute the same: the model's hash after
// every round. Its hashes come from the same arithmetic that server and workers do, by
// direct calls. The time of a round of it is the floor named work.
type chain struct {
	cell   Spec // one of these cells
	key    chainKey
	seed   uint64
	hashes []uint64
	coding *Coding     // cached result of observe
	work   [][]float64 // seconds per round, by block
}

// workRounds is the number of rounds measured in each block of the floor work.
const workRounds = 5

// extend makes the chain at least rounds long and, if each is not nil, calls it after
// every round. It also measures the floor work. Blocks are compared with the chain after
// they have run, so no worker waits for it.
func (c *chain) extend(ctx context.Context, rounds int, warm time.Duration, each func(round int)) error {
	if len(c.hashes) >= rounds {
		return nil
	}
	rounds += rounds / 8 // the next block may have somewhat more rounds
	return c.run(ctx, warm, func(round, _ int) bool {
		if each != nil {
			each(round)
		}
		return round+1 < rounds
	})
}

// coded reports whether the chain includes a lossy codec, whose time is not part of the
// floor work.
func (c *chain) coded() bool { return c.key.codec != "" }

// reference returns a new reference computation with the first model, before its first
// round.
func (c *chain) reference() (*trainer.Reference, error) {
	r := trainer.NewReference(c.cell.Model.Layout, c.cell.up().Layout, c.seed)
	r.Fold = c.cell.fold()
	if c.coded() {
		r.Through(c.cell.Variant.Codec(), c.key.alone)
	}
	return r, c.cell.init(r.Model, c.seed)
}

// compare returns an error for the first hash that differs from the chain, which must be
// long enough. If running has the hashes after each tensor, by round, the error names the
// first wrong tensor.
func (c *chain) compare(ctx context.Context, hashes []exchange.Hash, running [][]exchange.Hash, v transports.Variant) error {
	for n, got := range hashes {
		want := c.hashes[n]
		if uint64(got) == want {
			continue
		}
		where := fmt.Sprintf("round %d", n)
		if running != nil {
			tensor, err := c.wrong(ctx, n, running[n])
			if err != nil {
				return err
			}
			where += tensor
		}
		return fmt.Errorf("%s: the new model's hash is %016x, the reference chain has %016x: %s delivered wrong data", where, uint64(got), want, v)
	}
	return nil
}

// wrong repeats the rounds up to round, and names the first tensor of its model after
// which the running hash differs from the reference.
func (c *chain) wrong(ctx context.Context, round int, running []exchange.Hash) (string, error) {
	r, err := c.reference()
	if err != nil {
		return "", err
	}
	clients := trainer.Roster(c.cell.Clients)
	for range round + 1 {
		if err := r.Round(ctx, clients); err != nil {
			return "", err
		}
	}
	for t, want := range r.Model.Hashes() {
		if uint64(running[t]) != want {
			return fmt.Sprintf(", tensor %d (%s)", t, r.Model.Layout().Spec(t).Name), nil
		}
	}
	return "", nil
}

// measure adds a block of workRounds rounds to the floor work.
func (c *chain) measure(ctx context.Context, warm time.Duration) error {
	return c.run(ctx, warm, func(_, samples int) bool { return samples < workRounds })
}

// run does rounds from the first one until more returns false, and appends new hashes to
// the chain. After the warm-up, durations of rounds count for the floor work, unless a
// lossy codec is included.
func (c *chain) run(ctx context.Context, warm time.Duration, more func(round, samples int) bool) error {
	r, err := c.reference()
	if err != nil {
		return err
	}
	clients := trainer.Roster(c.cell.Clients)
	var samples []float64
	var spent time.Duration
	for round := 0; ctx.Err() == nil; round++ {
		start := phase.Now()
		if err := r.Round(ctx, clients); err != nil {
			return err
		}
		took := time.Duration(phase.Now() - start)
		if round > 0 && spent >= warm && len(samples) < exchange.MostTimed && !c.coded() {
			samples = append(samples, took.Seconds())
		}
		spent += took
		if round == len(c.hashes) {
			c.hashes = append(c.hashes, r.Model.Hash())
		}
		if !more(round, len(samples)) {
			break
		}
	}
	if len(samples) > 0 {
		c.work = append(c.work, samples)
	}
	return ctx.Err()
}
