package bench

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/session"
)

// block runs one block of c, and keeps it if a round was timed.
func (r *run) block(ctx, quit context.Context, c *cell) error {
	s := &session.Run{Slow: r.slow(c)}
	if err := r.next(ctx, quit, c, s, r.label(c)); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if c.result.Program != result.Base { // rpc-empty describes this build only
		r.keepPings(c.Spec, s.Pings)
	}
	if s.Software != nil { // a block that ended early has no report of its software
		c.result.Software = s.Software
	}
	if len(s.Block.Round) > 0 {
		c.spent += charge(s.Block)
		thin(s.Block, c.Clients, c.Workers)
		c.result.Blocks = append(c.result.Blocks, *s.Block)
	}
	return nil
}

// next runs s as the next block of c, on the link of c, and compares its models with the reference
// chain. what names the block in progress reports.
func (r *run) next(ctx, quit context.Context, c *cell, s *session.Run, what string) (err error) {
	round := time.Duration(0)
	if blocks := c.result.Timed(); len(blocks) > 0 {
		round = blocks[0].RoundTime() / time.Duration(len(blocks[0].Round))
	}
	b := &result.Block{
		Index: len(c.result.Blocks), Position: r.done, At: time.Since(r.started), Profiled: s.Profiling != nil,
		Warmup: c.Warmup(r.Plan, r.cycle, round),
	}
	s.Spec, s.Plan, s.Chain, s.Block = c.Spec, r.Plan, c.chain, b
	s.Plan.Warmup = b.Warmup
	s.OnRound = func() { r.progress(what) }
	s.OnRound()
	b.Link, err = onLink(c.Spec, func() (err error) {
		if c.program != nil {
			err = r.blockThere(ctx, quit, c, s)
		} else {
			err = r.here.Run(ctx, quit, s)
		}
		if err != nil {
			return err
		}
		return r.compare(ctx, c, s)
	})
	if err != nil {
		return fmt.Errorf("block %d: %w", b.Index, err)
	}
	r.done++
	return nil
}

// blockThere runs s, a block of c, in a process of its program.
func (r *run) blockThere(ctx, quit context.Context, c *cell, s *session.Run) error {
	burn := 0.0
	if c.canary == canarySlow && c.result.IsPeer() {
		burn = r.Canary
	}
	debug.FreeOSMemory() // so that garbage of the reference chain is not collected during the block
	start := time.Now()
	a, err := c.program.Block(ctx, quit, s, r.Python.Dir, burn, c.slowest)
	c.slowest = max(c.slowest, time.Since(start))
	if err != nil {
		return err
	}
	if a.Software != nil { // it may have loaded more software since the first order
		r.result.ProgramOf(&c.result).Software = a.Software
	}
	if a.Unproved != "" && len(s.Block.Round) > 0 { // there are no hashes to compare
		s.Chain, c.result.Unproved = nil, cmp.Or(c.result.Unproved, a.Unproved)
	}
	return nil
}

// leastCharge is the least time that a block is charged for. Starting and ending a
// session takes longer than the timed rounds of a fast cell, which would otherwise spend
// minutes on seconds of rounds.
const leastCharge = 100 * time.Millisecond

func charge(b *result.Block) time.Duration {
	return max(b.RoundTime(), leastCharge)
}

// compare compares the models of a block of c with the reference chain. Time to extend
// the chain does not count as time of the block.
func (r *run) compare(ctx context.Context, c *cell, s *session.Run) error {
	what := fmt.Sprintf("reference chain of %s, clients=%d", c.result.Model.Label(), c.Clients)
	s.OnRound = func() { r.progress(what) }
	start := time.Now()
	err := s.Compare(ctx)
	if err == nil && s.Block.Proof.Hashed > 0 && c.result.Coding == nil {
		c.result.Coding, err = c.chain.Coding(ctx, c.Spec)
	}
	r.pace.apart += time.Since(start)
	return err
}
