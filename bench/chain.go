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

// A chain is the reference of all cells that compute the same: the hash of the model
// after every round, made by the same arithmetic that
// server and workers do, called directly. What it takes is the floor called
// work.
type chain struct {
	cell   Spec // one of them
	key    chainKey
	seed   uint64
	hashes []uint64
	coding *Coding     // see observe
	work   [][]float64 // seconds a round, by block
}

// workRounds are measured in every block of the floor.
const workRounds = 5

// extend makes the chain at least as long as rounds, and calls each, unless it is
// nil, after every round. It measures the work as it goes. The memory is given
// back at the end. Blocks are compared with the chain after they have run: no
// worker waits for it, and it is at most an eighth longer than they need.
func (c *chain) extend(ctx context.Context, rounds int, warm time.Duration, each func(round int)) error {
	if len(c.hashes) >= rounds {
		return nil
	}
	rounds += rounds / 8 // the next block may have some more
	return c.run(ctx, warm, func(round, _ int) bool {
		if each != nil {
			each(round)
		}
		return round+1 < rounds
	})
}

// coded reports whether a codec is part of the chain: then what it takes is no floor.
func (c *chain) coded() bool { return c.key.codec != "" }

// reference returns what does the rounds, from the first one.
func (c *chain) reference() (*trainer.Reference, error) {
	r := trainer.NewReference(c.cell.Model.Layout, c.cell.up().Layout, c.seed)
	r.Fold = c.cell.fold()
	if c.coded() {
		r.Through(c.cell.Variant.Codec(), c.key.alone)
	}
	return r, c.cell.init(r.Model, c.seed)
}

// compare reports the first of the models' hashes of a session that the chain does not
// have, and its first tensor that is wrong, if running has the hashes after each. The
// chain is long enough.
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

// wrong names the first tensor of a round's model after which the hash is not that of
// the chain, which does the rounds again.
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

// measure takes some rounds of work for the floor.
func (c *chain) measure(ctx context.Context, warm time.Duration) error {
	return c.run(ctx, warm, func(_, samples int) bool { return samples < workRounds })
}

// run does rounds from the first one for as long as more says so, and keeps what
// they take once they have taken warm.
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
